"""People who approve, and people who change production, in a real Airflow whose stages are processes."""

import os
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from unittest.mock import patch
from urllib.parse import quote

import pytest

from ratchet.contracts.errors import Unavailable
from ratchet.store.ledger import champion, records
from ratchet.store.opening import open_store
from ratchet.tracking.use_registry import use_registry
from ratchet_airflow import row_retention
from tests.airflow.installation import ENDED, EXPECTATIONS, ROOT, YESTERDAY, Installation

NAME = "search-ranking"
USER = "admin"
_READS_S = 10
WITHOUT_ITEMS = {"item_id:  {role: categorical,": "item_id:  {role: ignore,"}
"""What the first model cannot know. A model that knows the items is better beyond doubt."""
_SMALLER = {
    **WITHOUT_ITEMS,
    "window_days: 30": "window_days: 4",
    "model: {kind: dcn}": "model: {kind: dcn, hidden: [32]}\n  epochs: 3\n  batch_size: 100",
    EXPECTATIONS: "",
    "promote: auto": "promote: approve, approvers: [admin]",
    "resources: {": "resources: {ingest: {tasks: 2, cpus: 1}, ",
}
pytestmark = [pytest.mark.airflow, pytest.mark.heavy, pytest.mark.xdist_group("airflow-by-hand")]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """An Airflow with one pipeline, which a person has to approve."""
    from ratchet.samples.clicks import write

    if str(ROOT / "plugins") not in sys.path:
        sys.path.append(str(ROOT / "plugins"))
    made = Installation(tmp_path_factory.mktemp("by-hand"), {"RATCHET_RUNNER": "process"})
    for _ in write(made.services.data, days=7, rows_per_day=6000, end=YESTERDAY, seed=0):
        pass
    text = (ROOT / "dags" / "pipelines" / NAME / "pipeline.yaml").read_text(encoding="utf-8")
    for usual, smaller in _SMALLER.items():
        assert usual in text
        text = text.replace(usual, smaller)
    made.add(NAME, "".join(line for line in text.splitlines(keepends=True) if not line.startswith("schedule")))
    try:
        made.start()
        made.api.wait_for_dag(NAME, seconds=180)
        made.api.call("PATCH", f"/dags/{NAME}", {"is_paused": False})
        yield made
    finally:
        made.stop()


def approve(here: Installation, run_id: str, option: str = "Approve", comment: str = "looks fine") -> None:
    """Answer the question of a run, each time that it has waited for as long as a person needs at least.

    An answer that comes before Airflow's scheduler has noted that the task waits costs the task a try, and the question
    is asked again: seen 5 s after the question, on a machine with other work.
    """
    path = f"/dags/{NAME}/dagRuns/{quote(run_id)}/taskInstances/approve/-1/hitlDetails"
    seen: list[float] = []

    answers: list[str] = []

    def acted_on() -> bool:
        state = here.api.tasks(NAME, run_id).get("approve", {}).get("state")
        if state != "awaiting_input":
            seen.clear()
            return bool(answers) and state in ENDED
        seen.append(time.monotonic())
        if seen[-1] - seen[0] > _READS_S and not here.api.call("GET", path)["response_received"]:
            answers.append(option)
            here.api.call("PATCH", path, {"chosen_options": [option], "params_input": {"comment": comment}})
        return False

    here.until(acted_on, seconds=300)


def learn_items(here: Installation) -> None:
    """Let later models know the items."""
    file = here.pipelines / NAME / "pipeline.yaml"
    text = file.read_text(encoding="utf-8")
    for usual, without in WITHOUT_ITEMS.items():
        text = text.replace(without, usual)
    here.add(NAME, text)


def night(here: Installation, back: int) -> str:
    """A run that a person has approved, as of so many days before the newest."""
    run_id = here.trigger(NAME, date=f"{YESTERDAY - timedelta(days=back)}")
    approve(here, run_id)
    states = here.wait(NAME, run_id)
    assert (states["run"], states["approve"], states["register"]) == ("success", "success", "success")
    return run_id


def test_the_ledger_names_the_person_who_approved_the_model(here: Installation) -> None:
    night(here, back=2)
    live = champion(open_store(str(here.services.store)), NAME)
    assert live is not None
    (approval,) = live.approvals
    assert (approval.name, approval.how) == (USER, "airflow: looks fine")
    assert live.started_by == USER


def test_another_task_shares_the_days_of_ingest_and_does_not_count(here: Installation) -> None:
    """On whatever worker is free: it has made some of the four days, or came when none was left."""
    (run_id, *_) = [str(run["dag_run_id"]) for run in here.api.runs(NAME) if run["state"] == "success"]
    task = here.api.tasks(NAME, run_id)["ingest_share"]
    assert task["state"] in {"success", "skipped"}
    log = here.log(NAME, run_id, "ingest_share", share=0)
    assert f"share 1 of ingest of {NAME}" in log


