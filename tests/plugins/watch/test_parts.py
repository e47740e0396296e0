"""A part of Airflow that is away is said."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ratchet_airflow.watch.airflow_server import AirflowServer
from ratchet_airflow.watch.parts import Parts
from ratchet_airflow.watch.scan import Scanner
from tests.plugins.watch.airflow_api import AirflowApi
from tests.runs.test_requests import SPEC

AWAY = "the triggerer has no heartbeat, and deferred tasks wait for it: 1"
NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pipelines" / "small").mkdir(parents=True)
    (tmp_path / "pipelines" / "small" / "pipeline.yaml").write_text(f"{SPEC}alerts: {{to: [ml-ops]}}\n")
    for name, value in {
        "RATCHET_PIPELINES": tmp_path / "pipelines", "RATCHET_ALERT_LOG": tmp_path / "alerts.jsonl",
        "RATCHET_STORE": tmp_path / "store", "RATCHET_ALERTS_ML_OPS": "", "RATCHET_INSTALLATION": "here",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, str(value))


def said(tmp_path: Path) -> list[str]:
    log = tmp_path / "alerts.jsonl"
    found = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return [one["body"] for one in found if one["title"] == "Ratchet: a part of Airflow is away"]


def test_a_part_that_stays_away_is_said_once_a_day_and_one_that_is_started_again_is_not(tmp_path: Path) -> None:
    seconds = [0.0]
    parts = Parts(lambda: seconds[0])
    for passed, away, late in (
        (0.0, {"triggerer": AWAY}, False),
        (900.0, {"triggerer": AWAY}, False),
        (901.0, {}, False),
        (902.0, {"triggerer": AWAY}, False),
        (1803.0, {"triggerer": AWAY}, True),
        (2100.0, {"triggerer": AWAY}, True),
    ):
        seconds[0] = passed
        assert parts.look(away, NOW) == late
    (body,) = said(tmp_path)
    assert body.splitlines()[0] == f"Since 2026-11-21 02:44 UTC at least: {AWAY}"
    assert parts.look({"triggerer": AWAY}, NOW + timedelta(days=1))
    assert len(said(tmp_path)) == 2


def test_a_part_that_goes_away_later_on_the_same_day_is_said_too(tmp_path: Path) -> None:
    minutes, parts = [0], Parts(lambda: 60.0 * minutes[0])
    scheduler = "the scheduler has no heartbeat"

    def pass_by(many: int, *away: str) -> None:
        for _ in range(many // 5):
            minutes[0] += 5
            parts.look({words.split()[1]: words for words in away}, NOW + timedelta(minutes=minutes[0]))

    pass_by(30, scheduler)
    pass_by(60)
    pass_by(120, scheduler)  # again
    pass_by(60, scheduler, AWAY)  # before the first is back
    pass_by(60, f"{AWAY}0")  # more tasks wait
    assert [body.splitlines()[0].partition(": ")[2] for body in said(tmp_path)] == [
        scheduler, scheduler, f"{scheduler}; {AWAY}"
    ]  # fmt: skip


def test_a_scan_looks_at_the_parts_also_without_a_heartbeat_to_send(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ratchet_airflow.watch.parts._PATIENCE_S", -1.0)
    with AirflowApi(scheduler="unhealthy").listening() as api:
        Scanner(AirflowServer(api.address)).scan()
    (body,) = said(tmp_path)
    assert "the scheduler has no heartbeat" in body


def test_a_server_that_is_away_is_said_also_where_no_night_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ratchet_airflow.watch.parts._PATIENCE_S", -1.0)
    Scanner(AirflowServer("http://ratchet-watch:sesame-canary@127.0.0.1:9")).scan()
    (body,) = said(tmp_path)
    assert "Airflow's server does not answer at http://127.0.0.1:9: " in body
    assert "canary" not in body
