import io
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from ratchet.runners.container import archive, container_config
from ratchet.runners.devices import Devices
from ratchet.runners.job import Job, Mount
from tests.waiting import until

JOB = Job(
    name="a", request=b"{}", image="i", user="1234:567", secrets={"key": b"hunter2"}, labels={"ratchet": "2", "x": "y"}
)


def test_the_files_belong_to_root_and_only_the_jobs_group_may_read_them() -> None:
    with tarfile.open(fileobj=io.BytesIO(archive(JOB))) as tar:
        entries = {entry.name: (entry.uid, entry.gid, entry.mode) for entry in tar}
        secret = tar.extractfile("ratchet/secrets/key")
        assert secret is not None
        assert secret.read() == b"hunter2"
    assert entries == {
        "ratchet": (0, 567, 0o750),
        "ratchet/first.sh": (0, 567, 0o440),
        "ratchet/request.json": (0, 567, 0o440),
        "ratchet/secrets": (0, 567, 0o750),
        "ratchet/secrets/key": (0, 567, 0o440),
    }


def test_no_secret_is_in_the_request_to_the_engine() -> None:
    assert "hunter2" not in str(container_config(JOB, cpus=2))


def test_a_job_cannot_take_off_the_mark() -> None:
    assert container_config(JOB, cpus=2)["Labels"] == {"ratchet": "1", "x": "y"}


def test_without_a_command_the_stage_of_the_request_runs() -> None:
    config = container_config(JOB, cpus=2)
    assert (config["Entrypoint"], config["Cmd"]) == (
        ["sh"],
        ["/run/ratchet/first.sh", "ratchet", "stage", "/run/ratchet/request.json"],
    )


def test_gpus_are_asked_for_by_name_and_only_if_wanted() -> None:
    assert container_config(JOB, cpus=2)["HostConfig"]["DeviceRequests"] == []
    config = container_config(JOB, cpus=2, devices=Devices(names=("0", "GPU-2a")))
    assert config["HostConfig"]["DeviceRequests"] == [{"DeviceIDs": ["0", "GPU-2a"], "Capabilities": [["gpu"]]}]
    assert config["Labels"]["ratchet.gpus"] == "0,GPU-2a"
    assert "RATCHET_GPU_DEVICES=0,GPU-2a" in config["Env"]


def test_fake_gpus_are_counted_and_not_asked_for() -> None:
    config = container_config(JOB, cpus=2, devices=Devices(names=("0",), fake=True))
    assert config["HostConfig"]["DeviceRequests"] == []
    assert config["Labels"]["ratchet.gpus"] == "0"


def test_the_engine_itself_grants_the_grace() -> None:
    assert container_config(Job(name="a", request=b"", image="i", grace_s=1.5), cpus=2)["StopTimeout"] == 2


def test_a_mount_is_seen_under_its_own_path_and_read_only_unless_it_says_otherwise() -> None:
    job = Job(name="a", request=b"", image="i", mounts=(Mount(path="/d"), Mount(path="/s", read_only=False)))
    binds = container_config(job, cpus=2)["HostConfig"]["Mounts"][1:]
    assert [(bind["Source"], bind["Target"], bind["ReadOnly"]) for bind in binds] == [
        ("/d", "/d", True),
        ("/s", "/s", False),
    ]


ENDS_WITH_75 = """if 1:
    import os, signal
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    os.write(1, b"ready")
    signal.sigwait({signal.SIGTERM})
    os._exit(75)
"""


@pytest.fixture
def first_sh(tmp_path: Path) -> Path:
    """The shell's program that runs before the job."""
    with tarfile.open(fileobj=io.BytesIO(archive(JOB))) as tar:
        packed = tar.extractfile("ratchet/first.sh")
        assert packed is not None
        (tmp_path / "first.sh").write_bytes(packed.read())
    return tmp_path / "first.sh"


@pytest.mark.heavy
def test_no_notice_is_lost_while_the_job_is_forked(first_sh: Path) -> None:
    """Of shells that set their trap before they forked, one in twenty lost it beside two busy loops."""
    chance = random.Random(0)
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        for _ in range(10):
            shells = []
            for _ in range(20):
                shells.append(subprocess.Popen(["sh", str(first_sh), "sleep", "30"], stderr=subprocess.DEVNULL))
                moment = time.perf_counter() + chance.uniform(0, 0.004)
                until(lambda moment=moment: time.perf_counter() > moment, every=0)  # type: ignore[misc]
                shells[-1].terminate()
            assert {shell.wait(60) for shell in shells} <= {143, -signal.SIGTERM}
    finally:
        for loop in busy:
            loop.kill()
            loop.wait()


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_job_that_ends_at_once_after_sigterm_ends_with_its_own_code(first_sh: Path, tmp_path: Path) -> None:
    """The shell before the job is slowed down: the job has ended before the shell's kill returns."""
    calls = tmp_path / "calls"
    slowly = ["strace", "-D", "-q", "-o", str(calls), "-e", "trace=kill", "-e", "inject=kill:delay_exit=1s"]
    command = ["sh", str(first_sh), sys.executable, "-I", "-S", "-c", ENDS_WITH_75]
    with subprocess.Popen([*slowly, *command], stdout=subprocess.PIPE) as shell:
        assert shell.stdout is not None
        assert shell.stdout.read(5) == b"ready"
        shell.terminate()
        assert shell.wait(20) == 75
    assert "(DELAYED)" in calls.read_text()
