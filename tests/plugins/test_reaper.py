"""The reaper at a real engine: what it ends, and when it ends nothing. With a real Airflow: faults/test_endings."""

import logging
import os
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import pytest

from ratchet.contracts import paths
from ratchet.contracts.labels import Label
from ratchet.outbox.letter import Letter
from ratchet.runners.docker import DockerRunner
from ratchet.runners.job import Job
from ratchet.runs.history import rebuild_plan
from ratchet.runs.jobs import store_label
from ratchet.runs.known_hosts import hosts
from ratchet.store.base import Store
from ratchet.store.opening import open_store
from ratchet_airflow.alerts import delivery
from ratchet_airflow.reaper import Reaper, main
from ratchet_airflow.run_id import store_run_id
from ratchet_airflow.watch.airflow_server import AirflowServer
from tests.plugins.watch.airflow_api import AirflowApi, task
from tests.releases.another import NEEDS, write
from tests.runs.recorded import keep_plan
from tests.runs.test_requests import plan
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
NAME = plan().spec.name
NIGHT = "scheduled__2026-11-21T02:00:00+00:00"
CANNOT = "the reaper cannot look for containers that no run follows"
DEAF = """if 1:
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("ready", flush=True)
    signal.pause()
"""
Start = Callable[[str], str]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "RATCHET_STORE": f"{tmp_path}/store", "RATCHET_ALERT_LOG": f"{tmp_path}/alerts.jsonl",
        "RATCHET_INSTALLATION": "here", "RATCHET_RUNNER": "docker",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(f"{tmp_path}/store")


@pytest.fixture
def start(store: Store, stage_image: str) -> Iterator[Start]:
    """Starts a container that trains for a run, which has a plan if Airflow made it; nobody has its lease."""
    runner, test = DockerRunner(), uuid.uuid4().hex

    def make(run: str, grace_s: int = 1) -> str:
        stored = store_run_id(run, "here")
        if run.startswith("scheduled"):
            keep_plan(store, plan(run_id=stored, origin=run))
        labels = {
            Label.TEST: "1", "ratchet.test.id": test, Label.STORE: store_label(store.uri), Label.PIPELINE: NAME,
            Label.STAGE: "train", Label.RUN: stored, Label.ATTEMPT: "a", Label.FINGERPRINT: uuid.uuid4().hex,
            Label.GRACE: f"{grace_s}",
        }  # fmt: skip
        command = ("python", "-I", "-S", "-c", DEAF)
        return runner.submit(Job(name="idle", request=b"", image=stage_image, command=command, labels=labels))

    yield make
    for handle in runner.find({"ratchet.test.id": test}):
        runner.remove(handle)


def alive(store: Store) -> set[str]:
    return set(DockerRunner().find({Label.STORE: store_label(store.uri)}))


