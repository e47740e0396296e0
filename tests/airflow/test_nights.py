"""Nights through a real Airflow, with stages in real containers."""

import re
from datetime import date
from urllib.error import HTTPError

import pytest
from mlflow.tracking import MlflowClient

from ratchet.contracts import paths, summaries
from ratchet.contracts.resuming import resume_key
from ratchet.samples.clicks import write
from ratchet.store.ledger import champion
from ratchet.store.opening import open_store
from tests.airflow.conftest import day, messages, pipeline_file
from tests.airflow.installation import Installation
from tests.airflow.shared import PIPELINE, ROWS
from tests.plugins.webhook import Webhook

pytestmark = [pytest.mark.airflow, pytest.mark.docker, pytest.mark.heavy, pytest.mark.xdist_group("airflow")]
TASKS = {"plan", "ingest", "validate", "features", "train", "evaluate", "register", "report"}
Night = tuple[str, dict[str, str]]


def test_the_scheduled_night_is_green_and_its_model_is_in_production(airflow: Installation, night: Night) -> None:
    run_id, states = night
    assert states == dict.fromkeys([*TASKS, "run"], "success")
    plan = airflow.plan(PIPELINE, run_id)
    run = airflow.api.run(PIPELINE, run_id)
    assert (plan.kind, plan.data_date.isoformat()) == ("scheduled", run["partition_key"])
    live = champion(open_store(str(airflow.services.store)), PIPELINE)
    assert live is not None
    assert live.data_date == plan.data_date


def test_the_log_of_a_task_has_the_progress_of_its_container(airflow: Installation, night: Night) -> None:
    assert "%]" in airflow.log(PIPELINE, night[0], "train")


def test_the_training_of_the_night_is_in_mlflow_and_has_left_no_checkpoint(airflow: Installation, night: Night) -> None:
    client = MlflowClient(airflow.services.mlflow_url)
    experiment = client.get_experiment_by_name(f"{PIPELINE}.training")
    assert experiment is not None
    plan, result = airflow.plan(PIPELINE, night[0]), airflow.outcomes(PIPELINE, night[0])["train"].result
    (run,) = client.search_runs([experiment.experiment_id], f"tags.`ratchet.training` = '{plan.run_id} train'")
    assert run.info.status == "FINISHED"
    assert {"loss", "gradient_norm", "learning_rate", "waiting_pct"} <= set(run.data.metrics)
    assert result is not None
    prefix = paths.checkpoints(PIPELINE, "train", resume_key(result.parts))
    assert list(open_store(str(airflow.services.store)).list(prefix)) == []


def test_xcom_carries_addresses_and_nothing_else(airflow: Installation, night: Night) -> None:
    path = f"/dags/{PIPELINE}/dagRuns/{night[0].replace('+', '%2B')}/taskInstances"
    for task in TASKS - {"plan"}:
        value = airflow.api.call("GET", f"{path}/{task}/xcomEntries/return_value")["value"]
        assert value.strip('"').startswith("file:///")
        assert value.strip('"').endswith("/manifest.json")


def test_the_pages_are_shown_to_who_is_logged_in_and_can_run_nothing(airflow: Installation, night: Night) -> None:
    path = f"/dags/{PIPELINE}/dagRuns/{night[0].replace('+', '%2B')}/taskInstances"
    for task in ("validate", "report"):
        address = airflow.api.call("GET", f"{path}/{task}/links")["extra_links"]["Page"]
        headers, page = airflow.get(address)
        assert "<html" in page.lower()
        assert headers["content-security-policy"].startswith("sandbox; default-src 'none'")
        with pytest.raises(HTTPError, match="401"):
            airflow.get(address, logged_in=False)


def test_a_backfill_of_three_dates_uses_each_dates_snapshot_and_leaves_production_alone(
    airflow: Installation, night: Night
) -> None:
    assert night[1]["run"] == "success"
    store = open_store(str(airflow.services.store))
    before = champion(store, PIPELINE)
    wanted = [day(8), day(7), day(6)]
    runs = airflow.backfill(PIPELINE, day(9), wanted[-1], "--run-backwards")
    assert len(runs) == len(wanted) + 1
    dates = []
    for run_id in runs:
        states = airflow.wait(PIPELINE, run_id, seconds=500)
        if day(9) in run_id:  # its window begins before the source does
            assert (states["run"], states["ingest"], states["train"]) == ("failed", "failed", "upstream_failed")
            continue
        assert states["run"] == "success"
        plan = airflow.plan(PIPELINE, run_id)
        assert (plan.kind, plan.promotion.mode) == ("backfill", "never")
        ingested = airflow.outcomes(PIPELINE, run_id)["ingest"].result
        assert ingested is not None
        assert summaries.snapshot(ingested).days[-1].day == plan.data_date
        dates.append(plan.data_date.isoformat())
    assert sorted(dates) == wanted
    assert champion(store, PIPELINE) == before
    began = {run["partition_key"]: run["start_date"] for run in airflow.api.runs(PIPELINE) if run["dag_run_id"] in runs}
    assert sorted(began, key=lambda date: began[date]) == [*reversed(wanted), day(9)]


