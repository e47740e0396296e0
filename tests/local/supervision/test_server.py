"""One server, poll by poll."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from local.supervision import processes
from local.supervision.server import Server
from local.supervision.service import RestartPolicy, Service
from tests.waiting import until

SLEEPS = (sys.executable, "-c", "import time; time.sleep(3600)")
_QUICK = RestartPolicy(restarts=1, first_s=0.05)
Make = Callable[[Service], Server]


@pytest.fixture
def logged() -> list[str]:
    """What servers log."""
    return []


@pytest.fixture
def make(tmp_path: Path, logged: list[str]) -> Iterator[Make]:
    made: list[Server] = []

    def server(service: Service) -> Server:
        made.append(Server(service, tmp_path, _QUICK, logged.append))
        return made[-1]

    yield server
    for server_ in made:
        processes.end([server_.session] if server_.session else [], 0)
        server_.mark_stopped()


def wait_for(server: Server, state: str, *, restarts: int = 0) -> None:
    def reached() -> bool:
        server.poll(may_start=True)
        return (server.state.state, server.state.restarts) == (state, restarts)

    until(reached)


def test_a_long_log_begins_anew_while_its_server_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "LONGEST_LOG", 100)
    log = tmp_path / "a.log"

    def has(begin: str) -> bool:
        return begin in log.read_text()

    prints = "for line in open(0): print(line.strip(), flush=True)"
    with log.open("ab") as out:  # as `launch` opens it
        running = subprocess.Popen([sys.executable, "-c", prints], stdin=subprocess.PIPE, stdout=out, text=True)
    assert running.stdin is not None
    for place, length in enumerate((60, 60, 60)):
        running.stdin.write(f"{place}{'x' * length}\n")
        running.stdin.flush()
        until(partial(has, f"{place}x"))
        processes.keep_short(log)
    running.stdin.close()
    assert running.wait(30) == 0
    assert log.read_text() == f"2{'x' * 60}\n"
    assert [line[0] for line in log.with_name("a.log.1").read_text().splitlines()] == ["0", "1"]
    processes.keep_short(tmp_path / "none.log")


def test_it_waits_until_it_may_start(make: Make) -> None:
    server = make(Service(name="a", command=SLEEPS))
    server.poll(may_start=False)
    assert (server.state.state, server.session) == ("waiting", None)
    server.poll(may_start=True)
    assert server.state.state == "running"
    assert server.state.process is not None
    assert server.state.process.pid == server.session


def test_it_is_restarted_and_given_up_and_logs_both(make: Make, logged: list[str], tmp_path: Path) -> None:
    server = make(Service(name="a", command=SLEEPS))
    for restarts in (0, 1):
        wait_for(server, "running", restarts=restarts)
        assert server.session is not None
        processes._send([server.session], signal.SIGTERM)
        wait_for(server, "restarting" if restarts == 0 else "given up", restarts=restarts)
    assert (server.state.cause, server.state.exit_code) == ("it was ended by SIGTERM", 143)
    why = f"it was ended by SIGTERM; read {tmp_path}/a.log"
    assert logged == ["a running", f"a restarting: {why}", "a running", f"a given up: {why}"]
    server.retry()
    wait_for(server, "running")


def test_a_server_that_never_answers_is_ended(make: Make) -> None:
    url = "http://127.0.0.1:1/"  # nobody listens there
    server = make(Service(name="a", command=SLEEPS, health=url, start_s=0.1))
    wait_for(server, "starting")
    first = server.session
    wait_for(server, "starting", restarts=1)
    assert first is not None
    assert not processes.members([first])
    assert server.state.cause == "it did not answer for 0 s"


def test_a_step_is_done_when_it_exits_with_0(make: Make) -> None:
    server = make(Service(name="a", command=(sys.executable, "-c", ""), once=True))
    wait_for(server, "done")
    assert server.session is None


def test_a_later_process_with_the_number_of_a_dead_server_is_not_touched() -> None:
    me = processes.identity(os.getpid())
    assert processes.is_alive(me)
    assert not processes.owns_session(me.model_copy(update={"born": me.born - 60}))
    assert not processes.is_alive(me.model_copy(update={"born": me.born - 60}))
