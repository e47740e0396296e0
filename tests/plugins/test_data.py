"""The DAG that shows the days of a pipeline's data, and lets one in."""

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ratchet.contracts.errors import ConfigurationError
from ratchet.runs.day_records import day_states
from ratchet_airflow.data import DataOperator, build
from tests.runs.test_day_records import night
from tests.world import LAST, World, clicks

HALF = LAST - timedelta(days=1)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A pipeline whose newest day but one was refused by its own run, and whose newest night passed."""
    made = clicks(tmp_path, source={"window_days": 4}, validate={"drift": None})
    (made.pipeline / "pipeline.yaml").write_text("name: clicks\n", encoding="utf-8")
    for back in range(5):
        made.put(LAST - timedelta(days=back), count=40 if back == 1 else 100)
    assert night(made, HALF) is None
    assert night(made, LAST) is not None
    monkeypatch.setenv("RATCHET_STORE", made.store.uri)
    return made


def carry_out(by: str | None = "ada", **form: Any) -> list[str]:
    run = SimpleNamespace(triggering_user_name=by)
    params = {"pipeline": "clicks", "day": None, "because": None, **form}
    return DataOperator(task_id="data").execute({"params": params, "dag_run": run}).splitlines()


def test_it_shows_each_day_and_lets_a_refused_one_in(world: World) -> None:
    assert [line.split()[1] for line in carry_out()[1:]] == ["arrived", "arrived", "arrived", "refused", "accepted"]
    first, *lines = carry_out(day=HALF.isoformat(), because="half of the shop was closed")
    assert first.startswith(f"{HALF}: let in by ada: half of the shop was closed (run run-")
    assert f"{HALF}  let in" in lines[4]
    assert lines[4].endswith("by ada: half of the shop was closed")
    assert day_states(world.store, "clicks", [HALF]).admitted[0].by == "ada"
    found = night(world, LAST)
    assert found is not None
    assert found.excluded == ()


def test_it_keeps_a_day_out(world: World) -> None:
    first, *lines = carry_out(day=LAST.isoformat(), because="a test of the shop", decision="keep it out")
    assert first == f"{LAST}: refused by ada: a test of the shop"
    assert f"{LAST}  refused" in lines[5]
    assert lines[5].endswith("by ada: a test of the shop")


@pytest.mark.parametrize(
    ("form", "by", "said"),
    [
        ({"day": HALF.isoformat(), "because": " "}, "ada", "because is empty"),
        ({"because": "it is right"}, "ada", "because is set, and day is not"),
        (
            {"day": LAST.isoformat(), "because": "it is right"},
            "ada",
            f"neither a run of {LAST} nor a person has refused it",
        ),
        ({"day": HALF.isoformat(), "because": "it is right"}, None, "only a person may decide about a day"),
        ({"pipeline": "nobody"}, "ada", "no run of 'nobody'"),
    ],
)
def test_what_is_wrong_lets_nothing_in(world: World, form: dict[str, Any], by: str | None, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        carry_out(by, **form)
    assert day_states(world.store, "clicks", [HALF]).admitted == ()


def test_the_dag_has_a_form_and_no_schedule() -> None:
    dag = build()
    assert (dag.dag_id, dag.schedule, sorted(dag.params)) == (
        "ratchet_data",
        None,
        ["because", "day", "decision", "pipeline"],
    )
