"""`python -m team`: what each verb says and ends with where no whole stack is needed."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import docker
import pytest
from rich.console import Console

import team.__main__
from ratchet.contracts.errors import Unavailable
from ratchet.contracts.labels import Label
from team.backup_folder import backups_of
from team.settings import Settings
from team.stack import Member, Stack
from tests.team.containers import LASTS, Starts, member
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
Run = Callable[..., int]


@pytest.fixture
def run(checkout: Path, stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a verb in a checkout of its own; its exit code."""
    for name in list(os.environ):
        if name.startswith("RATCHET_"):
            monkeypatch.delenv(name)
    monkeypatch.setattr(team.__main__, "ROOT", checkout)
    (checkout / ".env").write_text(f"RATCHET_PROJECT={stack.settings.project}\n")

    def ended(*words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["team", *words])
        return team.__main__.main()

    return ended


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("words", [[], ["start"], ["up", "now"], ["restore"], ["down", "--all"], ["ps", "worker"]])
def test_wrong_words_end_with_the_usage(run: Run, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run(*words)
    assert caught.value.code == 2
    assert "usage: python -m team" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["backup"], ["restore", "folder"], ["files"], ["worker-files", "folder"]])
def test_a_host_that_only_works_leaves_the_rest_to_the_main_host(
    run: Run, checkout: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / ".env").write_text("RATCHET_MAIN_HOST=10.0.0.1\nRATCHET_LISTEN=10.0.0.2\n")
    assert run(*words) == 64
    assert said(capsys) == [f"{words[0]}: this host only has a worker; to do: run this on the main host, 10.0.0.1"]


