"""Ratchet's own runner, with nothing between it and the engine but the filter."""

from collections.abc import Iterator
from dataclasses import replace
from threading import Thread
from typing import Any

import docker
import pytest

from ratchet.contracts.errors import ConfigurationError, JobGone, Unavailable
from ratchet.contracts.labels import Label
from ratchet.contracts.stages import Resources
from ratchet.runners.container import container_config
from ratchet.runners.detached import end_container
from ratchet.runners.devices import Devices, _claims
from ratchet.runners.docker import DockerRunner
from ratchet.runners.following import follow_to_end
from ratchet.runners.job import Job
from ratchet.runners.log.lines import Line
from tests.team.engine_filter.running import Running

pytestmark = pytest.mark.docker


@pytest.fixture
def runner(running: Running, monkeypatch: pytest.MonkeyPatch) -> DockerRunner:
    monkeypatch.setenv("DOCKER_HOST", running.docker_host)
    return DockerRunner()


@pytest.fixture
def job(stage_image: str, api: docker.APIClient, place: str) -> Iterator[Any]:
    def make(code: str, **settings: Any) -> Job:
        labels = {Label.TEST: "1", **settings.pop("labels", {})}
        command = ("python", "-I", "-S", "-c", code)
        return Job(name="job", request=b'{"a": 1}', image=stage_image, labels=labels, command=command, **settings)

    yield make
    assert api.containers(all=True, filters={"label": [f"{Label.INSTALLATION}={place}"]}) == []


def test_a_job_runs_and_its_lines_and_exit_code_come_back(runner: DockerRunner, job: Any) -> None:
    lines: list[Line] = []
    code = "import sys; print(open('/run/ratchet/secrets/key').read()); print('e', file=sys.stderr); sys.exit(65)"
    given = job(code, secrets={"key": b"hunter2"})
    ended = follow_to_end(runner, runner.submit(given), given, lines.append)
    assert ended.exit_code == 65
    assert sorted((line.stream, line.text) for line in lines) == [("stderr", "e"), ("stdout", "hunter2")]


def test_lines_come_while_the_job_runs(runner: DockerRunner, job: Any) -> None:
    handle = runner.submit(job("import time; print('here', flush=True); time.sleep(600)"))
    assert next(iter(runner.logs(handle))).text == "here"
    assert runner.status(handle).running
    runner.stop(handle, 0)
    assert runner.wait(handle).exit_code in {137, 143}
    runner.remove(handle)
    with pytest.raises(JobGone, match="is gone"):
        runner.status(handle)


STUBBORN = """if 1:
    import signal, sys, time
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
    print('ready', flush=True)
    time.sleep(600)
"""


def test_a_notice_lets_the_job_end_by_itself(runner: DockerRunner, job: Any) -> None:
    handle = runner.submit(job(STUBBORN))
    lines = runner.logs(handle)
    assert next(lines).text == "ready"
    runner.notify(handle)
    assert list(lines) == []
    assert runner.wait(handle).exit_code == 75
    runner.notify(handle)  # it has ended: quiet
    runner.remove(handle)
    runner.remove(handle)


def test_a_paused_container_is_woken_up(runner: DockerRunner, job: Any, api: docker.APIClient) -> None:
    handle = runner.submit(job(STUBBORN))
    assert next(runner.logs(handle)).text == "ready"
    api.pause(handle)
    runner.stop(handle, 30)
    assert runner.wait(handle).exit_code == 75
    runner.remove(handle)


def test_a_wait_with_a_limit_ends_and_leaves_the_job(runner: DockerRunner, job: Any) -> None:
    handle = runner.submit(job("import time; time.sleep(600)"))
    assert runner.wait(handle, 0.3).running
    end_container(handle, 0.1)
    with pytest.raises(JobGone, match="is gone"):
        runner.status(handle)


