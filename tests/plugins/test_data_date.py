"""The data date for every way in which Airflow starts a run."""

from datetime import UTC, date, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from ratchet.contracts.errors import ConfigurationError
from ratchet_airflow.data_date import data_date, run_kind

NOW = datetime(2026, 11, 21, 14, 30, tzinfo=UTC)


def context(asked: str | None = None, **run: Any) -> dict[str, Any]:
    """What a task of a run sees of it. By default a run that says nothing but when it was made."""
    nothing = {
        "run_after": NOW,
        "run_type": "manual",
        "partition_key": None,
        "logical_date": None,
        "data_interval_start": None,
        "data_interval_end": None,
    }
    return {"params": {"date": asked}, "dag_run": SimpleNamespace(**{**nothing, **run})}


def test_the_schedule_takes_its_partition() -> None:
    tick = datetime(2026, 11, 21, 2, tzinfo=UTC)
    assert data_date(context(run_after=tick, partition_key="2026-11-20"), "UTC") == date(2026, 11, 20)


def test_a_manual_run_without_a_date_takes_yesterday() -> None:
    assert data_date(context(), "UTC") == date(2026, 11, 20)


def test_the_form_of_the_ui_sends_now_as_logical_date_and_still_means_yesterday() -> None:
    assert data_date(context(logical_date=NOW), "UTC") == date(2026, 11, 20)


def test_a_date_in_the_form_comes_before_everything_else() -> None:
    given = context("2026-10-05", partition_key="2026-11-19", logical_date=NOW)
    assert data_date(given, "UTC") == date(2026, 10, 5)


def test_rest_with_a_partition_key_takes_it() -> None:
    assert data_date(context(partition_key="2026-10-05"), "UTC") == date(2026, 10, 5)


def test_rest_with_a_logical_date_in_the_past_takes_its_day() -> None:
    then = datetime(2026, 10, 5, 23, 0, tzinfo=UTC)
    assert data_date(context(logical_date=then), "UTC") == date(2026, 10, 5)
    assert data_date(context(logical_date=then), "Europe/Berlin") == date(2026, 10, 6)


def test_a_backfill_takes_the_partition_whose_day_is_just_over() -> None:
    over = datetime(2026, 11, 11, tzinfo=UTC)
    given = context(run_after=over, run_type="backfill", partition_key="2026-11-10")
    assert data_date(given, "UTC") == date(2026, 11, 10)
    assert run_kind(given) == "backfill"


def test_an_asset_or_a_person_is_a_manual_run() -> None:
    assert run_kind(context()) == run_kind(context(run_type="asset_triggered")) == "manual"
    assert run_kind(context(run_type="scheduled")) == "scheduled"


def test_a_date_to_come_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="date: 2026-11-22 is in the future"):
        data_date(context("2026-11-22"), "UTC")
