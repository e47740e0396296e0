"""The filter as a process: long streams, an engine that goes away, its own health and its end."""

import contextlib
import gc
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import psutil
import pytest

from ratchet.contracts.exits import ExitCode
from ratchet.contracts.labels import Label
from ratchet.runners.docker import DockerRunner
from ratchet.runners.engine import EngineSilent, engine_available
from ratchet.runners.job import Job
from tests.team.engine_filter.running import ROOT, Running, ask, environment, filter_process
from tests.waiting import until

BOUND_S = 30.0


@pytest.fixture
def runner(running: Running, monkeypatch: pytest.MonkeyPatch) -> DockerRunner:
    monkeypatch.setenv("DOCKER_HOST", running.docker_host)
    return DockerRunner()


@pytest.fixture
def started(runner: DockerRunner, stage_image: str) -> Iterator[Callable[[str], str]]:
    """Starts a container with a Python program; gives its id."""
    handles: list[str] = []

    def start(code: str) -> str:
        command = ("python", "-I", "-S", "-c", code)
        labels = {Label.TEST: "1"}
        handles.append(runner.submit(Job(name="job", request=b"", image=stage_image, command=command, labels=labels)))
        return handles[-1]

    yield start
    for handle in handles:
        DockerRunner().remove(handle)


FRAME = 8
"""Bytes before each line that say which stream it is of."""
TALKATIVE = "import sys\nline = 'x' * 999 + '\\n'\nfor _ in range(100): sys.stdout.write(line * 1000)"


@pytest.mark.docker
def test_a_log_of_100_megabytes_goes_through_in_little_memory(
    running: Running, runner: DockerRunner, started: Callable[[str], str]
) -> None:
    handle = started(TALKATIVE)
    runner.wait(handle)
    process = psutil.Process(running.process.pid)
    before, most, count = process.memory_info().rss, 0, 0
    client = http.client.HTTPConnection(running.host, running.port, timeout=60)
    with contextlib.closing(client):
        client.request("GET", f"/v1.41/containers/{handle}/logs?stdout=1")
        response = client.getresponse()
        while piece := response.read1(1 << 16):
            count += len(piece)
            most = max(most, process.memory_info().rss)
    assert count == 100_000 * (1000 + FRAME)
    assert most - before < 30 << 20


@pytest.mark.docker
def test_a_client_that_does_not_read_holds_the_engine_back_and_not_the_memory(
    running: Running, runner: DockerRunner, started: Callable[[str], str]
) -> None:
    handle = started(TALKATIVE)
    runner.wait(handle)
    process = psutil.Process(running.process.pid)
    before = process.memory_info().rss
    with socket.create_connection((running.host, running.port), timeout=60) as client:
        target = f"/v1.41/containers/{handle}/logs?stdout=1&follow=1"
        client.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert client.recv(100).startswith(b"HTTP/1.1 200")
        for _ in range(20):  # others are served meanwhile
            assert ask(running, "GET", "/_ping") == (200, b"OK")
        assert process.memory_info().rss - before < 30 << 20


@pytest.mark.docker
@pytest.mark.parametrize("what", ["logs?stdout=1&follow=1", "wait"])
def test_a_client_that_goes_away_ends_what_was_asked_of_the_engine(
    running: Running, started: Callable[[str], str], what: str
) -> None:
    handle = started("import time; print('here', flush=True); time.sleep(600)")
    process = psutil.Process(running.process.pid)
    gc.collect()  # a client that was left open before would be closed meanwhile
    before = process.num_fds()
    method = "POST" if what == "wait" else "GET"
    clients = []
    for _ in range(5):
        client = socket.create_connection((running.host, running.port), timeout=60)
        client.sendall(f"{method} /v1.41/containers/{handle}/{what} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        clients.append(client)
    for client in clients:
        assert client.recv(15) == b"HTTP/1.1 200 OK"
    assert process.num_fds() >= before + 10
    for client in clients:
        client.close()
    until(lambda: process.num_fds() <= before)


@pytest.mark.docker
def test_a_stop_that_takes_its_grace_does_not_keep_others_waiting(
    running: Running, runner: DockerRunner, started: Callable[[str], str]
) -> None:
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)"
    handle = started(code)
    assert next(runner.logs(handle)).text == "ready"
    stopping = threading.Thread(target=DockerRunner().stop, args=(handle, 20))
    begin = time.monotonic()
    stopping.start()
    assert runner.status(handle).running
    assert time.monotonic() - begin < 18
    stopping.join(BOUND_S)
    assert runner.wait(handle).exit_code == 137


def _filtered(tmp_path: Path, **settings: str) -> Any:
    return filter_process({"installation": "here", "socket": str(tmp_path / "engine.sock"), **settings})


