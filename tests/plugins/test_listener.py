"""What the scheduler tells the watch of."""

from types import SimpleNamespace

import pytest

from ratchet_airflow import listener


@pytest.mark.parametrize(("dag_id", "noted"), [("search-ranking", True), (listener.REAPER, False)])
def test_a_pipelines_run_is_watched_and_the_reapers_is_not(dag_id: str, *, noted: bool) -> None:
    listener._going_on.clear()
    listener.on_dag_run_running(SimpleNamespace(dag_id=dag_id), "")
    assert listener._going_on.is_set() is noted
