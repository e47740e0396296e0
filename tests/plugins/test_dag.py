"""From a spec to a DAG: order, retries, times, the form."""

from datetime import timedelta
from pathlib import Path

import pytest
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization

from ratchet.contracts.loading import load
from ratchet_airflow.dag import build
from tests.dags.pipelines import write

pytestmark = pytest.mark.filterwarnings("ignore:GitWildMatchPattern")  # Airflow's own, when it looks for plugins

ORDER = ["plan", "ingest", "validate", "features", "train", "evaluate", "register", "report"]


def dag_of(folder: Path, **changes: str) -> DAG:
    made = write(folder, "search-ranking", **changes)
    return build(load(made), made)


def test_the_stages_stand_in_order(tmp_path: Path) -> None:
    assert [task.task_id for task in dag_of(tmp_path).topological_sort()] == ORDER


def test_approval_comes_before_register_only_where_the_file_asks_for_it(tmp_path: Path) -> None:
    dag = dag_of(tmp_path, promote="approve")
    assert [task.task_id for task in dag.topological_sort()] == [*ORDER[:6], "approve", *ORDER[6:]]


def test_a_refit_comes_after_the_question_and_before_register_only_where_the_file_asks_for_it(tmp_path: Path) -> None:
    for promote, before in (("auto", ()), ("approve", ("approve",))):
        made = write(tmp_path / promote, "search-ranking", promote=promote)
        file = made / "pipeline.yaml"
        file.write_text(file.read_text().replace("epochs: 3", "epochs: 3, refit: true"))
        dag = build(load(made), made)
        assert [task.task_id for task in dag.topological_sort()] == [*ORDER[:6], *before, "refit", *ORDER[6:]]
        refit, train = dag.get_task("refit"), dag.get_task("train")
        for setting in ("retries", "execution_timeout", "pool", "pool_slots", "queue"):
            assert getattr(refit, setting) == getattr(train, setting)
        assert refit.retry_policy.delay_s == 10
        assert dag.dagrun_timeout > dag_of(tmp_path, promote=promote).dagrun_timeout


def test_tasks_that_share_the_days_of_a_stage_begin_with_it_and_nothing_depends_on_them(tmp_path: Path) -> None:
    made = write(tmp_path, "search-ranking")
    file = made / "pipeline.yaml"
    file.write_text(f"{file.read_text()}resources: {{ingest: {{tasks: 4}}, features: {{tasks: 2}}}}\n")
    dag = build(load(made), made)
    shares = {task.task_id: task for task in dag.tasks if task.task_id.endswith("_share")}
    assert set(shares) == {"ingest_share", "features_share"}
    for stage, before, others in (("ingest", "plan", [1, 2, 3]), ("features", "validate", [1])):
        share = shares[f"{stage}_share"]
        assert share.expand_input.value == {"number": others}
        assert (share.upstream_task_ids, share.downstream_task_ids) == ({before}, set())
        assert share.is_teardown
        assert not share.on_failure_fail_dagrun
        assert (share.pool, share.execution_timeout) == (
            dag.get_task(stage).pool,
            dag.get_task(stage).execution_timeout,
        )
    assert dag.max_active_tasks >= len(ORDER) + 4
    assert DagSerialization.from_dict(DagSerialization.to_dict(dag)).dag_id == "search-ranking"


def test_report_runs_whatever_happens_and_leaves_the_run_its_state(tmp_path: Path) -> None:
    dag = dag_of(tmp_path)
    report = dag.get_task("report")
    assert report.is_teardown
    assert not report.on_failure_fail_dagrun
    assert report.trigger_rule == "all_done_setup_success"
    assert dag.get_task("plan").is_setup


def test_every_task_has_retries_with_growing_delay_a_timeout_and_alerts(tmp_path: Path) -> None:
    for task in dag_of(tmp_path).tasks:
        assert task.retries >= 2
        assert task.retry_exponential_backoff == 2.0
        assert task.execution_timeout > timedelta(0)
        assert task.on_failure_callback
        assert task.on_retry_callback
        assert task.owner == "search-team"


def test_the_file_sets_retries_and_times(tmp_path: Path) -> None:
    train = dag_of(tmp_path).get_task("train")
    assert train.retries == 4
    assert train.retry_policy.delay_s == 10
    runner_gives_up = timedelta(hours=2, minutes=1)
    assert train.execution_timeout > runner_gives_up


def test_nights_run_one_at_a_time_and_are_never_caught_up(tmp_path: Path) -> None:
    dag = dag_of(tmp_path)
    assert (dag.max_active_runs, dag.catchup) == (1, False)


def test_a_pipeline_without_a_schedule_runs_only_when_triggered(tmp_path: Path) -> None:
    made = write(tmp_path, "search-ranking")
    file = made / "pipeline.yaml"
    file.write_text(
        "".join(line for line in file.read_text().splitlines(keepends=True) if not line.startswith("schedule"))
    )
    dag = build(load(made), made)
    assert not dag.timetable.can_be_scheduled
    assert "only when triggered" in dag.doc_md


@pytest.mark.parametrize("promote", ["auto", "approve", "never"])
def test_the_defaults_of_the_form_are_valid_and_the_dag_serialises(tmp_path: Path, promote: str) -> None:
    dag = dag_of(tmp_path, promote=promote)
    assert set(dag.params.validate().values()) == {None, False}
    assert DagSerialization.from_dict(DagSerialization.to_dict(dag)).dag_id == "search-ranking"


def test_the_page_says_how_to_start_a_run_and_shows_every_default(tmp_path: Path) -> None:
    page = dag_of(tmp_path).doc_md
    assert "airflow backfill create --dag-id search-ranking" in page
    assert '  learning_rate: "auto"' in page