def test_a_backfill_is_summed_up_with_the_verdict_of_each_date(
    airflow: Installation, night: Night, webhook: Webhook
) -> None:
    (summary,) = airflow.until(lambda: backfill_summaries(webhook))
    assert summary["title"] == f"{PIPELINE} {day(9)} to {day(6)}: backfill has finished"
    assert "Cause: 4 dates: 1 failed, " in summary["message"]
    assert f"  {day(9)}  failed: ingest: " in summary["message"]
    for back in (8, 7, 6):
        verdict = re.search(rf"  {day(back)}  (promote|reject|inconclusive): .+, ndcg@10 [+-]", summary["message"])
        assert verdict, summary["message"]


def test_of_a_backfill_only_the_dates_that_failed_are_run_again(
    airflow: Installation, night: Night, webhook: Webhook
) -> None:
    for _ in write(airflow.services.data, days=1, rows_per_day=ROWS, end=date.fromisoformat(day(12)), seed=0):
        pass  # what was missing has come
    ended = {run["dag_run_id"]: run["end_date"] for run in airflow.api.runs(PIPELINE)}
    airflow.backfill(PIPELINE, day(9), day(6), "--reprocess-behavior", "failed")

    def again() -> list[str] | None:
        runs = airflow.api.runs(PIPELINE)
        changed = [run for run in runs if run["end_date"] != ended.get(run["dag_run_id"], "never")]
        return [run["dag_run_id"] for run in changed if run["run_type"] == "backfill"] or None

    (only,) = airflow.until(again)
    assert airflow.wait(PIPELINE, only)["run"] == "success"
    assert again() == [only]
    assert airflow.plan(PIPELINE, only).data_date.isoformat() == day(9)
    summary = airflow.until(lambda: backfill_summaries(webhook)[1:])[0]
    assert "Cause: 1 date: " in summary["message"]
    assert "3 more already had a run and were skipped" in summary["message"]


def test_data_that_is_not_there_fails_at_once_and_alerts_people(
    airflow: Installation, night: Night, webhook: Webhook
) -> None:
    assert night[1]["run"] == "success"
    run_id = airflow.trigger(PIPELINE, date="2020-01-01")
    states = airflow.wait(PIPELINE, run_id)
    assert (states["run"], states["ingest"], states["train"]) == ("failed", "failed", "upstream_failed")
    assert airflow.api.tasks(PIPELINE, run_id)["ingest"]["try_number"] == 1
    (alert,) = airflow.until(lambda: messages(webhook, "2020-01-01", "ingest"))  # on a busy host the watch sends it
    assert "What to do: " in alert["message"]
    assert f"Log: {airflow.services.airflow_url}/dags/{PIPELINE}/runs/" in alert["message"]


def test_a_broken_pipeline_is_one_visible_error_and_goes_when_it_is_mended(airflow: Installation, night: Night) -> None:
    def errors() -> list[str]:
        return [error["stack_trace"] for error in airflow.api.call("GET", "/importErrors")["import_errors"]]

    airflow.add("broken", "name: broken\nepochs: 3\n")
    (text,) = airflow.until(errors)
    assert "broken/pipeline.yaml:2: epochs: unknown key" in text
    assert not airflow.api.call("GET", f"/dags/{PIPELINE}")["is_stale"]
    mended = pipeline_file(airflow, PIPELINE).read_text(encoding="utf-8").replace(f"name: {PIPELINE}", "name: broken")
    airflow.add("broken", mended)
    airflow.until(lambda: not errors())
    airflow.api.wait_for_dag("broken")


def test_parsing_again_and_again_makes_no_new_version(airflow: Installation, night: Night) -> None:
    assert night[1]["run"] == "success"

    def parsed() -> str:
        return str(airflow.api.call("GET", f"/dags/{PIPELINE}")["last_parsed_time"])

    for _ in range(2):
        before = parsed()
        airflow.parse()
        airflow.until(lambda earlier=before: parsed() != earlier)
    assert airflow.api.call("GET", f"/dags/{PIPELINE}/dagVersions")["total_entries"] == 1


def backfill_summaries(webhook: Webhook) -> list[dict[str, str]]:
    """The alerts about whole backfills."""
    return messages(webhook, f"{PIPELINE} ", "backfill has finished")
