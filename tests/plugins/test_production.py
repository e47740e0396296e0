"""The DAGs that change production by hand."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators import hitl
from airflow.sdk.exceptions import TaskAwaitingInput

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError, JobGone, Preempted, Unavailable
from ratchet.contracts.gate import Register
from ratchet.production.rollback import rollback
from ratchet.store.file import FileStore
from ratchet.store.ledger import champion, records
from ratchet.tracking.mlflow import track
from ratchet.tracking.use_registry import use_registry
from ratchet_airflow.alerts import by_hand
from ratchet_airflow.pools import pools
from ratchet_airflow.production import VERBS, ProductionOperator, build
from ratchet_airflow.retries import UnavailableRetryPolicy
from ratchet_airflow.second_person import SecondPersonOperator
from ratchet_airflow.watch import production as watch
from tests.mlflow_server import prepare
from tests.plugins.test_operators import States
from tests.register.night import night
from tests.runs.recorded import keep_plan
from tests.runs.test_requests import plan
from tests.shop import Shop

DAGS = {verb.name: verb for verb in VERBS}


@pytest.fixture
def shop(tmp_path: Path, mlflow_database: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A shop with two versions that were in production."""
    made = Shop.make(prepare(FileStore(tmp_path / "store"), mlflow_database), tmp_path / "scratch")
    monkeypatch.setenv("RATCHET_STORE", made.store.uri)
    monkeypatch.setenv("RATCHET_ALERT_LOG", str(tmp_path / "alerts.jsonl"))
    for weight in (-1.0, 1.0):
        assert night(made, made.train(1.0, weight if weight < 0 else 0.0)).promoted
    return made


def carry_out(
    verb: str, *, by: str | None = "ada", states: States | None = None, because: str = "clicks fell", **form: Any
) -> str:
    operator = ProductionOperator(task_id=verb, verb=verb)
    run = SimpleNamespace(triggering_user_name=by)
    params = {"model": "shop", "because": because, **form}
    return operator.execute({"params": params, "dag_run": run, "task_state_store": states})


def alias(shop: Shop, folder: Path) -> str:
    found = use_registry(shop.store, None, folder, lambda registry: registry.champion("shop"))
    assert found is not None
    return found.number


def test_a_rollback_moves_ledger_and_alias_and_says_so(shop: Shop, tmp_path: Path) -> None:
    said = carry_out("rollback")
    assert "production: version 2 -> version 1" in said
    record = records(shop.store, "shop")[-1]
    assert (record.action, record.version, record.started_by, record.reason) == ("rollback", "1", "ada", "clicks fell")
    assert record.by_hand
    (tmp_path / "look").mkdir()
    assert alias(shop, tmp_path / "look") == "1"


def test_a_rollback_asks_the_registry_that_serves_whether_it_has_the_version(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "look").mkdir()
    track(shop.store, None, tmp_path / "look", lambda tracker: tracker.client.delete_model_version("shop", "1"))
    with pytest.raises(ConfigurationError, match=r"does not have the model of version 1 .* nothing was rolled back"):
        carry_out("rollback")
    assert len(records(shop.store, "shop")) == 2
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")  # which does not answer, so nobody knows
    assert "the record stays" in carry_out("rollback")


def test_a_task_that_was_killed_after_its_change_makes_it_only_once(shop: Shop) -> None:
    states = States()
    with pytest.raises(ConfigurationError):
        carry_out("rollback", states=states, version="99")
    rollback(shop.store, "shop", by="ada", because="clicks fell")
    carry_out("rollback", states=states)
    assert [record.action for record in records(shop.store, "shop")] == ["promote", "promote", "rollback"]


def test_hold_release_and_history(shop: Shop) -> None:
    assert "hold by ada" in carry_out("hold")
    with pytest.raises(ConfigurationError, match="held"):
        carry_out("hold")
    assert "release by ben" in carry_out("release", by="ben")
    table = carry_out("history", by=None).splitlines()
    assert len(table) == 5
    assert "clicks fell" in table[-1]
    assert "ok: " in carry_out("doctor", by=None)


def planned(shop: Shop, **register: Any) -> None:
    """The plan of the shop's run, and no records of its versions, as of a release of before."""
    for entry in [*shop.store.list(paths.version_records("shop"))]:
        shop.store.delete(entry.key)
    spec = shop.spec.model_copy(update={"register_": Register(**register)})
    keep_plan(shop.store, plan(spec=spec, run_id=shop.run_id, data_date=shop.data_date, store=shop.store.uri))


def test_a_version_is_promoted_by_hand(shop: Shop) -> None:
    planned(shop)
    carry_out("rollback")
    with pytest.raises(ConfigurationError, match="rolled back"):
        carry_out("promote", version="2")
    carry_out("release", version="2")
    assert "version 1 -> version 2" in carry_out("promote", version="2")