def test_an_engine_that_is_away_is_reported_in_the_engines_way_and_the_runner_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _filtered(tmp_path) as alone:
        status, answer = ask(alone, "GET", "/v1.41/info")
        assert (status, answer["message"][:35]) == (503, "the Docker engine does not answer: ")
        monkeypatch.setenv("DOCKER_HOST", alone.docker_host)
        assert "503" in (engine_available() or "")
        with pytest.raises(EngineSilent, match="the Docker engine does not answer"):
            DockerRunner().find({})


def _engine(path: Path, *answers: bytes) -> threading.Thread:
    """A stand-in for an engine that breaks off: for each connection one piece of an answer, then the end."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen()

    def serve() -> None:
        with listening:
            for answer in answers:
                connection, _ = listening.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return thread


def test_an_engine_that_breaks_off_before_its_answer_is_a_bad_gateway(tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"
    engine = _engine(tmp_path / "engine.sock", b"", head)
    with _filtered(tmp_path) as broken:
        assert ask(broken, "GET", "/version")[0] == 502
        assert ask(broken, "GET", "/v1.41/info")[0] == 502
        engine.join(BOUND_S)


def test_a_stream_that_breaks_at_the_engine_breaks_for_the_client(tmp_path: Path) -> None:
    half = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
    engine = _engine(tmp_path / "engine.sock", half)
    with (
        _filtered(tmp_path) as broken,
        socket.create_connection((broken.host, broken.port), timeout=60) as client,
    ):
        client.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = b""
        while piece := client.recv(65536):
            answer += piece
        assert b"abc" in answer
        assert not answer.endswith(b"0\r\n\r\n")
        engine.join(BOUND_S)
        until(lambda: bool(broken.logged("stream broke")))


def test_an_error_of_the_engines_is_passed_on_in_its_words(tmp_path: Path) -> None:
    said = b'{"message":"boom"}'
    plain = b"HTTP/1.1 500 X\r\nContent-Length: 4\r\n\r\noops"
    answer = b"HTTP/1.1 500 X\r\nContent-Length: %d\r\n\r\n" % len(said) + said
    engine = _engine(tmp_path / "engine.sock", answer, plain)
    with _filtered(tmp_path) as broken:
        assert ask(broken, "GET", "/v1.41/info") == (500, {"message": "boom"})
        assert ask(broken, "GET", "/v1.41/info") == (500, {"message": "oops"})
        engine.join(BOUND_S)


def _healthy(running: Running, settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    given = {**environment(settings), "ENGINE_FILTER_LISTEN": f"0.0.0.0:{running.port}"}
    command = [sys.executable, "-m", "team.engine_filter", "healthy"]
    return subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, check=False)


@pytest.mark.docker
def test_it_is_healthy_while_it_and_the_engine_answer(
    running: Running, settings: dict[str, str], api: docker.APIClient, tmp_path: Path
) -> None:
    assert _healthy(running, settings).returncode == 0
    with _filtered(tmp_path) as alone:
        done = _healthy(alone, {"installation": "here"})
        assert (done.returncode, "it answers 503" in done.stderr) == (ExitCode.UNAVAILABLE, True)
    done = _healthy(alone, {"installation": "here"})
    assert (done.returncode, "nothing answers at 127.0.0.1" in done.stderr) == (ExitCode.UNAVAILABLE, True)


def test_it_does_not_start_with_a_wrong_setting_or_where_it_cannot_listen(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "team.engine_filter"]

    def tried(settings: dict[str, str]) -> tuple[int, str]:
        done = subprocess.run(command, cwd=ROOT, env=environment(settings), capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    code, said = tried({"installation": "here", "networks": "host"})
    assert (code, said.count("\n")) == (ExitCode.BAD_CONFIGURATION, 1)
    with _filtered(tmp_path) as there:
        code, said = tried({"installation": "here", "listen": f"{there.host}:{there.port}"})
    assert (code, said.count("\n"), "cannot listen on" in said) == (ExitCode.UNAVAILABLE, 1, True)


@pytest.mark.docker
def test_sigterm_ends_it_within_seconds_though_logs_are_followed(
    settings: dict[str, str], started: Callable[[str], str]
) -> None:
    handle = started("import time; print('here', flush=True); time.sleep(600)")
    with filter_process(settings) as own:
        with socket.create_connection((own.host, own.port), timeout=60) as client:
            client.sendall(
                f"GET /v1.41/containers/{handle}/logs?stdout=1&follow=1 HTTP/1.1\r\nHost: x\r\n\r\n".encode()
            )
            assert client.recv(15) == b"HTTP/1.1 200 OK"
            begin = time.monotonic()
            os.kill(own.process.pid, signal.SIGTERM)
            assert own.process.wait(BOUND_S) == 0
        assert time.monotonic() - begin < 20
        until(lambda: bool(own.logged("ended")))
