"""The metrics of a training are in MLflow while it runs, and the training does not notice whether MLflow is there."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest
from mlflow.tracking import MlflowClient

from ratchet.contracts.request import RunPlan
from ratchet.contracts.stages import Stage
from ratchet.runners.following import LeftRunning
from ratchet.runs import live_metrics
from ratchet.runs.events import Event
from ratchet.runs.history import runs_of
from ratchet.store.opening import open_store
from tests.ports import hold, number
from tests.runs import test_requests
from tests.runs.nights import DAY, run, sample
from tests.waiting import until

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("servers")]


@pytest.fixture(autouse=True)
def soon(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write every tenth of a second; at the end wait for a server that answers, however slowly."""
    monkeypatch.setattr(live_metrics, "EVERY_S", 0.1)
    if "mlflow_server" in request.fixturenames:
        monkeypatch.setattr(live_metrics, "_LAST_S", dict.fromkeys(live_metrics._LAST_S, 60.0))


def plan(uri: str | None, run: str, **changes: Any) -> RunPlan:
    return test_requests.plan(tracking_uri=uri, run_id=run, **changes)


def progress(step: int, **fields: float) -> Event:
    return Event(
        name="progress",
        level="info",
        message=f"step {step}",
        time=datetime.now(UTC).isoformat(timespec="milliseconds"),
        fields={"step": step, "done": step, "total": 100, "eta": 9.0, **fields},
    )


def found(uri: str, training: str) -> Any:
    """The run of a training, if there is one."""
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name(f"{test_requests.plan().spec.name}.training")
    if experiment is None:
        return None
    return next(iter(client.search_runs([experiment.experiment_id], f"tags.`ratchet.training` = '{training}'")), None)


def has(uri: str, training: str, **metrics: float) -> bool:
    run = found(uri, training)
    return run is not None and {name: run.data.metrics.get(name) for name in metrics} == metrics


def test_metrics_are_there_while_the_training_runs_and_the_next_try_adds_to_them(mlflow_server: str) -> None:
    heard: list[Event] = []
    with live_metrics.live_metrics(plan(mlflow_server, "one"), "train", heard.append) as hear:
        hear(progress(1, loss=0.7, samples_per_sec=100.0, gradient_norm=float("nan")))
        hear(Event(name="info", level="info", message="hello"))
        hear(Event(name="progress", level="info", message="mine", fields={"step": 3, "own": 4.0, "loss": 10**400}))
        until(lambda: has(mlflow_server, "one train", loss=0.7, training_throughput_samples_per_sec=100.0), seconds=60)
        assert found(mlflow_server, "one train").info.status == "RUNNING"
    assert [event.message for event in heard] == ["step 1", "hello", "mine"]
    run = found(mlflow_server, "one train")
    assert run.info.status == "FINISHED"
    assert set(run.data.metrics) == {"loss", "training_throughput_samples_per_sec"}
    assert run.info.run_name == "one train"
    with pytest.raises(KeyError):
        fail_after(mlflow_server, progress(2, loss=0.6))
    again = found(mlflow_server, "one train")
    assert (again.info.run_id, again.info.status) == (run.info.run_id, "FAILED")
    history = MlflowClient(mlflow_server).get_metric_history(run.info.run_id, "loss")
    assert [(point.step, point.value) for point in history] == [(1, 0.7), (2, 0.6)]


@pytest.mark.parametrize(("ends", "status"), [(True, "FINISHED"), (False, "FAILED")])
def test_a_run_ends_with_its_training_although_the_triggerer_has_heard_every_line(
    mlflow_server: str, ends: bool, status: str
) -> None:
    made, training = plan(mlflow_server, f"left-{ends}"), f"left-{ends} train"
    with suppress(LeftRunning), live_metrics.live_metrics(made, "train", lambda _: None) as hear:
        hear(progress(1, loss=0.7))
        until(lambda: has(mlflow_server, training, loss=0.7), seconds=60)
        raise LeftRunning
    assert found(mlflow_server, training).info.status == "RUNNING"
    with suppress(KeyError), live_metrics.live_metrics(made, "train", lambda _: None, goes_on=True):
        if not ends:
            raise KeyError
    assert found(mlflow_server, training).info.status == status


def test_the_run_of_a_training_that_a_person_ends_while_it_is_left_has_failed(mlflow_server: str) -> None:
    made = plan(mlflow_server, "ended")
    with suppress(LeftRunning), live_metrics.live_metrics(made, "train", lambda _: None) as hear:
        hear(progress(1, loss=0.7))
        raise LeftRunning
    until(lambda: has(mlflow_server, "ended train", loss=0.7), seconds=60)
    live_metrics.end_run(made, "train", lambda _: None)
    until(lambda: found(mlflow_server, "ended train").info.status == "FAILED", seconds=60)
    live_metrics.end_run(made, "features", lambda _: None)