def test_containers_are_found_by_label_and_only_those_of_the_installation(
    runner: DockerRunner, job: Any, api: docker.APIClient, stage_image: str, place: str
) -> None:
    labels = {Label.TEST: "1", Label.RUN: place}
    strange = api.create_container(stage_image, labels={**labels, "ratchet": "1"})["Id"]
    handle = runner.submit(job("import time; time.sleep(600)", labels=labels))
    try:
        assert runner.find({Label.RUN: place}) == [handle]
        assert runner.labels(handle).items() >= {**labels, "ratchet": "1", Label.INSTALLATION: place}.items()
        with pytest.raises(ConfigurationError, match="containers of the installation"):
            runner.labels(strange)
    finally:
        api.remove_container(strange, force=True)
        runner.remove(handle)


def test_the_volume_carries_the_labels_and_goes_with_the_container(
    runner: DockerRunner, job: Any, api: docker.APIClient, place: str
) -> None:
    wanted = {"label": [f"{Label.INSTALLATION}={place}"]}
    handle = runner.submit(job("pass"))
    assert len(api.volumes(filters=wanted)["Volumes"]) == 1
    runner.remove(handle)
    assert not api.volumes(filters=wanted)["Volumes"]


def test_the_image_is_asked_for_by_name_and_made_a_container_of_by_id(
    runner: DockerRunner, job: Any, api: docker.APIClient, stage_image: str
) -> None:
    identity = runner.image_id(stage_image)
    assert identity == api.inspect_image(stage_image)["Id"]
    for image in (stage_image, identity):
        handle = runner.submit(replace(job("pass"), image=image))
        assert api.inspect_container(handle)["Config"]["Image"] == identity
        runner.remove(handle)


def test_an_image_that_is_not_there_is_named_as_such(runner: DockerRunner) -> None:
    with pytest.raises(ConfigurationError, match="ratchet-stage:missing is not in the engine"):
        runner.image_id("ratchet-stage:missing")


def test_a_job_that_is_refused_says_why_and_leaves_nothing(runner: DockerRunner, job: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"HostConfig\.Memory = \d+ is refused; allowed: at most 8589934592"):
        runner.submit(job("pass", resources=Resources.model_validate({"memory": "9g"})))
    with pytest.raises(ConfigurationError, match=r"HostConfig\.NetworkMode is refused; allowed: none, ratchet-test"):
        runner.submit(job("pass", network="host"))


def test_gpus_are_given_and_counted(
    runner: DockerRunner, job: Any, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_GPUS", f"fake:{place}")  # a name of its own: other tests count 0 and 1
    handle = runner.submit(job("import time; time.sleep(600)", resources=Resources(gpus=1)))
    assert runner.labels(handle)[Label.GPUS] == place
    with pytest.raises(Unavailable, match="0 of 1 are free"):
        runner.submit(job("pass", resources=Resources(gpus=1)))
    runner.remove(handle)


def test_a_claim_that_has_not_started_is_seen(runner: DockerRunner, job: Any, place: str) -> None:
    devices = Devices(names=(place,), fake=True)
    config = container_config(job("pass"), cpus=2, devices=devices)
    handle = runner._api.create_container_from_config(config, "ratchet-job-00000000")["Id"]
    try:
        (claim,) = _claims(runner._api, (place,))
        assert (claim.handle, claim.started, claim.names) == (handle, False, {place})
    finally:
        runner.remove(handle)


def test_out_of_memory_is_reported_as_such(runner: DockerRunner, job: Any) -> None:
    limits = Resources.model_validate({"memory": "32m", "shm": "16m"})
    given = job("x = b'x' * (256 << 20)", resources=limits)
    ended = follow_to_end(runner, runner.submit(given), given, lambda _: None)
    assert (ended.exit_code, ended.out_of_memory) == (137, True)


def test_many_jobs_are_followed_at_once(runner: DockerRunner, job: Any) -> None:
    handles = [runner.submit(job(f"for i in range(500): print({number}, i)")) for number in range(4)]
    found: dict[str, int] = {}

    def follow(handle: str) -> None:
        found[handle] = len(list(DockerRunner().logs(handle)))

    threads = [Thread(target=follow, args=(handle,)) for handle in handles]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for handle in handles:
        runner.remove(handle)
    assert found == dict.fromkeys(handles, 500)
