"""One server, looked at turn by turn."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from local.supervision import processes
from local.supervision.server import Server
from local.supervision.service import RestartPolicy, Service

SLEEPS = (sys.executable, "-c", "import time; time.sleep(3600)")
_QUICK = RestartPolicy(restarts=1, first_s=0.05)
Make = Callable[[Service], Server]


@pytest.fixture
def said() -> list[str]:
    """What servers say of themselves."""
    return []


@pytest.fixture
def make(tmp_path: Path, said: list[str]) -> Iterator[Make]:
    made: list[Server] = []

    def server(service: Service) -> Server:
        made.append(Server(service, tmp_path, _QUICK, said.append))
        return made[-1]

    yield server
    for server_ in made:
        processes.end([server_.session] if server_.session else [], 0)
        server_.stopped()


def until(server: Server, state: str, *, restarts: int = 0) -> None:
    for _ in range(600):
        server.look(may_start=True)
        if (server.state.state, server.state.restarts) == (state, restarts):
            return
        time.sleep(0.05)
    raise AssertionError(server.state)


def test_it_waits_until_it_may_start(make: Make) -> None:
    server = make(Service(name="a", command=SLEEPS))
    server.look(may_start=False)
    assert (server.state.state, server.session) == ("waiting", None)
    server.look(may_start=True)
    assert server.state.state == "running"
    assert server.state.process is not None
    assert server.state.process.pid == server.session


def test_it_is_started_again_and_given_up_and_says_so(make: Make, said: list[str], tmp_path: Path) -> None:
    server = make(Service(name="a", command=SLEEPS))
    for restarts in (0, 1):
        until(server, "running", restarts=restarts)
        assert server.session is not None
        processes._send([server.session], signal.SIGTERM)
        until(server, "restarting" if restarts == 0 else "given up", restarts=restarts)
    assert (server.state.cause, server.state.exit_code) == ("it was ended by SIGTERM", 143)
    why = f"it was ended by SIGTERM; see {tmp_path}/a.log"
    assert said == ["a running", f"a restarting: {why}", "a running", f"a given up: {why}"]
    server.try_again()
    until(server, "running")


def test_what_never_answers_is_ended(make: Make) -> None:
    url = "http://127.0.0.1:1/"  # nobody listens there
    server = make(Service(name="a", command=SLEEPS, health=url, start_s=0.1))
    until(server, "starting")
    first = server.session
    until(server, "starting", restarts=1)
    assert first is not None
    assert not processes.members([first])
    assert server.state.cause == "it did not answer for 0 s"


def test_what_has_to_be_done_once_is_done_when_it_ends_well(make: Make) -> None:
    server = make(Service(name="a", command=(sys.executable, "-c", ""), once=True))
    until(server, "done")
    assert server.session is None


def test_somebody_with_the_number_of_a_dead_server_is_left_alone() -> None:
    me = processes.identity(os.getpid())
    assert processes.alive(me)
    assert not processes.left_behind(me.model_copy(update={"born": me.born - 60}))
    assert not processes.alive(me.model_copy(update={"born": me.born - 60}))
