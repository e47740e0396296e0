"""A real supervisor of real servers: it restarts a dead one, gives up a broken one, and leaves no process behind."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from local.supervision import processes, supervisor
from local.supervision.service import Service
from local.supervision.state import ServerState, read
from local.supervision.supervisor import end_orphans, supervise
from ratchet.contracts.errors import ConfigurationError
from tests.ports import hold, number
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[3]


class SupervisorHome:
    """A home with a supervisor, which a test may kill."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.held = hold()
        self.port = number(self.held)
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [
                sys.executable,
                str(ROOT / "tests" / "local" / "supervision" / "supervisor_process.py"),
                str(self.home),
                str(self.port),
            ],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=subprocess.DEVNULL,
        )

    def server(self, name: str) -> ServerState | None:
        known = read(self.home)
        return next((server for server in known.servers if server.name == name), None) if known else None

    def until(self, name: str, condition: Callable[[ServerState], bool]) -> ServerState:
        """Wait until a server is in a state."""

        def found() -> ServerState | None:
            server = self.server(name)
            return server if server is not None and condition(server) else None

        return until(found, seconds=60)

    def running(self, name: str, *, restarts: int = 0) -> int:
        """The number of a server's process, once it runs."""
        found = self.until(name, lambda server: server.state == "running" and server.restarts == restarts)
        assert found.process is not None
        return found.process.pid

    def stubborn(self) -> int:
        """The number of the process that does not end when it is asked to, once it no longer does."""
        pid = self.running("stubborn")
        until((self.home / f"stubborn-{pid}").exists)
        return pid

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[SupervisorHome]:
    made = SupervisorHome(tmp_path)
    try:
        yield made
    finally:
        made.stop()
        end_orphans(tmp_path)
        made.held.close()


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or a zombie."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def gone(*pids: int) -> None:
    """Wait until these processes have ended."""
    until(lambda: all(map(has_ended, pids)), seconds=60)


def worker_of(kept: SupervisorHome, pid: int) -> int:
    return int((kept.home / f"worker-{pid}").read_text())


def test_a_killed_server_comes_back_without_its_old_workers(kept: SupervisorHome) -> None:
    first = kept.running("answers")
    worker = worker_of(kept, first)
    os.kill(first, signal.SIGKILL)
    second = kept.running("answers", restarts=1)
    assert second != first
    gone(worker)
    found = kept.server("answers")
    assert found is not None
    assert (found.exit_code, found.address) == (137, f"http://127.0.0.1:{kept.port}")
    assert found.cause == "it was ended by SIGKILL (killed by a person, or for its memory)"


def test_a_server_that_does_not_answer_is_restarted(kept: SupervisorHome) -> None:
    first = kept.running("answers")
    (kept.home / "deaf").touch()
    found = kept.until("answers", lambda server: server.cause != "")
    assert found.cause == "it did not answer for 8 s"
    (kept.home / "deaf").unlink()
    kept.until("answers", lambda server: server.state == "running" and server.restarts > 0)
    gone(first)


def test_a_server_that_keeps_dying_is_given_up_and_retried_on_request(kept: SupervisorHome) -> None:
    for name, cause, code in (
        ("broken", "it ended with exit code 3", 3),
        ("missing", "cannot start it: [Errno 2] No such file or directory: './no-such-program'", None),
    ):
        found = kept.until(name, lambda server: server.state == "given up")
        assert (found.cause, found.exit_code, found.restarts) == (cause, code, 5)
    kept.running("answers")
    (kept.home / "mended").touch()
    kept.process.send_signal(signal.SIGHUP)
    kept.running("broken")


def test_a_first_step_runs_once(kept: SupervisorHome) -> None:
    os.kill(kept.running("answers"), signal.SIGKILL)
    kept.running("answers", restarts=1)
    found = kept.server("prepare")
    assert found is not None
    assert (found.state, found.restarts, found.once) == ("done", 0, True)


def test_a_stop_ends_every_process_also_a_stubborn_one(kept: SupervisorHome) -> None:
    first, stubborn = kept.running("answers"), kept.stubborn()
    worker = worker_of(kept, first)
    kept.stop()
    assert not processes.members({first, stubborn})
    gone(worker)
    known = read(kept.home)
    assert known is not None
    assert {server.state for server in known.servers} == {"stopped"}
    assert not processes.is_alive(known.supervisor)


def test_the_next_supervisor_ends_what_a_killed_one_left(kept: SupervisorHome) -> None:
    first, stubborn = kept.running("answers"), kept.stubborn()
    worker = worker_of(kept, first)
    kept.process.kill()
    kept.process.wait()
    gone(first)  # the kernel sends the signal
    assert processes.members({stubborn})
    (kept.home / "prepared").unlink()
    kept.process = kept.start()
    gone(stubborn, worker)
    found = kept.until("answers", lambda server: server.process is not None and server.process.pid != first)
    assert found.state in {"waiting", "starting", "running"}


def test_stopping_after_the_supervisor_was_killed_ends_what_it_left(kept: SupervisorHome) -> None:
    stubborn = kept.stubborn()
    assert end_orphans(kept.home) == []  # it lives, and so do its servers
    kept.process.kill()
    kept.process.wait()
    assert "stubborn" in end_orphans(kept.home, 0.1)
    gone(stubborn)
    known = read(kept.home)
    assert known is not None
    assert {server.state for server in known.servers} == {"stopped"}


def test_a_killed_supervisors_lock_is_waited_for_while_a_child_that_it_was_starting_has_it(
    kept: SupervisorHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_STARTING_S", 30.0)
    stubborn = kept.stubborn()
    kept.process.kill()
    kept.process.wait()
    with (kept.home / "supervisor.lock").open("wb") as child:
        fcntl.flock(child, fcntl.LOCK_EX)
        soon = threading.Timer(0.3, lambda: fcntl.flock(child, fcntl.LOCK_UN))
        soon.start()
        assert "stubborn" in end_orphans(kept.home, 0.1)
        soon.join()
    gone(stubborn)


def test_there_is_one_supervisor_of_a_home(kept: SupervisorHome) -> None:
    first = kept.running("answers")
    assert kept.start().wait(30) == 7
    assert kept.running("answers") == first


def test_an_unknown_after_is_an_error(tmp_path: Path) -> None:
    service = Service(name="a", command=("true",), after="b")
    with pytest.raises(ConfigurationError, match="a waits for 'b'; there are: a; to do: name one of them"):
        supervise([service], tmp_path)