def test_a_conf_that_asks_for_more_than_the_file_allows_is_refused(here: Installation) -> None:
    with pytest.raises(Unavailable, match="promote"):
        here.trigger(NAME, promote="auto")


def test_a_question_that_was_marked_as_answered_registers_nothing(here: Installation) -> None:
    store = open_store(str(here.services.store))
    before = records(store, NAME)
    learn_items(here)
    run_id = here.trigger(NAME, date=f"{YESTERDAY - timedelta(days=1)}")

    def asked() -> str | None:
        states = {name: str(task["state"]) for name, task in here.api.tasks(NAME, run_id).items()}
        return states["approve"] if states["approve"] in {"awaiting_input", "success"} else None

    assert here.until(asked, seconds=300) == "awaiting_input", "the second model is no better, so nobody is asked"
    path = f"/dags/{NAME}/dagRuns/{quote(run_id)}/taskInstances/approve"
    here.api.call("PATCH", path, {"new_state": "success"})
    states = here.wait(NAME, run_id)
    assert (states["run"], states["register"]) == ("failed", "failed")
    assert "nobody who may approve it has approved it" in here.log(NAME, run_id, "register")
    assert records(store, NAME) == before


def test_a_hold_and_its_release_are_records_with_the_person_who_triggered_them(here: Installation) -> None:
    store = open_store(str(here.services.store))
    for verb in ("hold", "release"):
        dag_id = f"ratchet_{verb}"
        here.api.wait_for_dag(dag_id)
        run_id = here.trigger(dag_id, model=NAME, because="clicks fell")
        assert here.wait(dag_id, run_id, seconds=120)["run"] == "success"
        last = records(store, NAME)[-1]
        assert (last.action, last.started_by, last.reason) == (verb, USER, "clicks fell")
    alerts = [alert for alert in here.alerts() if alert["occasion"] == "production"]
    assert [alert["cause"].partition(" of ")[0] for alert in alerts] == ["hold", "release"]


def test_a_rollback_moves_ledger_and_alias(here: Installation, tmp_path_factory: pytest.TempPathFactory) -> None:
    store, uri = open_store(str(here.services.store)), here.services.mlflow_url
    first = champion(store, NAME)
    assert first is not None
    if len({one.model_digest for one in records(store, NAME)}) < 2:
        learn_items(here)
        run_id = here.trigger(NAME, date=f"{YESTERDAY}")
        here.until(
            lambda: here.api.tasks(NAME, run_id).get("approve", {}).get("state") in {"awaiting_input", "success"}
        )
        asked = here.api.tasks(NAME, run_id)["approve"]["state"]
        assert asked == "awaiting_input", "the second model is no better, so there is nothing to roll back"
        approve(here, run_id)
        assert here.wait(NAME, run_id)["register"] == "success"
    second = champion(store, NAME)
    assert second is not None
    assert second.version != first.version
    dag_run = here.trigger("ratchet_rollback", model=NAME, because="clicks fell")
    assert here.wait("ratchet_rollback", dag_run, seconds=120)["run"] == "success"
    live = champion(store, NAME)
    assert live is not None
    assert (live.version, live.action, live.started_by) == (first.version, "rollback", USER)
    folder = tmp_path_factory.mktemp("registry")
    alias = use_registry(store, uri, folder, lambda registry: registry.champion(NAME))
    assert alias is not None
    assert alias.number == first.version
    said = here.log("ratchet_rollback", dag_run, "rollback")
    assert f"production: version {second.version} -> version {first.version}" in said


def test_rows_and_logs_of_an_old_run_go_and_those_of_newer_ones_stay(
    here: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is an old one because its rows and its log say so."""
    old, newer = (here.trigger("ratchet_hold", model=NAME, because="clicks fell") for _ in range(2))
    for run_id in (old, newer):
        here.wait("ratchet_hold", run_id, seconds=120)
    logs = here.services.airflow_home / "logs"
    (log,) = (logs / "dag_id=ratchet_hold").glob(f"run_id={old}/task_id=hold/*.log")
    long_ago = datetime.now(UTC) - timedelta(days=91)
    os.utime(log, times=(long_ago.timestamp(),) * 2)
    with here._database() as database:
        for table in ("dag_run", "task_instance"):
            changed = database.execute(
                f"UPDATE {table} SET start_date = ? WHERE dag_id = 'ratchet_hold' AND run_id = ?",
                (long_ago.strftime("%Y-%m-%d %H:%M:%S.%f"), old),
            )
            assert changed.rowcount == 1
    with here._environment(), patch.dict(os.environ, here.services.environment()):
        row_retention.delete(90, logs)
        left = {run["dag_run_id"] for run in here.api.runs("ratchet_hold")}
        assert newer in left
        assert old not in left
        assert not log.exists()
        assert list((logs / "dag_id=ratchet_hold").glob(f"run_id={newer}/task_id=hold/*.log"))
        monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "sqlite:////nowhere/airflow.db")
        with pytest.raises(Unavailable, match=r"old rows of Airflow stay: `airflow db clean` ended with 1: "):
            row_retention.delete(90, logs)