@pytest.mark.docker
def test_what_airflow_calls_over_or_does_not_have_is_ended_and_all_else_stays(
    store: Store, start: Start, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_GPUS", "fake:0,1")
    states = {"success": "over", "failed": "over", "running": "", "deferred": "", "up_for_retry": "", None: ""}
    runs = {state: f"{NIGHT}-{state}" for state in states}
    handles = {state: start(run) for state, run in runs.items()}
    unknown, unplanned, unreadable = start(f"{NIGHT}-deleted"), start("by-hand"), start(f"{NIGHT}-newer")
    write(store, paths.plan(NAME, store_run_id(f"{NIGHT}-newer", "here")), NEEDS)
    with AirflowApi(tasks={run: [task("train", state)] for state, run in runs.items()}).listening() as api:
        reaper = Reaper(AirflowServer(api.address))
        assert reaper.look()
        assert alive(store) == {unreadable, *(handles[state] for state, said in states.items() if not said)}
        assert not {unknown, unplanned} & alive(store)
        assert (
            f"ending train of {NAME}, run {store_run_id(f'{NIGHT}-deleted', 'here')}: no task follows it" in caplog.text
        )
        assert reaper.look()
    assert caplog.text.count("needs tides") == 1
    engine = DockerRunner().engine
    assert [(host.name, host.engine, host.gpus) for host in hosts(store, "here")] == [(engine.host, engine.id, 2)]


@pytest.mark.docker
def test_the_container_of_a_rebuild_is_that_of_the_task_of_its_dag(store: Store, start: Start) -> None:
    """Also while nobody follows it for a minute, as where a triggerer has died."""
    keep_plan(store, plan(run_id=store_run_id(NIGHT, "here"), origin=NIGHT))
    states = {"deferred": "", "running": "", "up_for_reschedule": "", "failed": "over", "success": "over"}
    handles = dict[str, str]()
    for state in states:
        begun = f"reproduction-{state}"
        handles[state] = start(begun)
        made = plan(run_id=store_run_id(begun, "here"), origin=f"manual__{state}", kind="reproduction")
        key = rebuild_plan(NAME, made.run_id)
        assert store.create(key, made.model_dump_json(by_alias=True).encode())
    with AirflowApi(tasks={f"manual__{state}": [task("reproduce", state)] for state in states}).listening() as api:
        reaper = Reaper(AirflowServer(api.address))
        assert reaper.look()
        assert alive(store) == {handles[state] for state, said in states.items() if not said}
        asked = [path for path in api.asked if "/taskInstances/" in path]
        assert {path.rpartition("/")[2] for path in asked} == {"reproduce"}
        assert all("/dags/ratchet_reproduce/dagRuns/" in path for path in asked)


@pytest.mark.docker
def test_a_run_of_another_airflow_is_left_to_that_and_without_containers_airflow_is_not_asked(
    store: Store, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    with AirflowApi().listening() as api:
        assert Reaper(AirflowServer(api.address)).look()
        theirs = start(NIGHT)
        monkeypatch.setenv("RATCHET_INSTALLATION", "there")
        assert Reaper(AirflowServer(api.address)).look()
        assert api.asked == []
    assert alive(store) == {theirs}


@pytest.mark.docker
def test_while_airflow_does_not_answer_or_refuses_or_a_proxy_does_nothing_is_ended(
    store: Store, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    training = start(NIGHT)
    with AirflowApi(tasks={NIGHT: [task("train", "failed")]}).listening() as api:
        reaper, address = Reaper(AirflowServer(api.address)), api.address
        place = f"/api/v2/dags/{NAME}/dagRuns/{quote(NIGHT, safe='')}/taskInstances/train"
        for status, why in ((403, "does not let"), (404, "Airflow answers 404"), (502, "Airflow answers 502")):
            api.statuses = {place: status}
            for _ in range(2):
                assert not reaper.look()
            assert why in caplog.text
            assert caplog.text.count(CANNOT) == 1
            caplog.clear()
        api.statuses = {}
        assert alive(store) == {training}
    gone = Reaper(AirflowServer(address))
    assert not gone.look()
    assert "Airflow's server does not answer" in caplog.text
    assert alive(store) == {training}
    with AirflowApi(tasks={NIGHT: [task("train", "failed")]}).listening() as api:
        reaper._server = AirflowServer(api.address)
        assert reaper.look()
    assert alive(store) == set()
    assert "the reaper can look for containers that no run follows again" in caplog.text


def test_while_the_disk_of_the_store_is_not_mounted_each_container_is_left(store: Store) -> None:
    reaper, run = Reaper(AirflowServer("http://watch:x@127.0.0.1:9")), store_run_id(NIGHT, "here")
    assert reaper._is_alive(store, NAME, run, "train")
    assert f"{store.uri} has no run of {NAME}, although a container of {run} is here" in str(reaper._unknown)
    keep_plan(store, plan(run_id=store_run_id(f"{NIGHT}-other", "here")))
    assert not reaper._is_alive(store, NAME, run, "train")


def test_an_engine_that_is_away_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    reaper = Reaper(AirflowServer("http://watch:x@127.0.0.1:9"))
    for _ in range(2):
        assert not reaper.look()
    assert caplog.text.count(f"{CANNOT}, and asks again: no Docker engine answers") == 1
    monkeypatch.setenv("RATCHET_RUNNER", "process")
    assert reaper.look()  # no engine is expected, and none is there


def test_alerts_that_a_host_without_a_watch_has_kept_are_posted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    monkeypatch.setenv("RATCHET_RUNNER", "process")
    reaper, waits = Reaper(AirflowServer("http://watch:x@127.0.0.1:9")), delivery.spool()
    event = paths.alert(NAME, "r", "train.failure")
    letter = Letter(
        event=event, receiver="oncall", pipeline=NAME, occasion="failure", title="train failed", body="why",
        kind="failure", made=datetime.now(UTC), due=datetime.now(UTC),
    )  # fmt: skip
    assert waits.keep(event, b"{}", [letter])
    waits.store_is_away({}, lambda *_: True, datetime.now(UTC))
    assert reaper.look()
    assert waits.files()  # a watch of this host says first that the store is back
    (waits.folder / "store-away.json").unlink()
    assert reaper.look()
    assert not waits.files()
    assert [letter.title for letter, _ in delivery.outbox_of(store).waiting()] == ["train failed"]


def started(address: str, tmp_path: Path, *, limit_s: int = 300, **more: str) -> subprocess.Popen[str]:
    """The server."""
    code = f"from ratchet_airflow import reaper; reaper._LIMIT_S = {limit_s}; raise SystemExit(reaper.main())"
    place = {"RATCHET_AIRFLOW_API": address, "PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}", **more}
    with (tmp_path / "log").open("w") as log:
        return subprocess.Popen([sys.executable, "-c", code], env={**os.environ, **place}, stderr=log, text=True)


def test_it_touches_its_file_after_a_good_look_and_ends_when_it_is_told_to(tmp_path: Path) -> None:
    server = started("http://watch:x@127.0.0.1:9", tmp_path, RATCHET_RUNNER="process", DOCKER_HOST="tcp://127.0.0.1:9")
    until((tmp_path / "reaper-alive").exists, seconds=60)
    server.terminate()
    assert server.wait(timeout=60) == 0


@pytest.mark.docker
def test_while_a_container_has_its_grace_it_ends_at_once_when_it_is_told_to(
    store: Store, start: Callable[..., str], tmp_path: Path
) -> None:
    deaf = start(NIGHT, grace_s=300)
    assert next(iter(DockerRunner().logs(deaf))).text == "ready"
    with AirflowApi(tasks={NIGHT: [task("train", "failed")]}).listening() as api:
        server = started(api.address, tmp_path)
        until(lambda: "ending train" in (tmp_path / "log").read_text(), seconds=60)
        server.terminate()
        assert server.wait(timeout=60) == 0
    assert alive(store) == {deaf}


def test_a_look_that_hangs_ends_the_process_and_touches_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # an engine that takes each call, and never answers
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        server = started("http://watch:x@127.0.0.1:9", tmp_path, limit_s=1, DOCKER_HOST=address)
        assert server.wait(timeout=60) == -signal.SIGALRM
    assert not (tmp_path / "reaper-alive").exists()


def test_without_the_address_of_airflow_it_does_not_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("RATCHET_AIRFLOW_API", raising=False)
    assert main() == 64
    assert capsys.readouterr().err.startswith("reaper: RATCHET_AIRFLOW_API is not set; to do: ")
