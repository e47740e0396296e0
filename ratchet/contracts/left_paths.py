"""Where the jobs are in the store that tasks have left to the follower of their host.

See `ratchet.runs.left_elsewhere`. Each job has a place of its own: its request, the lines that its follower passes on,
and why its task has to go on.
"""

import hashlib
from collections.abc import Iterable

from ratchet.contracts.paths import join, segment

EVERY = "left"
"""The prefix of the jobs that were left, of all hosts."""
_DIGEST = 32
_JOB, _END, _WHY, _LINES = "job.json", "end", "why.json", "lines-"


def host(installation: str, engine: str) -> str:
    """The prefix of the jobs that an installation has left on the host of an engine."""
    return join("left", hashlib.sha256(f"{installation} {engine}".encode()).hexdigest()[:_DIGEST])


def left(installation: str, engine: str, name: str) -> str:
    """The place of one of them. name: no other job that was left has it, nor the same one that is left once more."""
    return f"{host(installation, engine)}/{segment(name)}"


def is_of(place: str, installation: str, engine: str) -> bool:
    """Whether a place is one of the host of an engine."""
    return place.startswith(f"{host(installation, engine)}/")


def job(place: str) -> str:
    """The request of the job. What has none was not left, or its task has gone on."""
    return f"{place}/{_JOB}"


def end(place: str) -> str:
    """The mark that a person has ended its task."""
    return f"{place}/{_END}"


def why(place: str) -> str:
    """Why its task has to go on. Then nobody follows it."""
    return f"{place}/{_WHY}"


def lines(place: str, number: int) -> str:
    """A part of its lines. Parts are in the order of their names."""
    return f"{place}/{_LINES}{number:08d}.jsonl"


def is_lines(key: str) -> bool:
    """Whether a key is that of such a part."""
    return key.rpartition("/")[2].startswith(_LINES)


def next_lines(keys: Iterable[str]) -> int:
    """The number of a part that comes after all those among these keys."""
    numbers = [key.rpartition(_LINES)[2].partition(".")[0] for key in keys if is_lines(key)]
    return max([int(number) + 1 for number in numbers if number.isdecimal()], default=0)


def place_of(key: str) -> str:
    """The place of the job to which a key belongs."""
    return key.rpartition("/")[0]