def test_a_second_person_agrees_to_a_promotion_by_hand_where_the_file_asks_for_two(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned(shop, promote="approve", approvals=2)
    carry_out("rollback")
    carry_out("release", version="2")
    with pytest.raises(ConfigurationError, match=r"register\.approvals of shop is 2, and 1 answers for this"):
        carry_out("promote", version="2")  # the question before it was marked as a success
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **_: None)
    asking = SecondPersonOperator(task_id="second_person")
    context: Any = {
        "params": {"model": "shop", "version": "2", "because": "it was fine"}, "task": asking,
        "dag_run": SimpleNamespace(triggering_user_name="ada"), "task_instance": SimpleNamespace(id="t"),
    }  # fmt: skip
    event = {"chosen_options": ["Approve"], "params_input": {}, "responded_at": datetime.now(UTC), "timedout": False}
    with pytest.raises(TaskAwaitingInput):
        asking.execute(context)
    with pytest.raises(TaskAwaitingInput):
        asking.execute_complete(context, {**event, "responded_by_user": {"id": "1", "name": "Ada "}})
    second = asking.execute_complete(context, {**event, "responded_by_user": {"id": "2", "name": "ben"}})
    task = SimpleNamespace(xcom_pull=lambda task_ids: second if task_ids == "second_person" else None)
    ProductionOperator(task_id="promote", verb="promote").execute({**context, "ti": task})
    assert [one.name for one in records(shop.store, "shop")[-1].approvals] == ["ada", "ben"]


def test_nobody_else_is_asked_where_one_person_is_enough(shop: Shop) -> None:
    planned(shop)
    asking = SecondPersonOperator(task_id="second_person")
    run = SimpleNamespace(triggering_user_name="ada")
    context: Any = {"params": {"model": "shop", "version": "2", "because": "x"}, "dag_run": run}
    assert asking.execute(context) == ""


@pytest.mark.parametrize("verb", ["rollback", "hold", "release", "promote"])
def test_a_run_that_nobody_triggered_changes_nothing(shop: Shop, verb: str) -> None:
    for nobody in (None, " "):
        with pytest.raises(ConfigurationError, match="does not name who triggered"):
            carry_out(verb, by=nobody, version="1")
    with pytest.raises(ConfigurationError, match="because is empty"):
        carry_out(verb, because="  ", version="1")
    assert len(records(shop.store, "shop")) == 2


def test_only_those_whom_the_installation_names_change_production(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_OPERATORS", "ada, ben")
    with pytest.raises(
        ConfigurationError, match=r"eve may not change production; allowed: ada, ben \(RATCHET_OPERATORS\)"
    ):
        carry_out("hold", by="eve")
    carry_out("hold", by="ben")


def test_only_what_does_not_answer_or_was_stopped_from_outside_is_tried_again() -> None:
    policy = UnavailableRetryPolicy(10)
    for passes in (Unavailable("x"), OSError("x"), Preempted("x"), JobGone("x")):
        assert policy.evaluate(passes, 1, 5).action.name == "RETRY"
    for error in (ConfigurationError("x"), RuntimeError("x")):
        assert policy.evaluate(error, 1, 5).action.name == "FAIL"


@pytest.mark.parametrize("name", sorted(DAGS))
def test_a_verb_waits_for_no_stage_and_is_never_paused_from_the_start(name: str) -> None:
    dag = build(DAGS[name])
    task = dag.get_task(name)
    assert task.pool not in pools()
    assert task.priority_weight > 1000
    assert (dag.is_paused_upon_creation, dag.tags) == (False, {"ratchet-production"})
    needs = {key for key, param in dag.params.items() if "null" not in (dag.params.get_param(key).schema["type"])}
    assert ("because" in needs) == (name in {"rollback", "hold", "release", "promote"})
    assert "model" in needs


def alerts(tmp_path: Path) -> list[dict[str, Any]]:
    file = tmp_path / "alerts.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []


def test_each_change_by_hand_is_reported_once_whoever_made_and_whoever_noticed_it(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "pipelines" / "shop"
    folder.mkdir(parents=True)
    (folder / "pipeline.yaml").write_text(FILE)
    monkeypatch.setenv("RATCHET_PIPELINES", str(tmp_path / "pipelines"))
    assert watch.scan_ledgers(shop.store) == 0  # what nights promoted is no change by hand
    rollback(shop.store, "shop", by="ben@laptop", because="clicks fell")
    long_after = datetime.now(UTC) + timedelta(days=8)
    assert watch.scan_ledgers(shop.store, long_after) == 0  # no news, as in the copy of a store
    watch._read.clear()
    assert watch.scan_ledgers(shop.store) == 1
    assert watch.scan_ledgers(shop.store) == 0
    operator = ProductionOperator(task_id="hold", verb="hold")
    operator.record = None
    context: Any = {
        "params": {"model": "shop", "because": "wait"}, "dag_run": SimpleNamespace(triggering_user_name="ada"),
        "ti": SimpleNamespace(task=operator, log_url="http://here/dags/ratchet_hold/runs/r/tasks/hold?try_number=1"),
    }  # fmt: skip
    operator.execute(context)
    by_hand.on_change(context)
    by_hand.on_change(context)
    assert watch.scan_ledgers(shop.store) == 0
    first, second = alerts(tmp_path)
    assert first["title"].endswith("production was changed by hand")
    assert first["cause"] == "rollback of shop by ben@laptop; version 1 is in production now. Why: clicks fell"
    assert first["details"] == ["version 2 is banned until it is released"]
    assert second["cause"] == "hold of shop by ada. Why: wait"
    assert champion(shop.store, "shop") is not None


FILE = """\
name: shop
source: {kind: files, uri: '/data/{date}'}
columns:
  x: {role: numeric, type: float64}
  y: {role: label, type: int64}
train: {objective: binary}
"""
