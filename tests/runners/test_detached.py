"""Real containers that are stopped by processes that are gone before the containers end."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import pytest
from docker.utils import kwargs_from_env

from ratchet.contracts.labels import Label
from ratchet.runners.detached import end_container, end_later
from ratchet.runners.docker import DockerRunner
from ratchet.runners.job import Job
from ratchet.store.base import Store
from ratchet.store.ending import mark_ending
from ratchet.store.lease import Waiter, holder_of, new_lease
from ratchet.store.opening import open_store
from tests.waiting import until

pytestmark = pytest.mark.docker

SAVES = """if 1:
    import os, signal, sys, time
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    print("ready", flush=True)
    signal.sigwait({signal.SIGTERM})
    time.sleep(1)
    print("saved", flush=True)
    sys.exit(75)
"""
"""Blocks the signal before it waits for it: between a look and `signal.pause` one would be lost."""
SAVES_LONG = SAVES.replace("time.sleep(1)", "while not os.path.exists('/tmp/go-on'): time.sleep(0.05)")
"""Saves until a file is there."""
LEASE = "leases/one.json"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True)\nwhile True: signal.pause()"


@pytest.fixture
def submit(stage_image: str) -> Iterator[Callable[[str], str]]:
    """Starts a program in a container, and waits for its first word."""
    labels = {Label.TEST: "1", Label.TEST_ID: uuid.uuid4().hex}
    runner = DockerRunner()

    def make(program: str) -> str:
        command = ("python", "-I", "-S", "-c", program)
        handle = runner.submit(Job(name="job", request=b"", image=stage_image, command=command, labels=labels))
        assert next(iter(runner.logs(handle))).text == "ready"
        return handle

    yield make
    for handle in runner.find(labels):
        runner.remove(handle)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = open_store((tmp_path / "store").as_uri())
    made.prepare()
    return made


def _processes_of(handle: str) -> list[Path]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"ratchet.runners.detached" in words and handle.encode() in words:
            found.append(process)
    return found


def _there(handle: str) -> bool:
    with docker.APIClient(**kwargs_from_env()) as api:
        return bool(api.containers(all=True, filters={"id": handle}))


def test_a_notice_returns_at_once_and_the_stage_saves_its_work(submit: Callable[[str], str]) -> None:
    runner, handle = DockerRunner(), submit(SAVES_LONG)
    runner.notify(handle)
    assert runner.status(handle).running
    subprocess.run(["docker", "exec", handle, "touch", "/tmp/go-on"], check=True)
    assert runner.wait(handle, 60).exit_code == 75
    runner.notify(handle)
    runner.remove(handle)
    runner.notify(handle)


def test_a_paused_container_is_woken_up_for_its_notice(submit: Callable[[str], str]) -> None:
    runner, handle = DockerRunner(), submit(SAVES)
    with docker.APIClient(**kwargs_from_env()) as api:
        api.pause(handle)
    runner.notify(handle)
    assert runner.wait(handle, 20).exit_code == 75
    runner.remove(handle)


CALLER = """if 1:
    import os, sys, time
    from ratchet.runners.detached import end_later
    begin = time.monotonic()
    end_later(sys.argv[1], float(sys.argv[2]), store=sys.argv[3], lease="leases/one.json", holder="me")
    assert time.monotonic() - begin < 4
    os.write(1, b"done")
    time.sleep(600)
"""


@pytest.mark.parametrize(("program", "grace_s"), [(SAVES, 60), (DEAF, 1)])
def test_the_process_outlives_its_caller_and_removes_the_container(
    submit: Callable[[str], str], store: Store, program: str, grace_s: float
) -> None:
    handle = submit(program)
    caller = [sys.executable, "-c", CALLER, handle, str(grace_s), store.uri]
    with subprocess.Popen(caller, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.read(4) == b"done"
        os.killpg(process.pid, signal.SIGKILL)
        assert process.stdout.read() == b""  # nobody else holds the pipe
    until(lambda: not _there(handle))
    until(lambda: not _processes_of(handle))


def same(descriptor: Path, as_that: os.stat_result) -> bool:
    """Whether another process has that file open. What it closes meanwhile it had opened itself, so that was another."""
    try:
        return os.path.samestat(descriptor.stat(), as_that)
    except FileNotFoundError:
        return False


def test_the_process_shares_nothing_with_its_caller_and_has_a_limit(submit: Callable[[str], str], store: Store) -> None:
    handle = submit(DEAF)
    with Path(os.devnull).open("rb") as inheritable:
        os.set_inheritable(inheritable.fileno(), True)  # noqa: FBT003 - the system's own
        end_later(handle, 300, store=store.uri, lease=LEASE, holder="me")
        until(lambda: _processes_of(handle))
        (process,) = _processes_of(handle)
        until(lambda: "SigIgn:\t0000000000000000" not in (process / "status").read_text())
        assert os.getsid(int(process.name)) != os.getsid(0)
        assert os.getpgid(int(process.name)) != os.getpgid(0)
        for number in (0, 1, 2):
            assert (process / f"fd/{number}").readlink() == Path(os.devnull)
        mine = os.fstat(inheritable.fileno())
        others = [file for file in (process / "fd").iterdir() if int(file.name) > 2]
        assert not any(same(file, mine) for file in others)
    os.kill(int(process.name), signal.SIGALRM)  # its own alarm, 360 s from now, is the same signal
    until(lambda: not _processes_of(handle))
    DockerRunner().remove(handle)


def test_who_holds_the_lease_says_in_it_that_the_computation_ends(submit: Callable[[str], str], store: Store) -> None:
    handle = submit(DEAF)
    hold = Waiter(store, LEASE, new_lease("run", "me")).take()
    assert hold is not None
    end_later(handle, 1, store=store.uri, lease=LEASE, holder="me")
    until(lambda: not _there(handle))
    standing = holder_of(store, LEASE)
    assert standing is not None
    assert standing.ending
    assert hold.release()


def test_what_another_has_taken_over_is_left_alone(submit: Callable[[str], str], store: Store) -> None:
    handle = submit(SAVES)
    hold = Waiter(store, LEASE, new_lease("run", "another")).take()
    assert hold is not None
    end_later(handle, 60, store=store.uri, lease=LEASE, holder="me")
    until(lambda: _processes_of(handle))
    until(lambda: not _processes_of(handle))
    assert DockerRunner().status(handle).running
    standing = holder_of(store, LEASE)
    assert standing is not None
    assert not standing.ending
    assert not mark_ending(store, LEASE, "me")
    assert hold.release()
    assert mark_ending(store, LEASE, "me")


def test_a_container_that_is_gone_is_no_matter() -> None:
    end_container("0" * 64, 10)
