"""How long a task waits for a late source is kept between its looks, whatever clocks are set and whichever host looks."""

from datetime import timedelta
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowRescheduleException

from ratchet.contracts.loading import load
from ratchet.runs.planning import make_plan
from ratchet.samples import clicks
from ratchet_airflow import waits
from ratchet_airflow.waits import SOURCE, Waits
from tests.plugins.test_operators import DAY, FOLDER, States, context, task


def test_the_time_to_the_next_look_counts_and_on_another_host_the_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    states, seconds = States(), [1000.0]

    def look(*, max_tries: int = 2) -> Waits:
        return Waits(context(states, max_tries=max_tries), SOURCE, lambda: seconds[0])

    assert look().waited() == 0
    with pytest.raises(AirflowRescheduleException):
        look().pause(5.0)  # in 20 seconds at the earliest
    seconds[0] += 33
    assert look().waited() == 33
    with pytest.raises(AirflowRescheduleException):
        look().pause(25.0)
    assert look(max_tries=5).waited() == 0  # it was cleared
    seconds[0] = 7.0  # the host was started again
    assert look().waited() == 58
    monkeypatch.setattr(waits, "_host", lambda: "another host")
    seconds[0] = 9e9
    assert look().waited() == 58
    assert Waits(context(None), SOURCE).waited() == 0


def test_ingest_looks_again_until_its_limit_and_keeps_how_long_it_has_waited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = str(tmp_path / "store")
    for name, value in {"RATCHET_DATA": tmp_path, "RATCHET_STORE": store, "RATCHET_RUNNER": "process"}.items():
        monkeypatch.setenv(name, str(value))
    for _ in clicks.write(tmp_path, days=2, rows_per_day=50, end=DAY - timedelta(days=1), seed=0):
        pass
    spec = load(FOLDER, {"source.window_days": 3, "source.wait": "10m"})
    make_plan(folder=FOLDER, spec=spec, data_date=DAY, run_id="r", kind="manual", store_uri=store)
    states = States()
    with pytest.raises(AirflowRescheduleException):
        task().execute(context(states))
    kept = states.kept[SOURCE]
    assert kept[:3] == [2, 0.0, 20.0]
    states.set(SOURCE, [2, 601.0, *kept[2:]])
    with pytest.raises(Exception, match="has no files for the data date"):
        task().execute(context(states))
