"""The schedule of a pipeline, and the check of its cron expression.

A pipeline file is checked with croniter, which Airflow uses too, because Airflow cannot load a DAG file with an
expression that it refuses. Stored documents are not checked again: the stage image has no croniter.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from ratchet.contracts.document import Document
from ratchet.contracts.misfits import Misfit
from ratchet.contracts.quantities import Duration
from ratchet.contracts.time_zones import TimeZone

MAX_LENGTH = 80
"""Airflow's database has 1,000 characters for the expression in words."""
_FIELDS = (
    ("minute", "0-59"),
    ("hour", "0-23"),
    ("day", "1-31"),
    ("month", "1-12, jan-dec"),
    ("weekday", "0-7, sun-sat"),
)
_VALUE = r"(?:[0-9]+|[a-z]{2,})"
_ITEM = rf"(?:\*|l|{_VALUE}(?:-{_VALUE})?)(?:/[0-9]+)?"
_FIELD = re.compile(rf"{_ITEM}(?:,{_ITEM})*")
"""The syntax of crontab(5), and `l`. croniter accepts more, such as `R`, which is random."""
_START = datetime(2024, 1, 1, tzinfo=UTC)


def check_cron(text: str) -> str:
    """Check an expression; returns it with single blanks. Raises ValueError that names the invalid field."""
    from croniter import CroniterBadDateError, croniter

    expression = _five_fields(text)
    try:
        for index, field in enumerate(expression.lower().split()):
            _check_field(index, field)
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None
    try:
        croniter(expression, _START).get_next()
    except CroniterBadDateError:
        day = min(croniter.expand(expression)[0][2])
        raise ValueError(f"{text!r} never occurs: no such month has day {day}") from None
    return expression


def schedule_fires(spec: Any) -> Iterator[Misfit]:
    """The rule for pipeline files: Airflow accepts the cron expression, and it occurs."""
    if spec.schedule is not None:
        cron = spec.schedule.cron
        try:
            check_cron(cron)
        except ValueError as error:
            yield Misfit(("schedule", "cron"), str(error))


def _five_fields(text: str) -> str:
    if len(text) > MAX_LENGTH:
        raise ValueError(f"{text[:20]!r}... has {len(text)} characters; allowed: up to {MAX_LENGTH}")
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise ValueError(f"{text!r} is not five fields (minute hour day month weekday); write it like 0 2 * * *")
    return " ".join(fields)


def _check_field(index: int, field: str) -> None:
    from croniter import croniter

    (name, allowed), names = _FIELDS[index], croniter.ALPHACONV[index]
    if "," in field and "*" in field.split(","):
        raise ValueError(f"{name} {field}: * means every {name}; write it alone")
    unknown = [word for word in re.findall("[a-z]+", field) if word not in names]
    if unknown or not _FIELD.fullmatch(field) or not _readable(index, field):
        near = [match for word in unknown for match in get_close_matches(word, names, n=1)]
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"{name} {field} is not allowed; allowed: {allowed}, a-b, a,b and */n{hint}")
    for first, last in re.findall(f"({_VALUE})-({_VALUE})", field):  # croniter reads 5-5 as every value
        if int(names.get(first, first)) == int(names.get(last, last)):
            raise ValueError(f"{name} {field}: {first}-{last} is a single {name}; write {first}")
    size = croniter.LEN_MEANS_ALL[index]
    if any(int(step) > size for step in re.findall("/([0-9]+)", field)):
        raise ValueError(f"{name} {field}: a step is at most {size}")


def _readable(index: int, field: str) -> bool:
    """Whether croniter accepts the field; its errors do not name the field."""
    from croniter import CroniterError, croniter

    try:
        croniter.expand(" ".join([*["*"] * index, field, *["*"] * (len(_FIELDS) - 1 - index)]))
    except CroniterError:
        return False
    return True


class Schedule(Document):
    """When runs start. The data date of a run is the day before."""

    cron: Annotated[str, AfterValidator(_five_fields)] = Field(
        description="A cron expression with five fields: minute hour day month weekday.",
        json_schema_extra={"pattern": r"^\s*[0-9*,/\-A-Za-z]+(\s+[0-9*,/\-A-Za-z]+){4}\s*$"},
    )
    timezone: TimeZone = Field("UTC", description="The time zone of the cron expression and of the days.")
    finish_by: Duration | None = Field(
        None, description="Send the late alert if a run has not finished this long after it was queued."
    )
