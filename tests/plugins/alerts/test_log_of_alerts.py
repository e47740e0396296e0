"""The log of alerts does not grow for ever."""

import json
from pathlib import Path

import pytest

from ratchet_airflow.alerts import delivery
from ratchet_airflow.alerts.message import make_alert
from ratchet_airflow.alerts.situation import Situation


def test_a_log_that_is_long_begins_anew_and_one_before_it_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, before = tmp_path / "alerts.jsonl", tmp_path / "alerts.jsonl.1"
    monkeypatch.setenv("RATCHET_ALERT_LOG", str(log))
    monkeypatch.setattr(delivery, "_LONGEST_LOG", 2000)
    for number in range(30):
        where = Situation(pipeline="small", run_id=f"r{number}", stage="train", date="2026-11-21")
        delivery.record(make_alert("failure", where, cause=f"a test, the {number}th"))
    lines = [json.loads(line)["run_id"] for file in (before, log) for line in file.read_text().splitlines()]
    assert lines == [f"r{number}" for number in range(30 - len(lines), 30)]
    assert 2000 <= before.stat().st_size < 3000 > log.stat().st_size
    assert sorted(tmp_path.iterdir()) == [log, before]
