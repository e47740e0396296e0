"""A follower that is killed, and another that goes on where it stopped."""

import itertools
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.labels import Label
from ratchet.runners.docker import DockerRunner
from ratchet.runners.following import follow_to_end
from ratchet.runners.job import Job
from ratchet.runners.log.lines import Line
from ratchet.runners.log.position import Mark, Position, PositionFile, discard

NUMBERS = """if 1:
    import sys, time
    for i in range(3000):
        sys.stdout.write(f"{i}\\n" if i % 5 else f"{i}\\r")
        if i % 7 == 0:
            sys.stdout.flush()
            print(f"{i}", file=sys.stderr)
            time.sleep(0.005)
        if i % 100 == 50:
            sys.stdout.write("half "); sys.stdout.flush(); time.sleep(0.01); sys.stdout.write("and half\\n")
"""
FOLLOWER = """if 1:
    import os, sys
    from ratchet.runners.docker import DockerRunner
    from ratchet.runners.job import Job
    from ratchet.runners.following import follow_to_end
    file = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)
    job = Job(name="job", request=b"")
    follow_to_end(DockerRunner(), sys.argv[1], job, lambda line: os.write(file, f"{line.stream} {line.text}\\n".encode()), resume=True)
"""


@pytest.fixture
def job(stage_image: str) -> Iterator[Job]:
    labels = {Label.TEST: "1", Label.TEST_ID: uuid.uuid4().hex}
    yield Job(name="job", request=b"", image=stage_image, command=("python", "-I", "-S", "-c", NUMBERS), labels=labels)
    for handle in DockerRunner().find(labels):
        DockerRunner().remove(handle)


@pytest.mark.docker
def test_followers_that_are_killed_and_followed_by_others_hear_every_line(job: Job, tmp_path: Path) -> None:
    """Each once; but of a kill between a line's way out and the note of it, that one line twice rather than never."""
    heard = tmp_path / "heard"
    heard.touch()
    heard_by: list[list[str]] = []
    runner = DockerRunner()
    handle = runner.submit(job)
    for wanted in (2_000, 6_000, 12_000):
        with subprocess.Popen([sys.executable, "-c", FOLLOWER, handle, heard]) as follower:
            deadline = time.monotonic() + 60
            while heard.stat().st_size < wanted:
                assert follower.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.001)
            follower.kill()
        heard_by.append(heard.read_text().splitlines()[sum(map(len, heard_by)) :])
    lines: list[Line] = []
    ended = follow_to_end(runner, handle, job, lines.append, resume=True)
    assert ended.exit_code == 0
    heard_by.append([f"{line.stream} {line.text}" for line in lines])
    assert all(heard_by)
    told_again = [after[0] == before[-1] for before, after in itertools.pairwise(heard_by)]
    all_heard = heard_by[0] + [
        line for again, after in zip(told_again, heard_by[1:], strict=True) for line in after[again:]
    ]
    assert [line for line in all_heard if line.startswith("stderr")] == [f"stderr {i}" for i in range(0, 3000, 7)]
    halves = "half and half"
    expected = [line for i in range(3000) for line in ([f"{i}", halves] if i % 100 == 50 else [f"{i}"])]
    assert [line.removeprefix("stdout ") for line in all_heard if line.startswith("stdout")] == expected
    assert not (Path(tempfile.gettempdir()) / f"ratchet-positions-{os.getuid()}" / handle).exists()


@pytest.mark.docker
def test_without_resume_the_log_comes_from_its_begin(job: Job) -> None:
    runner = DockerRunner()
    handle = runner.submit(job)
    first = next(iter(runner.logs(handle)))
    lines: list[Line] = []
    follow_to_end(runner, handle, job, lines.append)
    assert lines.count(first) == 1


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path / f"ratchet-positions-{os.getuid()}"


def test_what_is_kept_is_for_this_user_alone_and_comes_back(folder: Path) -> None:
    position = Position((Mark(b"2026-11-21T10:46:00.000000001Z", 2, held=True), Mark()))
    with PositionFile("a") as kept:
        assert kept.read() == Position()
        kept.write(position)
    with PositionFile("a") as kept:
        assert kept.read() == position
    assert [oct(path.stat().st_mode & 0o777) for path in (folder, folder / "a")] == ["0o700", "0o600"]
    discard("a")
    discard("a")
    assert list(folder.iterdir()) == []


def test_a_folder_that_others_may_write_to_is_refused(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(ConfigurationError, match="not a private folder"):
        PositionFile("a")
