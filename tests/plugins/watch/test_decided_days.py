"""What the watch reports of people who let days in or keep them out."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ratchet.contracts import paths
from ratchet.contracts.day_record import DayRecord
from ratchet.runs.day_records import admit, decisions, refuse
from ratchet.store.base import Store
from ratchet.store.sealed import seal
from ratchet_airflow.watch import decided_days
from ratchet_airflow.watch.decided_days import scan_decided_days
from tests.plugins.watch.test_local_nights import store
from tests.plugins.webhook import Webhook
from tests.runs.test_requests import DAY

__all__ = ["store"]
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # Apprise's own import
ROWS = "a" * 64


def test_each_decision_of_a_person_is_reported_once(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert scan_decided_days(store) == 0
    refuse(store, "small", DAY, ROWS, by="ann", because="a test of the shop")
    with Webhook().listening() as hook:
        monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", hook.url)
        assert [scan_decided_days(store), scan_decided_days(store)] == [1, 0]
        admit(store, "small", DAY, by="bob", because="it was no test")
        monkeypatch.setattr(decided_days, "_known", {})  # as another process
        assert [scan_decided_days(store), scan_decided_days(store)] == [1, 0]
        kept_out, let_in = hook.received
    assert kept_out["title"] == f"small {DAY}: day was let in or kept out by hand"
    assert f"Cause: {DAY} was kept out by ann. Why: a test of the shop" in kept_out["message"]
    assert f"Cause: {DAY} was let in by bob. Why: it was no test" in let_in["message"]
    assert f"ratchet data refuse small {DAY}" in let_in["message"]
    lines = [json.loads(line) for line in (tmp_path / "alerts.jsonl").read_text().splitlines()]
    assert [line["occasion"] for line in lines] == ["data", "data"]


def test_what_a_run_refused_and_old_decisions_are_not_reported(store: Store) -> None:
    refuse(store, "small", DAY, ROWS, by="ann", because="a test of the shop")
    assert scan_decided_days(store, datetime.now(UTC) + timedelta(days=8)) == 0
    by_run = DayRecord(day=DAY, action="refuse", source="b" * 64, run_id="night-1", recorded=datetime.now(UTC))
    store.create(paths.day_record("small", DAY, 2, "refuse", by_run.source), seal(by_run))
    assert [record.by for _, record in decisions(store, "small")] == ["ann"]
