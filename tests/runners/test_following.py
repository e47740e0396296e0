"""A follower that is killed, and another that goes on where it stopped."""

import itertools
import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from ratchet.contracts.errors import NoAnswer, Unavailable
from ratchet.contracts.labels import Label
from ratchet.runners import following
from ratchet.runners.docker import DockerRunner
from ratchet.runners.engine import EngineSilent
from ratchet.runners.following import follow_to_end, retry_unavailable
from ratchet.runners.job import Job
from ratchet.runners.log.lines import Line
from ratchet.runners.runner import Runner
from tests.waiting import until

LONG = "x" * 40_000
GATES = (750, 1500, 2250)
"""Before each of these numbers it waits for a file."""
PRINTS = f"""if 1:
    import os, sys, time
    for i in range(3000):
        while i in {GATES} and not os.path.exists(f"/tmp/go-on-{{i}}"):
            time.sleep(0.05)
        sys.stdout.write(f"{{i}}\\n" if i % 5 else f"{{i}}\\r")
        if i % 7 == 0:
            sys.stdout.flush()
            print(f"{{i}}", file=sys.stderr)
            time.sleep(0.02)
        if i % 100 == 50:
            sys.stdout.write("half "); sys.stdout.flush(); time.sleep(0.01); sys.stdout.write("and half\\n")
        if i % 500 == 250:
            print("{LONG}", flush=True)
"""
FOLLOWER = """if 1:
    import os, sys
    from ratchet.runners.docker import DockerRunner
    from ratchet.runners.following import follow_to_end
    from ratchet.runners.job import Job
    file = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)
    job = Job(name="job", request=b"")
    follow_to_end(DockerRunner(), sys.argv[1], job, lambda line: os.write(file, f"{line.stream} {line.text}\\n".encode()), resume=True)
"""


def _printed(number: int) -> list[str]:
    """The lines of stdout for one number."""
    return [str(number), *["half and half"] * (number % 100 == 50), *[LONG] * (number % 500 == 250)]


def _open(handle: str, *gates: int) -> None:
    """Let it print on. So each follower hears something, however late it begins and however late it is killed."""
    subprocess.run(["docker", "exec", handle, "touch", *(f"/tmp/go-on-{gate}" for gate in gates)], check=True)


def _follow_and_be_killed(handle: str, log: Path) -> None:
    """A process that follows until it has added some 2,000 bytes to the log."""
    size = log.stat().st_size + 2_000
    with subprocess.Popen([sys.executable, "-c", FOLLOWER, handle, log]) as follower:
        until(lambda: follower.poll() is not None or log.stat().st_size >= size, seconds=60, every=0.001)
        assert follower.poll() is None
        follower.kill()
    os.truncate(log, log.read_bytes().rindex(b"\n") + 1)  # a line of which the kill let it write a part was not output


@pytest.fixture
def job(stage_image: str) -> Iterator[Job]:
    labels = {Label.TEST: "1", Label.TEST_ID: uuid.uuid4().hex}
    yield Job(name="job", request=b"", image=stage_image, command=("python", "-I", "-S", "-c", PRINTS), labels=labels)
    for handle in DockerRunner().find(labels):
        DockerRunner().remove(handle)


@pytest.mark.docker
def test_followers_that_are_killed_lose_no_line_and_repeat_at_most_one_each(job: Job, tmp_path: Path) -> None:
    """A kill between the output of a line and the note of it repeats that line."""
    log = tmp_path / "log"
    log.touch()
    parts: list[list[str]] = []
    runner = DockerRunner()
    handle = runner.submit(job)
    for gate in GATES:
        _follow_and_be_killed(handle, log)
        parts.append(log.read_text().splitlines()[sum(map(len, parts)) :])
        _open(handle, gate)
    lines: list[Line] = []
    ended = follow_to_end(runner, handle, job, lines.append, resume=True)
    assert ended.exit_code == 0
    parts.append([f"{line.stream} {line.text}" for line in lines])
    assert all(parts)
    repeats = [after[0] == before[-1] for before, after in itertools.pairwise(parts)]
    whole = parts[0] + [line for repeat, part in zip(repeats, parts[1:], strict=True) for line in part[repeat:]]
    assert [line for line in whole if line.startswith("stderr")] == [f"stderr {i}" for i in range(0, 3000, 7)]
    expected = [line for number in range(3000) for line in _printed(number)]
    assert [line.removeprefix("stdout ") for line in whole if line.startswith("stdout")] == expected
    assert not (Path(tempfile.gettempdir()) / f"ratchet-positions-{os.getuid()}" / handle).exists()


@pytest.mark.docker
def test_without_resume_the_log_comes_from_its_begin(job: Job) -> None:
    runner = DockerRunner()
    handle = runner.submit(job)
    _open(handle, *GATES)
    first = next(iter(runner.logs(handle)))
    lines: list[Line] = []
    follow_to_end(runner, handle, job, lines.append)
    assert lines.count(first) == 1


class BackTooLate:
    """An engine that answers again once its follower has waited in vain."""

    durable = True

    def __init__(self, ended: list[str]) -> None:
        self.stop = self.remove = lambda handle, *_: ended.append(handle)

    def logs(self, *_: object) -> Iterator[Line]:
        raise EngineSilent("it is away")

    status = logs


def test_a_container_goes_on_whose_engine_answers_once_its_follower_has_waited_in_vain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(following, "PATIENCE_S", 0.1)
    ended: list[str] = []
    runner = cast("Runner", BackTooLate(ended))
    with pytest.raises(EngineSilent):
        follow_to_end(runner, uuid.uuid4().hex, Job(name="job", request=b"", grace_s=0), lambda _: None)
    assert ended == []


@pytest.mark.parametrize("kind", [EngineSilent, NoAnswer, Unavailable])
def test_what_was_waited_for_in_vain_is_raised_as_what_it_is(kind: type[Unavailable]) -> None:
    """Else who follows a container does not see that the engine or the store is away, and does not leave it again."""

    def ask() -> None:
        raise kind("it is away", remedy="wait")

    with pytest.raises(kind, match="it is away; retried for") as raised:
        retry_unavailable(ask, 0.1)
    assert (type(raised.value), raised.value.remedy) == (kind, "wait")
