"""Which GPUs a job gets. The engine and the containers are real; the devices are a list of names of the test's own."""

import pickle
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import docker
import pytest
from docker.errors import APIError
from docker.utils import kwargs_from_env
from requests import Response

from ratchet.contracts.errors import ConfigurationError, Unavailable
from ratchet.contracts.labels import Label
from ratchet.contracts.stages import Resources
from ratchet.runners.container import container_config
from ratchet.runners.devices import Devices, _claims, _is_ours, _remove, host_devices, require_devices
from ratchet.runners.docker import DockerRunner
from ratchet.runners.job import Job

WAITS = (
    "python",
    "-I",
    "-S",
    "-c",
    "import os, signal; print(os.environ['RATCHET_GPU_DEVICES'], flush=True); signal.pause()",
)


@pytest.fixture
def mark() -> str:
    """Devices are the whole engine's, so each test has its own names for them."""
    return uuid.uuid4().hex[:8]


@pytest.fixture
def job(mark: str, stage_image: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    """Wants one of two devices, and keeps it. What it left is removed."""
    monkeypatch.setenv("RATCHET_GPUS", f"fake:{mark}a,{mark}b")
    labels = {Label.TEST: "1", Label.PIPELINE: "ads", Label.STAGE: "train", Label.RUN: mark}
    yield Job(
        name="job", request=b"", image=stage_image, command=WAITS, labels=labels, resources=Resources(gpus=1, cpus=0.5)
    )
    runner = DockerRunner()
    for handle in runner.find({Label.RUN: mark}):
        runner.remove(handle)


def _devices_of(handle: str) -> str:
    return next(iter(DockerRunner().logs(handle))).text


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("0,1", Devices(names=("0", "1"))),
        (" GPU-8c3f-11 , 1,", Devices(names=("GPU-8c3f-11", "1"))),
        ("fake:0", Devices(names=("0",), fake=True)),
        ("", Devices()),
    ],
)
def test_the_setting_lists_devices(setting: str, expected: Devices, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_GPUS", setting)
    assert host_devices() == expected


@pytest.mark.parametrize("setting", ["0,0", "0;1", "../x", "a b"])
def test_a_setting_that_lists_none_is_refused(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_GPUS", setting)
    with pytest.raises(ConfigurationError, match=r"RATCHET_GPUS = .* is no list of devices"):
        host_devices()


def test_without_the_setting_the_driver_lists_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H200 (UUID: GPU-1)'\necho 'GPU 1: NVIDIA H200 (UUID: GPU-2)'\n")
    program.chmod(0o755)
    monkeypatch.delenv("RATCHET_GPUS", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    assert host_devices() == Devices(names=("0", "1"))
    monkeypatch.setenv("PATH", "/nonexistent")
    assert host_devices() == Devices()


@pytest.mark.parametrize(
    ("said", "kind", "cause"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch", Unavailable, "Driver/library version mismatch"),
        ("No devices were found", ConfigurationError, "this host has none"),
    ],
)
def test_a_driver_that_does_not_answer_is_waited_for_and_one_without_devices_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, kind: type[Exception], cause: str
) -> None:
    """Another host of the queue may have a driver that answers."""
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\necho '{said}'\nexit 18\n")
    program.chmod(0o755)
    monkeypatch.delenv("RATCHET_GPUS", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    assert host_devices() == Devices()
    with pytest.raises(kind, match=cause):
        require_devices(1, "ads.train")
    assert require_devices(0, "ads.train") == Devices()


@pytest.mark.docker
def test_two_get_different_ones_a_third_is_refused_and_a_kill_frees_one(job: Job, mark: str) -> None:
    runner = DockerRunner()
    first, second = runner.submit(job), runner.submit(job)
    assert (_devices_of(first), _devices_of(second)) == (f"{mark}a", f"{mark}b")
    with pytest.raises(Unavailable) as refused:
        runner.submit(job)
    assert refused.value.cause == (
        f"job needs 1 GPU, and 0 of 2 are free; held: "
        f"{mark}a by ads train {mark} ({first[:12]}); {mark}b by ads train {mark} ({second[:12]})"
    )
    with docker.APIClient(**kwargs_from_env()) as api:
        api.kill(first)
        api.wait(first)
    third = runner.submit(job)
    assert _devices_of(third) == f"{mark}a"
    assert sorted(runner.find({Label.RUN: mark})) == sorted([first, second, third])


@pytest.mark.docker
@pytest.mark.skipif(not shutil.which("nvidia-smi"), reason="this machine has no GPU")
def test_a_real_device_is_seen_inside_by_one_job_at_a_time(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RATCHET_GPUS")
    devices = host_devices().names
    looks = replace(job, command=("sh", "-c", "nvidia-smi --query-gpu=uuid --format=csv,noheader; sleep 600"))
    runner = DockerRunner()
    seen = {_devices_of(runner.submit(looks)) for _ in devices}
    assert len(seen) == len(devices)
    assert all(uuid_.startswith("GPU-") for uuid_ in seen)
    with pytest.raises(Unavailable, match="0 of"):
        runner.submit(looks)


@pytest.mark.docker
def test_more_than_the_host_has_can_never_be(job: Job, mark: str) -> None:
    with pytest.raises(ConfigurationError, match=f"needs 3 GPUs, and this host has 2 \\({mark}a,{mark}b\\)"):
        DockerRunner().submit(replace(job, resources=Resources(gpus=3)))


class Removing:
    """An engine that answers like this where a container is to be removed."""

    def __init__(self, status: int) -> None:
        self._status, self.asked = status, list[str]()

    def remove_container(self, handle: str, **_: bool) -> None:
        self.asked.append(handle)
        answer = Response()
        answer.status_code = self._status
        raise APIError("said", response=answer)


def test_a_leftover_that_another_submitter_is_removing_is_no_error() -> None:
    for status in (404, 409):
        _remove(engine := cast("Any", Removing(status)), "a")
        assert engine.asked == ["a"]
    with pytest.raises(APIError):
        _remove(cast("Any", Removing(500)), "a")


SUBMITS = """if 1:
    import pickle, sys
    from ratchet.contracts.errors import Unavailable
    from ratchet.runners.docker import DockerRunner
    job = pickle.loads(sys.stdin.buffer.read())
    try:
        print(DockerRunner().submit(job))
    except Unavailable as error:
        print(error.cause, file=sys.stderr)
        sys.exit(69)
"""


@pytest.mark.docker
def test_of_eight_that_race_for_two_devices_two_win(job: Job, mark: str) -> None:
    def submit(_: int) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            [sys.executable, "-c", SUBMITS], input=pickle.dumps(job), capture_output=True, check=False
        )

    with ThreadPoolExecutor(8) as pool:
        ended = list(pool.map(submit, range(8)))
    assert sorted(one.returncode for one in ended) == [0, 0, *[69] * 6], [one.stderr for one in ended]
    winners = [one.stdout.decode().strip() for one in ended if one.returncode == 0]
    assert sorted(map(_devices_of, winners)) == [f"{mark}a", f"{mark}b"]
    assert sorted(DockerRunner().find({Label.RUN: mark})) == sorted(winners)


HANGS = """if 1:
    import pickle, signal, sys
    from ratchet.runners.docker import DockerRunner
    job = pickle.loads(sys.stdin.buffer.read())
    runner = DockerRunner()
    runner._api.put_archive = lambda *_: (print("created", flush=True), signal.pause())
    runner.submit(job)
"""


@pytest.mark.docker
def test_a_submitter_that_dies_before_it_starts_its_container_frees_the_device_again(
    job: Job, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_GPUS", f"fake:{mark}a")
    with subprocess.Popen([sys.executable, "-c", HANGS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as submitter:
        assert submitter.stdin is not None
        assert submitter.stdout is not None
        submitter.stdin.write(pickle.dumps(job))
        submitter.stdin.close()
        assert submitter.stdout.readline() == b"created\n"
        submitter.kill()
    (left,) = DockerRunner().find({Label.RUN: mark})
    monkeypatch.setattr("ratchet.runners.devices._PATIENCE_S", 0.1)
    with pytest.raises(Unavailable, match=f"0 of 1 are free; held: {mark}a by ads train {mark}"):
        DockerRunner().submit(job)  # it may yet be started
    monkeypatch.setattr("ratchet.runners.devices._STALE_S", 0.0)
    monkeypatch.setattr("ratchet.runners.devices._PATIENCE_S", 60.0)
    handle = DockerRunner().submit(replace(job, labels={**job.labels, Label.ATTEMPT: "second"}))
    assert _devices_of(handle) == f"{mark}a"
    assert left not in DockerRunner().find({Label.RUN: mark})


@pytest.mark.docker
def test_a_submitter_whose_container_was_taken_for_a_leftover_tries_again_later(
    job: Job, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = DockerRunner()
    put = runner._api.put_archive

    def too_late(handle: str, *rest: object) -> object:
        DockerRunner().remove(handle)
        return put(handle, *rest)

    monkeypatch.setattr(runner._api, "put_archive", too_late)
    with pytest.raises(Unavailable, match="its container was removed before it started"):
        runner.submit(job)
    assert runner.find({Label.RUN: mark}) == []


@pytest.mark.docker
def test_of_two_that_have_created_the_older_gets_the_device_and_one_that_runs_before_any(job: Job, mark: str) -> None:
    """The moments between creation and start, one by one: two never start beside each other, in whatever order they look."""
    with docker.APIClient(**kwargs_from_env()) as api:

        def created() -> str:
            config = container_config(job, cpus=2, devices=Devices(names=(f"{mark}a",), fake=True))
            config |= {"Entrypoint": [], "Cmd": list(job.command)}  # nobody puts the job's files into it
            made: str = api.create_container_from_config(config)["Id"]  # type: ignore[no-untyped-call]  # the stubs lag behind
            return made

        made = {created(), created()}
        older, younger = (one.handle for one in sorted(_claims(api, [f"{mark}a"])))
        assert {older, younger} == made
        assert not _is_ours(api, younger, [f"{mark}a"])
        with ThreadPoolExecutor(1) as pool:
            waits = pool.submit(_is_ours, api, older, [f"{mark}a"])
            with pytest.raises(TimeoutError):  # for the younger one, which may have looked before the older one came
                waits.result(0.5)
            api.remove_container(younger, force=True, v=True)
            assert waits.result(60)
        other = created()
        api.start(other)
        assert not _is_ours(api, older, [f"{mark}a"])
        assert api.inspect_container(other)["State"]["Running"]
