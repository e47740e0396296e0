"""Stages whose store is reached over a network: what their containers see, and what they download."""

import json
import subprocess
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ratchet.contracts import summaries
from ratchet.contracts.errors import RatchetError
from ratchet.contracts.labels import STAGE_USER, Label
from ratchet.contracts.request import RunPlan
from ratchet.runners.docker import DockerRunner
from ratchet.runs.events import Event
from ratchet.runs.local_run import attempt_stage
from ratchet.runs.outcomes import outcomes
from tests.faults.ticking import ticking
from tests.faults.trainings import Trainings, containers, trained, trainings
from tests.s3 import S3Server
from tests.s3_proxy import Requests, s3_proxy

pytestmark = [pytest.mark.docker, pytest.mark.heavy]
KEYS = """[default]
aws_access_key_id = everything
aws_secret_access_key = secret-of-everything
[ratchet-train]
aws_access_key_id = training
aws_secret_access_key = secret-of-training
"""
LOOKS = """
import hashlib, json, os, pathlib, sys
files = pathlib.Path("/var/cache/ratchet/files")
print(json.dumps({
    "secrets": {path.name: path.read_text() for path in pathlib.Path("/run/ratchet/secrets").iterdir()},
    "cached": sorted(path.name for path in files.iterdir()),
    "owner": pathlib.Path("/var/cache/ratchet").stat().st_uid,
    "scratch": len(list((files.parent / "scratch").iterdir())),
}))
for name in sys.argv[1:]:
    (files / name).unlink()
    (files / name).write_bytes(b"poison")
"""


@dataclass(frozen=True, kw_only=True)
class Team:
    """A network from which only S3 answers, a volume for the cache, and trainings there."""

    network: str
    volume: str
    asked: Requests
    made: Trainings


def docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def team(s3: S3Server, stage_image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Team]:
    """As the team set-up has it: an internal network, S3 by its address there, keys in a file, a cache."""
    name = f"ratchet-test-{uuid.uuid4().hex[:12]}"
    docker("network", "create", "--internal", "--label", f"{Label.TEST}=1", name)
    try:
        (settings,) = json.loads(docker("network", "inspect", name))
        with s3_proxy(s3.endpoint, settings["IPAM"]["Config"][0]["Gateway"]) as asked:
            keys = tmp_path / "keys"
            keys.write_text(KEYS)
            for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
                monkeypatch.delenv(variable)
            monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(keys))
            monkeypatch.setenv("AWS_ENDPOINT_URL", asked.endpoint)
            monkeypatch.setenv("NO_PROXY", "*")
            monkeypatch.setenv("RATCHET_STAGE_NETWORK", name)
            monkeypatch.setenv("RATCHET_CACHE_VOLUME", name)
            uri = f"s3://{s3.bucket}/{uuid.uuid4().hex}"
            with trainings(tmp_path, stage_image, model=ticking(0.1), rows_per_day=1000, store_uri=uri) as made:
                yield Team(network=name, volume=name, asked=asked, made=made)
    finally:
        for what in ("volume", "network"):
            subprocess.run(["docker", what, "rm", name], capture_output=True, check=False)
    assert name not in docker("volume", "ls") + docker("network", "ls")


def training(team: Team, plan: RunPlan, name: str, at_tick: Callable[[str], None] | None = None) -> list[str]:
    """Train in a container, and do something with the container at its fifth step. What the stage said."""
    said: list[str] = []
    seen = threading.Event()

    def listen(event: Event) -> None:
        said.append(event.message)
        if event.message == "tick 5" and at_tick is not None and not seen.is_set():
            seen.set()
            (handle,) = containers(team.made)
            at_tick(handle)

    attempt_stage(plan, "train", DockerRunner(), name=name, on_event=listen)
    return said


def test_a_second_attempt_on_the_same_host_downloads_nothing_again_and_believes_nothing(team: Team) -> None:
    plan = team.made.plan("r", **{"train.batch_size": 64, "train.epochs": 2})
    team.made.prepare(plan)
    features = outcomes(team.made.store, "faulty", plan.run_id)["features"].result
    assert features is not None
    arrays = [array for day in summaries.features(features).days for array in day.arrays.values()]
    poisoned = max(arrays, key=lambda array: array.bytes)
    looked: list[dict[str, object]] = []
    inspected: list[str] = []

    def look_poison_and_kill(handle: str) -> None:
        inspected.append(docker("inspect", handle))
        looked.append(json.loads(docker("exec", handle, "python", "-c", LOOKS, poisoned.sha256)))
        docker("kill", handle)

    before = {array.key: team.asked.read(array.key) for array in arrays}
    with pytest.raises(RatchetError):
        training(team, plan, "first", look_poison_and_kill)
    first = {array.key: team.asked.read(array.key) - before[array.key] for array in arrays}
    used = [array for array in arrays if first[array.key]]
    assert set(first.values()) <= {0, 1}  # the days of the holdout are evaluate's
    assert poisoned in used
    said = training(team, plan, "second")
    second = {array.key: team.asked.read(array.key) - before[array.key] - first[array.key] for array in arrays}
    assert {key for key, count in second.items() if count} == {poisoned.key}
    assert any(f"{poisoned.sha256[:12]} is damaged" in line for line in said)

    assert looked[0]["owner"] == STAGE_USER
    assert {array.sha256 for array in used} <= set(looked[0]["cached"])  # type: ignore[arg-type, call-overload] # a list
    keys = "[default]\naws_access_key_id = training\naws_secret_access_key = secret-of-training"
    assert looked[0]["secrets"] == {"aws-credentials": keys}
    assert looked[0]["scratch"] == 1

    (container,) = json.loads(inspected[0])
    assert "secret-of" not in inspected[0]
    assert list(container["NetworkSettings"]["Networks"]) == [team.network]
    mounts = {(mount["Type"], mount["Destination"]) for mount in container["Mounts"]}
    assert mounts == {("volume", "/run"), ("volume", "/var/cache/ratchet")}
    assert not container["HostConfig"]["Binds"]
    outcome = outcomes(team.made.store, "faulty", plan.run_id)["train"]
    assert trained(outcome).rows > 0
    left = docker(
        *("run", "--rm", "--label", f"{Label.TEST}=1", "--network", "none", "--volume", f"{team.volume}:/cache"),
        *("--entrypoint", "python", team.made.image),
        *("-c", "import os; print(os.listdir('/cache/scratch') + os.listdir('/cache/incoming'))"),
    )
    assert left == "[]"