def test_a_deleted_run_or_experiment_loses_no_value_in_silence(mlflow_server: str) -> None:
    client = MlflowClient(mlflow_server)
    heard: list[Event] = []
    with live_metrics.live_metrics(plan(mlflow_server, "five"), "train", heard.append) as hear:
        hear(progress(1, loss=0.7))
        until(lambda: has(mlflow_server, "five train", loss=0.7), seconds=60)
        client.delete_run(found(mlflow_server, "five train").info.run_id)
        hear(progress(2, loss=0.6))
        until(lambda: has(mlflow_server, "five train", loss=0.6), seconds=60)
    name = f"{test_requests.plan().spec.name}.training"
    experiment = client.get_experiment_by_name(name)
    assert experiment is not None
    client.delete_experiment(experiment.experiment_id)
    try:
        with live_metrics.live_metrics(plan(mlflow_server, "six"), "train", heard.append) as hear:
            hear(progress(1, loss=0.7))
    finally:
        client.restore_experiment(experiment.experiment_id)
    assert heard[-1].name == "warning"
    assert f"makes no run in the experiment {name}: was it deleted?" in heard[-1].message


def test_a_server_that_never_answers_holds_nobody_up() -> None:
    heard: list[Event] = []
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        with live_metrics.live_metrics(plan(uri, "seven"), "train", heard.append) as hear:
            hear(progress(1, loss=0.5))
        assert time.monotonic() - began < 60
    assert "1 values of the training's progress are not in MLflow" in heard[-1].message


def test_an_address_that_is_none_fails_no_training() -> None:
    heard: list[Event] = []
    with live_metrics.live_metrics(plan("http://[bad", "eight"), "train", heard.append) as hear:
        hear(progress(1, loss=0.5))
    assert heard[-1].message == "1 values of the training's progress are not in MLflow: ValueError"


def fail_after(uri: str, event: Event) -> None:
    """A try that fails."""
    with live_metrics.live_metrics(plan(uri, "one"), "train", lambda _: None) as hear:
        hear(event)
        raise KeyError


def test_values_are_kept_while_mlflow_is_away(mlflow_server: str) -> None:
    heard: list[Event] = []
    with (
        hold() as away,
        live_metrics.live_metrics(plan(f"http://127.0.0.1:{number(away)}", "two"), "train", heard.append) as hear,
    ):
        for step in range(1500):
            hear(progress(step, loss=1 / (1 + step)))
        began = time.monotonic()
        until(lambda: time.monotonic() > began + 1, seconds=10)
        with relay(number(away), mlflow_server):
            until(lambda: has(mlflow_server, "two train", loss=1 / 1500), seconds=60)
            hear(progress(1500, loss=0.0))
            until(lambda: has(mlflow_server, "two train", loss=0.0), seconds=60)
    run = found(mlflow_server, "two train")
    assert len(MlflowClient(mlflow_server).get_metric_history(run.info.run_id, "loss")) == 1501
    assert {event.name for event in heard} == {"progress"}


def test_a_training_ends_in_time_without_mlflow_and_says_what_is_missing() -> None:
    heard: list[Event] = []
    began = time.monotonic()
    with live_metrics.live_metrics(plan("http://me:s3cret@127.0.0.1:9", "three"), "refit", heard.append) as hear:
        hear(progress(1, loss=0.5, learning_rate=1e-3))
    assert time.monotonic() - began < 60
    assert [event.name for event in heard] == ["progress", "warning"]
    assert heard[-1].message == (
        "2 values of the training's progress are not in MLflow: MLflow at http://127.0.0.1:9 does not answer:"
        " ConnectionError"
    )


@pytest.mark.parametrize(
    ("stage", "uri", "kind"),
    [
        ("features", "http://127.0.0.1:9", "local"),
        ("train", None, "local"),
        ("train", "sqlite:///x.db", "local"),
        ("train", "http://127.0.0.1:9", "reproduction"),
    ],
)
def test_other_stages_and_other_trackers_are_left_alone(stage: Stage, uri: str | None, kind: str) -> None:
    heard: list[Event] = []
    with live_metrics.live_metrics(plan(uri, "four", kind=kind), stage, heard.append) as hear:
        assert hear == heard.append


@pytest.mark.heavy
def test_a_night_has_its_training_in_mlflow(mlflow_server: str, tmp_path: Path) -> None:
    data = sample(tmp_path / "data", rows_per_day=1000)
    settings = {"MLFLOW_TRACKING_URI": mlflow_server}
    ended = run("search-ranking", str(data), str(tmp_path / "store"), environment=settings)
    assert ended.code == 0, ended.err
    client = MlflowClient(mlflow_server)
    experiment = client.get_experiment_by_name("search-ranking.training")
    assert experiment is not None
    (night,) = runs_of(open_store(str(tmp_path / "store")), "search-ranking", DAY)
    (one,) = client.search_runs([experiment.experiment_id], f"tags.`ratchet.training` = '{night} train'")
    assert one.info.status == "FINISHED"
    assert {
        *("training_throughput_samples_per_sec", "data_loading_latency_ms", "checkpoint_duration_ms", "memory_mib"),
        *("loss", "learning_rate", "gradient_norm", "waiting_pct", "valid.metric"),
    } <= set(one.data.metrics)
    history = client.get_metric_history(one.info.run_id, "valid.metric")
    assert len(history) > 1
    assert history[-1].step > history[0].step


@contextmanager
def relay(port: int, to: str) -> Iterator[None]:
    """Pass connections to a port on to a server."""
    target = urlsplit(to)

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            with socket.create_connection((target.hostname, target.port)) as upstream:
                back = Thread(target=_copy, args=(upstream, self.request), daemon=True)
                back.start()
                _copy(self.request, upstream)
                back.join(5)

    class Server(ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", port), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return
