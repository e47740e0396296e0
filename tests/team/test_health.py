"""How a component is asked, against servers that answer well, badly, and not at all."""

import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from team import health

BY_THEMSELVES = ("api-server", "mlflow", "scheduler")
BY_THE_API_SERVER = {"dag-processor": "dag_processor", "triggerer": "triggerer"}


@contextmanager
def answering(status: int, body: str = "") -> Iterator[str]:
    """A server that gives everyone this answer; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the class above
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def asked(component: str, address: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = health.main([component], {component: address})
    return code, capsys.readouterr().out


def monitor(**states: str | None) -> str:
    return json.dumps({name: {"status": state} for name, state in states.items()})


@pytest.mark.parametrize("component", BY_THEMSELVES)
def test_a_component_that_answers_is_well(component: str, capsys: pytest.CaptureFixture[str]) -> None:
    with answering(200, "OK") as address:
        assert asked(component, address, capsys) == (0, "")


@pytest.mark.parametrize("component", ["watch", "reaper"])
def test_a_server_that_looks_is_well_while_it_touches_its_file(
    component: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(health, "_LOGS", tmp_path)
    assert health.main([component]) == 1
    assert f"{component}: FileNotFoundError" in capsys.readouterr().out
    (tmp_path / f"{component}-alive").touch()
    assert health.main([component]) == 0
    os.utime(tmp_path / f"{component}-alive", (1, 1))
    assert health.main([component]) == 1
    assert f"{component}: its last round ended " in capsys.readouterr().out


@pytest.mark.parametrize("component", [*BY_THEMSELVES, *BY_THE_API_SERVER])
def test_a_component_that_answers_with_an_error_is_ill(component: str, capsys: pytest.CaptureFixture[str]) -> None:
    with answering(503, "no heartbeat") as address:
        code, said = asked(component, address, capsys)
    assert code == 1
    assert said.startswith(f"{component}: ")
    assert "503" in said


@pytest.mark.parametrize("component", [*BY_THEMSELVES, *BY_THE_API_SERVER])
def test_a_component_that_does_not_answer_is_ill(component: str, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as bound:  # and does not listen
        bound.bind(("127.0.0.1", 0))
        code, said = asked(component, f"http://127.0.0.1:{bound.getsockname()[1]}/", capsys)
    assert code == 1
    assert "refused" in said


@pytest.mark.parametrize(("component", "key"), BY_THE_API_SERVER.items())
def test_what_the_api_server_says_of_a_component_counts(
    component: str, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    both = dict.fromkeys(BY_THE_API_SERVER.values(), "unhealthy")
    with answering(200, monitor(**{**both, key: "healthy"})) as address:
        assert asked(component, address, capsys) == (0, "")
    with answering(200, monitor(**{**dict.fromkeys(both, "healthy"), key: "unhealthy"})) as address:
        assert asked(component, address, capsys) == (1, f"{component}: the API server reports: unhealthy\n")


@pytest.mark.parametrize("body", ["", "<html>", "{}", monitor(triggerer=None)])
def test_an_answer_that_does_not_say_that_it_is_well_is_ill(body: str, capsys: pytest.CaptureFixture[str]) -> None:
    with answering(200, body) as address:
        code, said = asked("triggerer", address, capsys)
    assert code == 1
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("arguments", [[], ["nobody"], ["triggerer", "scheduler"]])
def test_an_unknown_component_is_ill(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert health.main(arguments) == 1
    assert " ".join(arguments) in capsys.readouterr().out


def test_each_component_is_asked_at_an_address_of_its_own_container_or_of_the_api_server() -> None:
    addresses: Mapping[str, str] = health.ADDRESSES
    assert set(addresses) == {*BY_THEMSELVES, *BY_THE_API_SERVER}
    assert all(addresses[name].startswith("http://127.0.0.1:") for name in BY_THEMSELVES)
    assert all(addresses[name].startswith("http://api-server:8080/") for name in BY_THE_API_SERVER)
