"""How long a person has to answer."""

from datetime import UTC, datetime, timedelta

import pytest

from ratchet.contracts.schedule import Schedule
from ratchet_airflow.approval import WAIT, answer_until

NOW = datetime(2026, 11, 21, 2, 40, tzinfo=UTC)


@pytest.mark.parametrize(
    ("cron", "timezone", "until"),
    [
        ("0 2 * * *", "UTC", datetime(2026, 11, 22, 2, tzinfo=UTC)),
        ("0 2 * * *", "America/New_York", datetime(2026, 11, 21, 7, tzinfo=UTC)),
        ("0 2 1 * *", "UTC", NOW + WAIT),
    ],
)
def test_a_question_lapses_when_the_next_night_is_due_or_after_a_week(
    cron: str, timezone: str, until: datetime
) -> None:
    answered = answer_until(Schedule(cron=cron, timezone=timezone), NOW)
    assert answered == until
    assert type(answered - NOW) is timedelta  # what Airflow can hand on


def test_without_a_schedule_there_is_a_week() -> None:
    assert answer_until(None, NOW) == NOW + timedelta(days=7)
