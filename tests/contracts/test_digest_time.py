"""When a digest is due: in its time zone, over changes of clocks, late, and too late."""

from datetime import UTC, date, datetime, timedelta

import pytest

from ratchet.contracts import outbox_paths
from ratchet.contracts.digest_time import DigestTime, parse_digest
from ratchet.contracts.environment import environment
from ratchet.contracts.errors import ConfigurationError

BERLIN = DigestTime(at="07:30", timezone="Europe/Berlin")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def day_of(time: DigestTime, now: datetime) -> date | None:
    due = time.due(now)
    return due.day if due is not None else None


def test_a_time_has_a_zone_or_is_in_utc() -> None:
    assert parse_digest(" 07:30 ") == DigestTime(at="07:30", timezone="UTC")
    assert parse_digest("07:30  Europe/Berlin") == BERLIN
    assert parse_digest(BERLIN) is BERLIN


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("7:30", "'7:30' is not a time of day; write it like 04:00"),
        ("24:00", "'24:00' is not a time of day; write it like 04:00"),
        ("Europe/Berlin 07:30", "'Europe/Berlin' is not a time of day; write it like 04:00"),
        ("07:30 CEST!", "'CEST!' is not a time zone; write it like UTC or Europe/Berlin"),
        ("07:30 Europe/Berlin daily", "'Europe/Berlin daily' is not a time zone; write it like UTC or Europe/Berlin"),
    ],
)
def test_a_wrong_time_is_one_clear_line(text: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_DIGEST", text)
    with pytest.raises(ConfigurationError) as raised:
        _ = environment().digest
    remedy = "set it like RATCHET_DIGEST=07:30 Europe/Berlin, or unset it"
    assert str(raised.value) == f"RATCHET_DIGEST: {line}; to do: {remedy}"


def test_a_digest_is_due_from_its_time_on_for_twelve_hours() -> None:
    assert day_of(BERLIN, at("2026-11-27 06:29:59")) is None
    assert day_of(BERLIN, at("2026-11-27 06:30")) == date(2026, 11, 27)
    assert day_of(BERLIN, at("2026-11-27 18:29:59")) == date(2026, 11, 27)
    assert day_of(BERLIN, at("2026-11-27 18:30")) is None


def test_a_late_digest_of_the_evening_is_that_of_the_day_before() -> None:
    evening = DigestTime(at="22:00", timezone="America/New_York")
    assert day_of(evening, at("2026-11-28 03:00")) == date(2026, 11, 27)
    assert day_of(evening, at("2026-11-28 14:59")) == date(2026, 11, 27)
    assert day_of(evening, at("2026-11-28 15:00")) is None


@pytest.mark.parametrize(
    ("day", "until", "hours"),
    [
        ("2026-03-28", "2026-03-28 06:30", 24),
        ("2026-03-29", "2026-03-29 05:30", 23),
        ("2026-10-24", "2026-10-24 05:30", 24),
        ("2026-10-25", "2026-10-25 06:30", 25),
    ],
)
def test_clocks_that_change_move_no_digest(day: str, until: str, hours: int) -> None:
    due = BERLIN.due(at(until))
    assert due is not None
    assert (due.day.isoformat(), due.until, due.until - due.since) == (day, at(until), timedelta(hours=hours))
    before = BERLIN.due(at(until) - timedelta(minutes=1))
    assert before is None


@pytest.mark.parametrize(("day", "first"), [("2026-03-29", "01:30"), ("2026-10-25", "00:30")])
def test_a_time_that_clocks_leave_out_or_repeat_comes_once(day: str, first: str) -> None:
    night = DigestTime(at="02:30", timezone="Europe/Berlin")
    start, end = at(f"{day} 00:00"), at(f"{day} 11:00")
    found = {day_of(night, start + timedelta(minutes=n)) for n in range(int((end - start) / timedelta(minutes=1)))}
    assert found == {None, date.fromisoformat(day)}
    assert day_of(night, at(f"{day} {first}")) == date.fromisoformat(day)
    assert day_of(night, at(f"{day} {first}") - timedelta(minutes=1)) is None


def test_the_key_of_a_lost_letter_names_its_pipeline_and_its_receiver() -> None:
    key = outbox_paths.given_up("here", "search-ranking", "ml-ops_2", "alerts/p/r/e.json")
    assert outbox_paths.given_up_of(key) == ("search-ranking", "ml-ops_2")
    assert outbox_paths.digest("here", "ml-ops", date(2026, 11, 27)).endswith("/digest-ml-ops-2026-11-27.json")
