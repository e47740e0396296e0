"""An engine that dies or restarts under a container that is followed. The engine is the test's own."""

import gc
import logging
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import docker
import pytest

from ratchet.contracts.errors import Unavailable
from ratchet.runners import following
from ratchet.runners.detached import end_container
from ratchet.runners.docker import DockerRunner
from ratchet.runners.following import JobEnd, follow_to_end
from ratchet.runners.job import Job
from ratchet.runners.log.lines import Line
from tests.faults.second_engine import IMAGE, NEEDS, SecondEngine

pytestmark = [
    *NEEDS,
    pytest.mark.xdist_group("second-engine"),
]

SAVES = "trap 'echo saved; exit 75' TERM; i=0; while :; do echo $i; i=$((i+1)); sleep 0.05; done"
DEAF = "trap '' TERM; i=0; while :; do echo $i; i=$((i+1)); sleep 0.05; done"


@pytest.fixture(scope="module")
def engine() -> Iterator[SecondEngine]:
    """Started once. The folder's path is short, for sockets have room for 107 bytes."""
    engine = SecondEngine(Path(tempfile.mkdtemp(prefix="engine-", dir="/tmp")))
    try:
        engine.start()
        engine.load_image()
        yield engine
    finally:
        engine.clear()


@pytest.fixture(autouse=True)
def _this_engine(engine: SecondEngine, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("DOCKER_HOST", engine.address)
    yield
    gc.collect()  # here, where the SDK's forgotten sockets are excused
    with docker.APIClient(base_url=engine.address) as api:
        left = api.containers(all=True)
        for container in left:
            api.remove_container(container["Id"], v=True, force=True)
        volumes = api.volumes()["Volumes"] or []
    assert (left, volumes) == ([], [])


class Follower:
    """A container with its follower in a thread, which says when the first lines are there."""

    def __init__(self, pool: ThreadPoolExecutor, program: str, **settings: float) -> None:
        self.job = Job(name="job", request=b"", image=IMAGE, command=("/bin/sh", "-c", program), **settings)  # type: ignore[arg-type]  # a test's shorthand
        self.lines: list[Line] = []
        self._running = threading.Event()
        self.handle = DockerRunner().submit(self.job)
        self.ended: Future[JobEnd] = pool.submit(follow_to_end, DockerRunner(), self.handle, self.job, self._hear)
        assert self._running.wait(30)

    def _hear(self, line: Line) -> None:
        self.lines.append(line)
        if len(self.lines) > 5:
            self._running.set()

    def assert_each_line_came_once(self) -> None:
        numbers = [int(line.text) for line in self.lines if line.text.isdecimal()]
        assert numbers == list(range(len(numbers)))


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def _restart(engine: SecondEngine, *, kindly: bool) -> None:
    engine.stop() if kindly else engine.kill()
    engine.start()


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_a_stage_that_saves_its_work_when_the_engine_restarts_counts_as_preempted(
    engine: SecondEngine, pool: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    followed = Follower(pool, SAVES, grace_s=20)
    with caplog.at_level(logging.WARNING, "tasks"):
        _restart(engine, kindly=how == "stopped")
        ended = followed.ended.result(60)
    assert (ended.exit_code, ended.tail[-1].text) == (75, "saved")
    followed.assert_each_line_came_once()
    assert sum("the Docker engine does not answer" in message for message in caplog.messages) <= 1


def test_one_that_does_not_listen_is_killed_and_the_cause_is_named(
    engine: SecondEngine, pool: ThreadPoolExecutor
) -> None:
    followed = Follower(pool, DEAF, grace_s=1)
    _restart(engine, kindly=False)
    ended = followed.ended.result(60)
    assert (ended.exit_code, ended.out_of_memory, ended.cause) == (137, False, "the Docker engine was restarted")
    followed.assert_each_line_came_once()


def test_a_later_follower_gets_the_error_as_well(engine: SecondEngine) -> None:
    job = Job(name="job", request=b"", image=IMAGE, command=("/bin/sh", "-c", DEAF), grace_s=1)
    handle = DockerRunner().submit(job)
    threading.Event().wait(1.1)  # times are compared in whole seconds
    _restart(engine, kindly=False)
    ended = follow_to_end(DockerRunner(), handle, job, lambda _: None)
    assert (ended.exit_code, ended.cause) == (137, "it was killed, and the Docker engine has been restarted")


def test_one_that_ended_by_itself_meanwhile_has_its_own_exit_code(
    engine: SecondEngine, pool: ThreadPoolExecutor
) -> None:
    followed = Follower(pool, "for i in 0 1 2 3 4 5 6; do echo $i; sleep 0.05; done; sleep 0.5; exit 65")
    engine.kill()
    threading.Event().wait(3)  # the container ends while no engine is there
    engine.start()
    ended = followed.ended.result(60)
    assert (ended.exit_code, ended.cause) == (65, "")
    followed.assert_each_line_came_once()


def test_an_engine_that_stays_away_is_named_when_patience_ends(
    engine: SecondEngine, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "PATIENCE_S", 1.0)
    followed = Follower(pool, DEAF, grace_s=1)
    engine.kill()
    with pytest.raises(Unavailable, match="the Docker engine does not answer"):
        followed.ended.result(60)
    engine.start()
    end_container(followed.handle, 0)


def test_the_end_of_a_container_waits_for_the_engine_too(engine: SecondEngine, pool: ThreadPoolExecutor) -> None:
    job = Job(name="job", request=b"", image=IMAGE, command=("/bin/sh", "-c", DEAF), grace_s=1)
    handle = DockerRunner().submit(job)
    engine.kill()
    finished = pool.submit(end_container, handle, 1)
    engine.start()
    finished.result(60)
    assert DockerRunner().find({}) == []
