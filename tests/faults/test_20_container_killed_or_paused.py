"""Somebody ends or freezes a stage's container behind the runner's back.

What that means to an attempt, and that it is tried again, is in tests/runs/test_attempt.py.
"""

import uuid
from collections.abc import Callable, Iterator

import docker
import pytest
from docker.utils import kwargs_from_env

from ratchet.contracts.errors import JobGone
from ratchet.contracts.labels import Label
from ratchet.runners.docker import DockerRunner
from ratchet.runners.following import JobEnd, follow_to_end
from ratchet.runners.job import Job
from ratchet.runners.log.lines import Line

pytestmark = pytest.mark.docker

LABELS = {Label.TEST: "1"}
SAVES = """if 1:
    import signal, sys
    signal.signal(signal.SIGTERM, lambda *_: (print("saved", flush=True), sys.exit(75)))
    print("ready", flush=True)
    signal.pause()
"""
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True)\nwhile True: signal.pause()"


@pytest.fixture
def api() -> Iterator[docker.APIClient]:
    with docker.APIClient(**kwargs_from_env()) as client:
        yield client


@pytest.fixture
def follow(stage_image: str, api: docker.APIClient) -> Iterator[Callable[..., tuple[JobEnd, list[str]]]]:
    """Follows a program; calls `act` with the container when it is ready. At the end nothing may be left of it."""
    labels = {**LABELS, Label.TEST_ID: uuid.uuid4().hex}

    def run(program: str, act: Callable[[str], None], **limits: float) -> tuple[JobEnd, list[str]]:
        command = ("python", "-I", "-S", "-c", program)
        job = Job(name="job", request=b"", image=stage_image, command=command, labels=labels, **limits)  # type: ignore[arg-type]  # a test's shorthand
        runner = DockerRunner()
        handle = runner.submit(job)
        lines: list[str] = []

        def hear(line: Line) -> None:
            lines.append(line.text)
            if line.text == "ready":
                act(handle)

        return follow_to_end(runner, handle, job, hear), lines

    yield run
    wanted = {"label": [f"{Label.TEST_ID}={labels[Label.TEST_ID]}"]}
    left = api.containers(all=True, filters=wanted)
    for container in left:
        api.remove_container(container["Id"], v=True, force=True)
    assert (left, api.volumes(filters=wanted)["Volumes"] or []) == ([], [])


def test_a_container_that_is_killed_counts_as_killed_from_outside_and_not_as_out_of_memory(
    follow: Callable[..., tuple[JobEnd, list[str]]], api: docker.APIClient
) -> None:
    ended, lines = follow(SAVES, api.kill)
    assert (ended.exit_code, ended.out_of_memory, ended.timed_out, ended.cause) == (137, False, False, "")
    assert lines == ["ready"]


def test_a_container_that_is_removed_by_force_is_said_to_be_gone(
    follow: Callable[..., tuple[JobEnd, list[str]]], api: docker.APIClient
) -> None:
    with pytest.raises(JobGone, match=r"container \w{12} is gone"):
        follow(SAVES, lambda handle: api.remove_container(handle, v=True, force=True))


def test_a_paused_container_meets_its_timeout_and_still_saves_its_work(
    follow: Callable[..., tuple[JobEnd, list[str]]], api: docker.APIClient
) -> None:
    ended, lines = follow(SAVES, api.pause, timeout_s=15, grace_s=20)
    assert (ended.exit_code, ended.timed_out, lines) == (75, True, ["ready", "saved"])


def test_a_paused_container_that_does_not_listen_is_killed(
    follow: Callable[..., tuple[JobEnd, list[str]]], api: docker.APIClient
) -> None:
    ended, _ = follow(DEAF, api.pause, timeout_s=15, grace_s=1)
    assert (ended.exit_code, ended.timed_out, ended.out_of_memory) == (137, True, False)