def test_what_another_host_needs_is_put_into_a_folder(
    run: Run, checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (checkout / ".env").open("a") as file:
        file.write("RATCHET_LISTEN=10.0.0.1\n")
    assert run("files") == 0
    assert run("worker-files", str(tmp_path / "out")) == 0
    assert (tmp_path / "out" / "env").is_file()
    assert f"{tmp_path / 'out'}/*" in said(capsys)[-1]


def test_it_is_a_program_that_tells_of_its_verbs() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "team", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert all(verb in ended.stdout for verb in ("up", "down", "ps", "logs", "backup", "restore", "files"))


@pytest.mark.parametrize("words", [["up"], ["down"], ["ps"], ["logs"], ["backup"], ["restore", "x"], ["files"]])
def test_a_wrong_key_in_env_ends_every_verb_with_one_line(
    run: Run, checkout: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / ".env").write_text("RATCHET_WORKER=2\n")
    assert run(*words) == 64
    (line,) = said(capsys)
    assert line.startswith(f"{words[0]}: .env:1: RATCHET_WORKER: unknown key; did you mean RATCHET_WORKERS?; to do: ")
    assert not (checkout / ".ratchet").exists()


@pytest.mark.parametrize("words", [["ps"], ["down"]])
def test_an_engine_that_does_not_answer_ends_a_verb_with_one_line(
    run: Run, silent: None, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words) == 69
    (line,) = said(capsys)
    assert line.startswith(f"{words[0]}: the Docker engine does not answer")
    assert "scripts/engine.sh" in line


def test_a_half_restored_stack_is_not_started(
    run: Run, silent: None, stack: Stack, capsys: pytest.CaptureFixture[str]
) -> None:
    stack.home.mkdir(parents=True)
    (stack.home / "restoring").write_text("/backups/a")
    assert run("up") == 64
    assert said(capsys) == [
        "up: the restore of /backups/a has not ended; to do: run `make restore FROM=/backups/a` again"
    ]


def test_up_tells_what_is_in_the_way_before_it_makes_anything(
    run: Run, silent: None, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("up") == 64
    (line,) = said(capsys)
    assert line.startswith("up: the Docker engine does not answer")
    assert sorted(path.name for path in checkout.iterdir()) == [".env", "dags", "docker-compose.yaml"]


@pytest.mark.docker
def test_up_tells_of_each_port_that_is_taken(
    engine: docker.APIClient, run: Run, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        taken = {"AIRFLOW": first.getsockname()[1], "S3": second.getsockname()[1]}
        with (checkout / ".env").open("a") as file:
            file.writelines(f"RATCHET_{name}_PORT={port}\n" for name, port in taken.items())
        assert run("up") == 64
    lines = said(capsys)
    for name, port in taken.items():
        assert any(f"port {port}" in line and f"RATCHET_{name}_PORT" in line for line in lines)
    assert not (checkout / ".ratchet").exists()


def test_files_makes_the_secrets_alone(run: Run, stack: Stack, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("files") == 0
    assert said(capsys) == [f"the secrets are in {stack.secrets}"]
    assert (stack.secrets / "s3.json").is_file()


def test_policies_are_a_file_for_each_user_of_s3(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("policies", str(tmp_path / "out")) == 0
    made = {path.stem: json.loads(path.read_text()) for path in (tmp_path / "out").iterdir()}
    assert {"admin", "mlflow", "orchestrator", "ratchet-train", "reader"} <= set(made)
    assert "RATCHET_S3_CREDENTIALS" in said(capsys)[-1]


@pytest.mark.docker
def test_nothing_that_runs_is_no_success(
    engine: docker.APIClient, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("ps") == 69
    assert said(capsys) == ["nothing is running; `make up` starts the stack"]


@pytest.mark.docker
def test_ps_shows_each_container_and_ends_well_only_if_all_are(
    run: Run, stack: Stack, starts: Starts, engine: docker.APIClient, capsys: pytest.CaptureFixture[str]
) -> None:
    starts("s3", LASTS, healthcheck={"test": ["CMD", "true"], "interval": 10**9, "timeout": 10**10, "retries": 30})
    starts("init", "")
    until(lambda: all(member.well for member in stack.members()), seconds=60)
    assert run("ps") == 0
    shown = said(capsys)
    assert [line.split() for line in shown[1:3]] == [
        ["init", f"{stack.settings.project}_init_1", "done"],
        ["s3", f"{stack.settings.project}_s3_1", "healthy"],
    ]
    text = "\n".join(shown)
    assert "no backup was made yet; `make backup` makes one" in shown
    assert all(f"http://127.0.0.1:{port}" in text for port in (8080, 5000, 8333))
    assert "airflow-admin-password" in text

    starts("redis", "raise SystemExit(1)")
    until(lambda: member(stack, "redis").state == "exited (1)", seconds=60)
    assert run("ps") == 69
    shown = said(capsys)
    assert any(line.endswith("exited (1)") for line in shown)
    assert "http://" not in "\n".join(shown)


def test_ps_says_where_pipelines_come_from_while_git_is_away(
    run: Run, checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page for people on call asks for it just then."""
    with (checkout / ".env").open("a") as file:
        file.write("RATCHET_PIPELINES=https://git.example/p.git\nRATCHET_PIPELINES_BRANCH=live\n")
    away = Member(service="pipelines", name="a_pipelines_1", state="unhealthy", container="0")
    monkeypatch.setattr(Stack, "members", lambda _: [away])
    assert run("ps") == Unavailable.code
    assert said(capsys)[-1] == "pipelines from https://git.example/p.git (live)"


@pytest.mark.docker
def test_the_addresses_of_what_is_elsewhere_are_those_of_the_settings(
    run: Run, stack: Stack, checkout: Path, starts: Starts, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "credentials").write_text("[default]\n")
    with (checkout / ".env").open("a") as file:
        file.write("RATCHET_MLFLOW_URL=https://mlflow.example\nRATCHET_S3_ENDPOINT=https://s3.example\n")
        file.write(f"RATCHET_S3_CREDENTIALS={tmp_path}/credentials\n")
    starts("init", "")
    until(lambda: member(stack, "init").well, seconds=60)
    assert run("ps") == 0
    text = "\n".join(said(capsys))
    assert "https://mlflow.example" in text
    assert "https://s3.example" in text
    assert ":5000" not in text


@pytest.mark.docker
def test_down_ends_what_runs_and_keeps_or_deletes_its_secrets(
    run: Run, stack: Stack, starts: Starts, engine: docker.APIClient, capsys: pytest.CaptureFixture[str]
) -> None:
    run("files")
    stage = starts("stage", LASTS, labels={Label.INSTALLATION: stack.settings.project, Label.GRACE: "45"})
    starts("init", "")
    assert run("down") == 0
    assert "down: 1 running stages save their work and end; this takes up to 45 s" in said(capsys)
    assert not engine.containers(all=True, filters={"id": stage})
    assert stack.secrets.is_dir()
    assert run("down", "--volumes") == 0
    assert said(capsys) == ["down: all containers are stopped; the data are deleted"]
    assert not stack.home.exists()


@pytest.mark.docker
def test_a_backup_of_what_does_not_run_ends_with_one_line_and_leaves_nothing(
    engine: docker.APIClient, run: Run, stack: Stack, capsys: pytest.CaptureFixture[str]
) -> None:
    run("files")
    said(capsys)
    assert run("backup") == 69
    (line,) = said(capsys)
    assert line.startswith("backup: docker compose exec failed")
    assert [path.name for path in backups_of(stack).iterdir()] == [".lock"]


def test_a_restore_of_no_backup_ends_with_one_line_before_anything_is_built(
    run: Run, checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("restore", str(tmp_path / "absent")) == 64
    (line,) = said(capsys)
    assert line.startswith(f"restore: {tmp_path}/absent is not a backup")
    assert sorted(path.name for path in checkout.iterdir()) == [".env", "dags", "docker-compose.yaml"]


@pytest.mark.docker
def test_logs_of_a_service_that_is_none_end_with_one_line_of_ours(
    engine: docker.APIClient, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("logs", "nobody") == 69
    (line,) = said(capsys)
    assert line.startswith("logs: docker compose logs failed")


@pytest.mark.docker
def test_logs_are_shown_without_a_warning_for_each_secret_that_this_host_does_not_have(
    engine: docker.APIClient, run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("logs") == 0
    assert capfd.readouterr().err == ""


def test_a_driver_that_does_not_answer_is_told_and_starts_no_host_that_only_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its trainings would end for good, as on a host without GPUs."""
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'Driver/library version mismatch'\nexit 18\n")
    program.chmod(0o755)
    monkeypatch.delenv("RATCHET_GPUS", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    devices, console = team.__main__._devices, Console(width=300)
    assert devices(Settings(), console) == ""
    assert said(capsys)[0].startswith("up: nvidia-smi of this host lists no GPUs: Driver/library version mismatch; ")
    worker = Settings(main_host="10.0.0.1", listen="10.0.0.2")
    with pytest.raises(Unavailable, match="lists no GPUs: Driver/library version mismatch; to do: run nvidia-smi"):
        devices(worker, console)
    assert devices(worker.model_copy(update={"gpus": "0,1"}), console) == "0,1"
    program.unlink()
    assert devices(worker, console) == ""


@pytest.mark.parametrize(("workers", "marked"), [(0, ""), (1, "0,1")])
def test_a_host_says_that_it_has_gpus_only_where_a_worker_takes_trainings(
    workers: int, marked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a training that came to a smaller host waits for a host that takes none."""
    monkeypatch.setattr(team.__main__, "_image", lambda *_, **__: "image")
    monkeypatch.setattr(team.__main__, "_script", lambda *_: "")
    named = team.__main__._images(Settings(gpus="0,1", gpu_workers=workers), Console())
    assert (named["RATCHET_GPUS"], named["RATCHET_GPUS_OF_WORKERS"]) == ("0,1", marked)
