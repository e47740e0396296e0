"""The DAG that builds a version again: a real small version with a refit, by both runners."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import ANY

import pytest
from airflow.sdk.exceptions import AirflowRescheduleException

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError, Preempted, RatchetError, Unavailable
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.request import Outcome
from ratchet.contracts.stages import TRAININGS, Stage
from ratchet.samples import clicks
from ratchet.store.base import Store
from ratchet.store.opening import open_store
from ratchet.store.sealed import seal
from ratchet.store.version_records import read_record
from ratchet_airflow.outages import USUAL, WAITED
from ratchet_airflow.reproduction import ReproduceOperator, build
from tests.plugins.test_operators import States
from tests.runs.nights import DAY, ROOT, SMALL, ratchet
from tests.s3 import S3Server

pytestmark = [pytest.mark.heavy, pytest.mark.xdist_group("reproduce-dag")]
PIPELINE = "search-ranking"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with version 1, whose bits are a refit. There is no source any more."""
    folder = tmp_path_factory.mktemp("reproduce")
    for _ in clicks.write(folder / "data", days=6, rows_per_day=2000, end=DAY, seed=0):
        pass
    pipeline = folder / PIPELINE
    pipeline.mkdir()
    text = (ROOT / "dags" / "pipelines" / PIPELINE / "pipeline.yaml").read_text(encoding="utf-8")
    for usual, changed in (
        ("model: {kind: dcn}", "model: {kind: dcn}\n  refit: true"),
        ("item_id:  {role: categorical", "item_id:  {role: ignore"),
    ):
        assert usual in text
        text = text.replace(usual, changed)
    (pipeline / "pipeline.yaml").write_text(text, encoding="utf-8")
    store = folder / "store"
    more = ("--store", str(store), "--runner", "process", "--json", *SMALL, "--set", "source.window_days=6")
    ended = ratchet("run", str(pipeline), "--date", f"{DAY}", *more, environment={"RATCHET_DATA": str(folder / "data")})
    assert ended.code == 0, ended.err
    assert ended.json["model"] == {"name": PIPELINE, "version": "1"}, ended.json["reason"]
    return store


