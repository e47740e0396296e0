"""Schedules: Airflow accepts every cron expression that passes here, and the expression occurs."""

import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from croniter import croniter
from hypothesis import given
from hypothesis import strategies as st

from ratchet.contracts.errors import PipelineInvalid
from ratchet.contracts.loading import load
from ratchet.contracts.schedule import Schedule, check_cron

ROOT = Path(__file__).resolve().parents[2]
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
STEP = st.sampled_from(["", "", "", "/1", "/2", "/7", "/31"])


def field(least: int, most: int, *names: str) -> st.SearchStrategy[str]:
    """A field with its values; also invalid forms, such as 5-5, or * beside other values."""
    value = st.sampled_from([*map(str, range(least, most + 1)), *names])
    item = st.one_of(
        st.builds("*{}".format, STEP),
        st.builds("{}{}".format, value, STEP),
        st.builds("{}-{}{}".format, value, value, STEP),
    )
    return st.just("*") | st.lists(item, min_size=1, max_size=3).map(",".join)


WEEKDAYS = field(0, 7, "sun", "Mon", "SAT")


@given(st.tuples(field(0, 59), field(0, 23), field(1, 31, "l"), field(1, 12, "jan", "DEC"), WEEKDAYS).map(" ".join))
def test_a_valid_expression_has_a_next_and_a_last_time(text: str) -> None:
    try:
        passed = check_cron(text)
    except ValueError as error:
        assert repr(text[:20])[:-1] in str(error)  # noqa: PT017 - which ones are refused is not known here
    else:
        assert croniter(passed, NEW_YEAR).get_next() > croniter(passed, NEW_YEAR).get_prev()


@pytest.mark.parametrize(
    "text",
    ["0 2 * * *", "*/15 * * * *", "0 22-6/2 * * *", "0 2 1,15 * *", "0 2 L * *", "0 2 29 feb *", "0 2 * JAN-mar MON-FRI",
     "0 2 * * fri-mon", "5/10 * * * *", "0 2 30 2 mon", "0 2 * * 7", "59 23 31 12 sat"],
)  # fmt: skip
def test_common_expressions_are_valid(text: str) -> None:
    assert check_cron(text) == text
    assert croniter(text, NEW_YEAR).get_next() > NEW_YEAR.timestamp()


def test_blanks_become_single() -> None:
    assert check_cron(" 0  2 * *\t*\n") == "0 2 * * *"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("60 2 * * *", "minute 60 is not allowed; allowed: 0-59"),
        ("99 99 * * *", "minute 99 is not allowed"),
        ("0 24 * * *", "hour 24 is not allowed; allowed: 0-23"),
        ("0 2 0 * *", "day 0 is not allowed; allowed: 1-31"),
        ("0 2 * 13 *", "month 13 is not allowed; allowed: 1-12, jan-dec"),
        ("0 2 * * 8", "weekday 8 is not allowed; allowed: 0-7, sun-sat"),
        ("0 2 * * MONDY", "weekday mondy is not allowed; allowed: 0-7, sun-sat, a-b, a,b and */n; did you mean mon?"),
        ("0 2 * * mon-fry", "weekday mon-fry is not allowed; allowed: 0-7, sun-sat, a-b, a,b and */n; did you mean fri?"),
        ("a b c d e", "minute a is not allowed"),
        ("0 2 * * @", "weekday @ is not allowed"),
        ("0 2 *-5 * *", "day *-5 is not allowed"),
        ("0 2 ,5 * *", "day ,5 is not allowed"),
        ("0 2 1,* * *", "day 1,*: * means every day; write it alone"),
        ("5-5 * * * *", "minute 5-5: 5-5 is a single minute; write 5"),
        ("0 2 * * mon-1", "weekday mon-1: mon-1 is a single weekday; write mon"),
        ("*/0 * * * *", "minute */0 is not allowed"),
        ("*/90 * * * *", "minute */90: a step is at most 60"),
        ("0 2 30 2 *", "never occurs: no such month has day 30"),
        ("0 2 31 apr,jun *", "never occurs: no such month has day 31"),
        ("0" + 40 * ",0" + " 2 * * *", "has 89 characters; allowed: up to 80"),
        ("daily", "is not five fields (minute hour day month weekday); write it like 0 2 * * *"),
        ("0 2 * * * *", "is not five fields"),
        ("٣ 2 * * *", "minute ٣ is not allowed"),
        ("R 2 * * *", "minute r is not allowed"),
        ("0 2 * * 5#1", "weekday 5#1 is not allowed"),
        ("0 2 1-l * *", "day 1-l is not allowed"),
    ],
)  # fmt: skip
def test_an_error_names_the_field(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(text[:20])[:-1]) + ".*" + re.escape(said)):
        check_cron(text)


def test_a_file_is_checked_and_a_stored_schedule_still_reads(tmp_path: Path) -> None:
    text = (ROOT / "dags" / "pipelines" / "search-ranking" / "pipeline.yaml").read_text(encoding="utf-8")
    assert 'cron: "0 2 * * *"' in text
    (tmp_path / "pipeline.yaml").write_text(text.replace("0 2 * * *", "0 2 30 2 *"), encoding="utf-8")
    with pytest.raises(PipelineInvalid, match=r"schedule.cron: '0 2 30 2 \*' never occurs: no such month has day 30"):
        load(tmp_path)
    assert Schedule.model_validate_json('{"cron": "0 2 30 2 *"}').cron == "0 2 30 2 *"


def test_a_schedule_needs_no_croniter_to_be_read() -> None:
    program = (
        'import sys\nfrom ratchet.contracts.schedule import Schedule\nSchedule(cron="0 2 * * *")\nprint(*sys.modules)'
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True)
    assert "croniter" not in done.stdout.split()
