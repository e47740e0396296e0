"""`ratchet status`: its output and exit code, for each state of the servers."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from local import status
from local.supervision.processes import identity
from local.supervision.state import Identity, Servers, ServerState, write
from ratchet.cli.main import main

GONE = Identity(pid=os.getpid(), born=1.0)  # the number of this process, and another birth


def server(name: str, state: str, **more: object) -> ServerState:
    then = datetime(2026, 11, 21, 14, 5, 10, tzinfo=UTC)
    return ServerState.model_validate({"name": name, "state": state, "since": then, "log": f"/h/{name}.log", **more})


def known(*servers: ServerState, supervisor: Identity | None = None) -> Servers:
    return Servers(supervisor=supervisor or identity(os.getpid()), servers=servers)


def test_all_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    killed = {"restarts": 2, "address": "http://127.0.0.1:8080", "cause": "it was ended by SIGKILL"}
    write(tmp_path, known(server("migrate", "done", once=True), server("api-server", "running", **killed)))
    assert main(["status", "--home", str(tmp_path)]) == 0
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        f"{tmp_path}:",
        "  server      state    since (UTC)          restarts  address                last cause",
        "  api-server  running  2026-11-21 14:05:10  2         http://127.0.0.1:8080  it was ended by SIGKILL",
    ]


def test_a_server_that_was_given_up_fails_the_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, known(server("mlflow", "running"), server("scheduler", "given up", cause="x")))
    assert main(["status", "--home", str(tmp_path)]) == 69
    assert (
        "scheduler is given up: read /h/scheduler.log; `make serve` or `make demo` retries" in capsys.readouterr().out
    )


def test_a_killed_supervisor_is_reported_and_its_servers_are_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    living = server("mlflow", "running", process=identity(os.getpid()))
    write(tmp_path, known(living, server("scheduler", "running", process=GONE), supervisor=GONE))
    assert main(["status", "--home", str(tmp_path), "--json"]) == 69
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["home"], found["supervised"]) == (str(tmp_path), False)
    assert [each["state"] for each in found["servers"]] == ["unsupervised", "dead"]
    assert main(["status", "--home", str(tmp_path)]) == 69
    assert "THE SUPERVISOR IS GONE" in capsys.readouterr().out


def test_without_a_home_the_set_ups_of_the_checkout_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    homes = (tmp_path / "local", tmp_path / "demo")
    monkeypatch.setattr(status, "_HOMES", homes)
    assert main(["status"]) == 69
    assert capsys.readouterr().out.startswith(f"nothing was started in {homes[0]} or {homes[1]}; ")
    for home in homes:
        home.mkdir()
    write(homes[0], known(server("mlflow", "stopped"), supervisor=GONE))
    assert main(["status"]) == 69
    assert capsys.readouterr().out == f"{homes[0]}: stopped\n"
    write(homes[1], known(server("mlflow", "running")))
    assert main(["status"]) == 0


def test_it_works_from_any_folder(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("ratchet")
    write(tmp_path, known(server("mlflow", "running")))
    done = subprocess.run(
        [program, "status", "--home", tmp_path, "--json"], cwd="/", capture_output=True, text=True, check=True
    )
    (found,) = json.loads(done.stdout)
    assert found["servers"][0]["state"] == "running"