@pytest.fixture
def store(made: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("RATCHET_STORE", str(made))
    monkeypatch.setenv("RATCHET_RUNNER", "process")
    monkeypatch.setenv("RATCHET_DATA", "/nowhere")
    return open_store(str(made))


def carry_out(**form: Any) -> str:
    operator = ReproduceOperator(task_id="reproduce")
    return operator.execute(context(**form))


def context(states: States | None = None, max_tries: int = USUAL.retries, **form: Any) -> dict[str, Any]:
    params = {"model": PIPELINE, "version": "1", "tolerance": 0.001, **form}
    return {
        "params": params,
        "dag_run": SimpleNamespace(triggering_user_name="ada"),
        "run_id": "manual__1",
        "ti": SimpleNamespace(try_number=1, max_tries=max_tries),
        "task_state_store": states,
    }


class Interrupted(ReproduceOperator):
    """away: what happens as its training is to begin. heard: by stage, whether an earlier process computed it."""

    away: Exception | None = None
    heard: dict[str, bool] | None = None

    def _log_stage(self, stage: Stage, outcome: Outcome | None) -> None:
        if outcome is not None:
            self.heard = {**(self.heard or {}), stage: outcome.cached}
        elif stage == "train" and self.away is not None:
            raise self.away


def interrupted() -> Interrupted:
    """Its store is away when its training is to begin."""
    made = Interrupted(task_id="reproduce")
    made.away = Unavailable("the store is away")
    return made


def test_a_version_whose_bits_are_a_refit_is_bit_equal_and_the_refit_is_what_was_compared(store: Store) -> None:
    record = read_record(store, PIPELINE, "1")
    assert record.refit is not None
    assert record.digest == record.refit.digest != record.trained.digest
    said = carry_out()
    assert said.startswith(f"bit-equal: weights and held-out scores of {PIPELINE} version 1 have the same bits")
    assert "different" not in said


def test_a_refit_that_is_another_one_has_diverged_however_like_the_measured_training_is(
    made: Path, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(made, tmp_path / "store", symlinks=True)
    monkeypatch.setenv("RATCHET_STORE", str(tmp_path / "store"))
    copy, record = open_store(str(tmp_path / "store")), read_record(store, PIPELINE, "1")
    other = {name: record.stages[name].model_copy(update={"content": digest(b"other")}) for name in TRAININGS}
    weights = {**record.weights, "refit": record.weights["train"]}
    changed = record.model_copy(update={"stages": {**record.stages, **other}, "weights": weights})
    key = paths.version_record(record.model, record.version, record.digest)
    entry = copy.head(key)
    assert entry
    assert copy.replace(key, seal(changed), expected=entry.etag)
    with pytest.raises(RatchetError, match=r"diverged: search-ranking version 1: weights differ by [0-9.]+, scores di"):
        carry_out()


def test_it_needs_a_version_with_a_record(store: Store) -> None:
    with pytest.raises(ConfigurationError, match="has no record of search-ranking version 9"):
        carry_out(version="9")


def test_a_rebuild_that_lacks_an_ingredient_fails_and_names_it(store: Store) -> None:
    key = read_record(store, PIPELINE, "1").bundle.key
    data = store.read(key)
    store.delete(key)
    try:
        with pytest.raises(RatchetError, match="gone: the pipeline's folder"):
            carry_out()
    finally:
        store.create(key, data)


def test_a_task_that_is_killed_stops_its_stage(store: Store) -> None:
    operator = ReproduceOperator(task_id="reproduce")
    begin = operator._begin_attempt  # the moment at which Airflow may kill it

    def killed(attempt: Any) -> None:
        begin(attempt)
        operator.on_kill()

    operator._begin_attempt = killed  # a moment to kill it
    with pytest.raises(Preempted):
        operator.execute(context())


def test_after_an_outage_the_same_run_goes_on_and_after_a_clear_another_one_begins(store: Store) -> None:
    states, first = States(), interrupted()
    with pytest.raises(AirflowRescheduleException):
        first.execute(context(states))
    assert first.heard == {"features": False}
    kept = dict(states.kept)
    assert set(kept) == {"ratchet_rebuild", WAITED}
    second = Interrupted(task_id="reproduce")
    assert second.execute(context(states)).startswith("bit-equal: ")
    assert second.heard == {"features": True, "train": False, "evaluate": False, "refit": False}
    assert states.kept["ratchet_rebuild"] == kept["ratchet_rebuild"] == [USUAL.retries, ANY]
    (answer,) = [
        entry.key
        for entry in store.list(paths.runs(PIPELINE))
        if kept["ratchet_rebuild"][1] in entry.key and entry.key.endswith("report.json")
    ]
    assert '"started_by": "ada"' in store.read(answer).decode()
    late = Interrupted(
        task_id="reproduce"
    )  # its process before was killed when it had its answer; and no triggerer came back
    said = late.resume_execution("__fail__", {"error": "Trigger timeout"}, context(states))
    assert (said.startswith("bit-equal: "), late.heard, late.follows_itself) == (True, None, True)
    cleared = interrupted()
    with pytest.raises(AirflowRescheduleException):
        cleared.execute(context(states, USUAL.retries + 2))
    assert cleared.heard == {"features": False}
    assert states.kept["ratchet_rebuild"][0] == USUAL.retries + 2
    assert states.kept["ratchet_rebuild"][1] != kept["ratchet_rebuild"][1]


def test_a_store_that_is_away_is_waited_for_as_by_a_stage(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("RATCHET_STORE", f"s3://{s3.bucket}/rebuilds")
    states = States()
    met = context(states)
    task = build().get_task("reproduce")
    assert isinstance(task, ReproduceOperator)
    for waited_s in (30, 60):
        with pytest.raises(AirflowRescheduleException):
            task.execute(met)
        assert states.kept == {WAITED: [USUAL.retries, waited_s]}
    states.kept[WAITED] = [USUAL.retries, USUAL.outage_s]  # as after hours
    with pytest.raises(Unavailable) as raised:
        task.execute(met)
    assert task.retry_policy is not None
    retry = task.retry_policy.evaluate(raised.value, 1, task.retries)
    assert retry.retry_delay is not None
    assert retry.retry_delay.total_seconds() > 20


def test_the_form_asks_for_a_version_and_the_task_yields_to_nights() -> None:
    dag = build()
    task = dag.get_task("reproduce")
    assert (task.pool, task.priority_weight, dag.is_paused_upon_creation) == ("ratchet_backfill", 1, False)
    assert list(dag.params) == ["model", "version", "tolerance", "chain"]


@pytest.mark.docker
def test_the_runner_of_this_airflow_builds_it_in_containers(
    store: Store, stage_image: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("RATCHET_RUNNER", "docker")
    monkeypatch.setenv("RATCHET_STAGE_IMAGE", stage_image)
    assert carry_out().startswith("bit-equal: ")
