"""What candidate and champion cost to serve: the time for a batch, the bytes of their files."""

import time
from collections.abc import Callable, Sequence

from ratchet.contracts.gate import Gate
from ratchet.contracts.result import StageResult

TURNS = 15
"""Pairs of times. The bounds of their median ratio hold if up to three turns are disturbed."""
_FILES = ("weights", "description", "code")


def time_in_turns(
    gate: Gate, candidate: Callable[[], object], champion: Callable[[], object]
) -> Sequence[tuple[float, float]]:
    """Seconds of (candidate, champion), in turns, so that a busy machine slows both; none if the gate has no limit."""
    if gate.max_latency is None:
        return ()
    candidate(), champion()  # the first call of each loads what the next ones need
    return [(_seconds(candidate), _seconds(champion)) for _ in range(TURNS)]


def size_of(trained: StageResult) -> int:
    """The bytes of a model's files."""
    return sum(trained.outputs[name].bytes for name in _FILES if name in trained.outputs)


def _seconds(score: Callable[[], object]) -> float:
    start = time.perf_counter()
    score()
    return time.perf_counter() - start
