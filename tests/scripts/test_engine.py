"""scripts/engine.sh, in a checkout of its own."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

_SCRIPT = Path(__file__).parents[2] / "scripts/engine.sh"


def _engine(checkout: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return _started(checkout, arguments, environment)


def _started(
    checkout: Path, arguments: Sequence[str], environment: Mapping[str, str], inherited: Sequence[int] = ()
) -> "subprocess.CompletedProcess[str]":
    scripts = checkout / "scripts"
    scripts.mkdir(exist_ok=True)
    shutil.copy(_SCRIPT, scripts)
    return subprocess.run(
        [scripts / "engine.sh", *arguments],
        capture_output=True,
        text=True,
        check=False,
        pass_fds=inherited,
        env={**os.environ, **environment},
    )


def test_an_engine_that_is_named_and_does_not_answer_is_not_replaced(tmp_path: Path) -> None:
    ended = _engine(tmp_path, DOCKER_HOST=f"unix://{tmp_path}/none.sock")
    assert ended.returncode == 3
    assert ended.stdout == "engine: the engine that DOCKER_HOST names does not answer; stages run as processes\n"


def test_nothing_is_installed_where_that_is_not_wanted(tmp_path: Path) -> None:
    ended = _engine(tmp_path, DOCKER_HOST=f"unix://{tmp_path}/none.sock", RATCHET_NO_ENGINE_INSTALL="1")
    assert ended.returncode == 3
    assert "RATCHET_NO_ENGINE_INSTALL=1; stages run as processes" in ended.stdout


@pytest.mark.docker
def test_an_engine_that_answers_is_left_as_it_is_and_not_stopped_from_elsewhere(
    tmp_path: Path, stage_image: str
) -> None:
    assert _engine(tmp_path).stdout == "engine: answers\n"
    assert _engine(tmp_path, "stop").stdout == "engine: this checkout started none\n"
    assert _engine(tmp_path).returncode == 0


def test_a_process_that_took_over_the_number_of_ours_is_not_stopped(tmp_path: Path) -> None:
    state = tmp_path / ".ratchet/engine"
    state.mkdir(parents=True)
    with subprocess.Popen(["sleep", "600"]) as bystander:
        (state / "dockerd.pid").write_text(f"{bystander.pid} 1\n")
        ended = _engine(tmp_path, "stop")
        assert ended.stdout == "engine: this checkout started none\n"
        assert bystander.poll() is None
        bystander.kill()


def test_what_was_started_here_is_stopped(tmp_path: Path) -> None:
    state = tmp_path / ".ratchet/engine"
    state.mkdir(parents=True)
    with subprocess.Popen(["sleep", "600"]) as ours:
        started = Path(f"/proc/{ours.pid}/stat").read_text().rpartition(")")[2].split()[19]
        (state / "dockerd.pid").write_text(f"{ours.pid} {started}\n")
        assert _engine(tmp_path, "stop").stdout == "engine: stopped\n"
        assert ours.wait(30) < 0
    assert _engine(tmp_path, "stop").stdout == "engine: this checkout started none\n"


@pytest.mark.parametrize(
    ("docker", "message"),
    [
        (
            "echo one; echo two",
            "keeps running: 2 container(s) run on it; to stop it anyway, run scripts/engine.sh stop",
        ),
        ("exit 1", "keeps running: it does not report its containers; to stop it anyway, run scripts/engine.sh stop"),
        ("true", "stopped"),
    ],
)
def test_what_was_started_here_is_released_once_nothing_runs_on_it(tmp_path: Path, docker: str, message: str) -> None:
    state, programs = tmp_path / ".ratchet/engine", tmp_path / "bin"
    state.mkdir(parents=True)
    programs.mkdir()
    (programs / "docker").write_text(f"#!/bin/sh\n{docker}\n")
    (programs / "docker").chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    with subprocess.Popen(["sleep", "600"]) as ours:
        started = Path(f"/proc/{ours.pid}/stat").read_text().rpartition(")")[2].split()[19]
        (state / "dockerd.pid").write_text(f"{ours.pid} {started}\n")
        ended = _engine(tmp_path, "release", PATH=path)
        assert ended.returncode == 0
        assert ended.stdout.startswith(f"engine: {message}")
        assert (ours.poll() is None) == (message != "stopped")
        ours.kill()
    (state / "dockerd.pid").unlink(missing_ok=True)
    ended = _engine(tmp_path, "release", PATH=path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts an engine")
def test_what_a_killed_engine_noted_of_itself_does_not_keep_a_new_one_from_starting(tmp_path: Path) -> None:
    programs, run = tmp_path / "bin", tmp_path / "run"
    (run / "docker/containerd").mkdir(parents=True)
    programs.mkdir()
    for name, text in {
        "docker": f"test -e {run}/started",
        "dockerd": f"find {run} -name '*.pid' >{run}/started; exec sleep 600",
    }.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    dead = subprocess.Popen(["true"])  # not waited for: it stays in /proc as a process that ended
    os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "RATCHET_ENGINE_RUN": str(run)}
    with subprocess.Popen(["sleep", "600"]) as bystander:
        (run / "docker.pid").write_text(f"{bystander.pid}")
        (run / "docker/containerd/containerd.pid").write_text(f"{dead.pid}")
        ended = _engine(tmp_path, **environment)
        assert (ended.returncode, (run / "started").read_text()) == (0, ""), ended.stdout
        assert _engine(tmp_path, "stop", **environment).stdout == "engine: stopped\n"
        assert bystander.poll() is None
        bystander.kill()
    dead.wait()


@pytest.mark.skipif(os.getuid() != 0, reason="only root starts an engine")
def test_an_engine_that_is_started_holds_no_lock_of_its_callers(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in {"dockerd": f'readlink /proc/"$$"/fd/* >{tmp_path}/open', "docker": "exit 1"}.items():
        (programs / name).write_text(f"#!/bin/bash\n{text}\n")
        (programs / name).chmod(0o755)
    with (tmp_path / "lock").open("w") as lock:  # as that of `flock FILE make engine`
        environment = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "DOCKER_HOST": "",
            "RATCHET_ENGINE_RUN": str(tmp_path),
        }
        ended = _started(tmp_path, (), environment, (lock.fileno(),))
    assert "dockerd exited during its start" in ended.stdout
    held = (tmp_path / "open").read_text().splitlines()
    assert str(tmp_path / "lock") not in held
    assert not any(
        path.startswith(f"{tmp_path}/.ratchet/engine/") and not path.endswith("dockerd.log") for path in held
    )
