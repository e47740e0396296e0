"""The sources of rows, day by day."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from ratchet.contracts.csv_format import CsvFormat
from ratchet.contracts.day_pattern import day_folder, day_pattern, names_a_day
from ratchet.contracts.document import Document
from ratchet.contracts.environment import SOURCE_ADDRESSES, SOURCE_SECRETS
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.quantities import Duration
from ratchet.contracts.readiness import Readiness
from ratchet.contracts.source_uri import database_place, parse
from ratchet.contracts.sql_parameters import BOUNDS, parameters
from ratchet.contracts.time_zones import TimeOfDay, TimeZone

MissingDays = Literal["fail", "skip"]


def _names_the_date(uri: str) -> str:
    day_pattern(uri)
    return uri


def _place(uri: str) -> str:
    """Check the text of a URI before its variables are known."""
    try:
        parse(uri)
    except ConfigurationError as error:
        raise ValueError(f"{error.cause.removeprefix('source.uri: ')}; {error.remedy}") from None
    return uri


def _database(uri: str) -> str:
    if "${" not in uri:
        try:
            database_place(uri)
        except ConfigurationError as error:
            raise ValueError(f"{error.cause.removeprefix('source.uri: ')}; {error.remedy}") from None
    return uri


def _names_the_day(query: str) -> str:
    found = parameters(query)
    if not found:
        raise ValueError("has no parameter of the day; write `WHERE day = :date`, or `t >= :start AND t < :end`")
    if "date" not in found and found != BOUNDS:
        (other,) = BOUNDS - found
        raise ValueError(f"has :{next(iter(found))} without :{other}; write `WHERE t >= :start AND t < :end`")
    return query


_RELATIVE = (
    "A relative path starts at the working folder of the process that plans the run: for `ratchet run` the folder in "
    "which you call it, never that of the pipeline file. For Airflow write the full path."
)


class _Source(Document):
    window_days: int = Field(30, ge=1, le=3660, description="The days of data in a run, including the data date.")
    keep_days: int | None = Field(
        None,
        ge=1,
        description="The newest days of data that `ratchet data expire` keeps, at least window_days. Default: all. It "
        "drops older ones, but never those that a registered model or a run that has not ended names.",
    )
    missing_days: MissingDays = Field(
        "fail",
        description="What to do when an earlier day has no data: fail stops the run, skip goes on without the day. The "
        "data date must always have data.",
    )
    timezone: TimeZone | None = Field(
        None, description="The time zone in which the days of the source begin and end. Default: schedule.timezone."
    )
    day_starts: TimeOfDay = Field(
        "00:00", description='The time of day, in that zone, at which a day of the source begins, such as "04:00".'
    )
    wait: Duration | None = Field(
        None,
        description="How long a run waits for the files of the data date, from its first look on. Default: 15m for a "
        "scheduled run, and no wait for any other. The rows of a query, and of a Delta table that is not partitioned "
        "by the day, are not waited for.",
    )

    names: dict[str, Annotated[str, Field(min_length=1)]] = Field(
        default_factory=dict,
        description="What the source calls a column that has another name in the pipeline file, as in "
        '`price: "Preis (EUR)"`.',
    )
    codes: dict[str, Annotated[tuple[str, ...], Field(min_length=2)]] = Field(
        default_factory=dict,
        description="The texts in the source of a column of type int64, such as a label; they become 0, 1, 2, ...: "
        '`late: ["no", "yes"]`. Any other text stops the run.',
    )

    @model_validator(mode="after")
    def _keeps_its_window(self) -> Self:
        if self.keep_days is not None and self.keep_days < self.window_days:
            raise ValueError(f"keep_days {self.keep_days} is less than window_days {self.window_days}; keep as many")
        return self


class FilesSource(_Source):
    """Parquet, CSV or JSON lines files, a set for each day; local or s3://."""

    kind: Literal["files"] = Field(description="Files of Parquet, CSV or JSON lines.")
    uri: Annotated[str, AfterValidator(_place), AfterValidator(_names_the_date)] = Field(
        description="A path or s3:// URI of files, with {date} (YYYY-MM-DD) or {date:%Y/%m/%d} (also "
        "%j, the day of the year) and, if needed, *. "
        f"${{{SOURCE_ADDRESSES}}} is read from the environment. {_RELATIVE}"
    )
    ready: Readiness = Field(
        default_factory=Readiness, description="When a day is complete. Until then it has no files; see source.wait."
    )
    csv: CsvFormat = Field(
        default_factory=CsvFormat,
        description="How CSV files are written. Their form is recognised by their first rows, and said in the log of "
        "ingest; what is set here is not guessed.",
    )

    @model_validator(mode="after")
    def _marker_is_of_a_day(self) -> Self:
        marker = self.ready.marker
        if marker and not names_a_day(f"{day_folder(self.uri)}/{marker}"):
            raise ValueError(f"ready.marker {marker!r} would be of many days; write {{date}} into it: {{date}}.done")
        return self


class SqlSource(_Source):
    """A query against a database, run once for each day."""

    kind: Literal["sql"] = Field(description="A query against a database.")
    uri: Annotated[str, AfterValidator(_database)] = Field(
        description="An SQLAlchemy URL. ${NAME} is read from the environment, if the name begins with "
        f"{SOURCE_SECRETS} or the operator allows it; write no password into the file. The stage image has the drivers "
        "of postgresql+psycopg://, duckdb:/// and sqlite:///; the last two need the full path of a file."
    )
    query: Annotated[str, AfterValidator(_names_the_day)] = Field(
        description="A SELECT of the rows of a day. It has the parameter :date (a text, YYYY-MM-DD), or :start and "
        ":end, the first moments of the day and of the next one in source.timezone: `WHERE t >= :start AND t < :end`. "
        "These are timestamps with a zone in PostgreSQL and DuckDB, where a column without a zone counts as UTC; text "
        "like 2026-11-20 04:00:00 in UTC in SQLite, so write `datetime(t) >= :start AND datetime(t) < :end` where the "
        "column has another form, such as 2026-11-20T04:00:00Z; and timestamps without a zone, in UTC, elsewhere."
    )
    changed: Annotated[str, AfterValidator(_names_the_day)] | None = Field(
        None,
        description="A SELECT of one row, with the same parameters, that is another one when the rows of a day have "
        "changed: `SELECT max(updated_at), count(*) FROM orders WHERE day = :date`. Ingest asks it for each day of the "
        "window, and reads a day again when its answer changes. Without it, a day is read once.",
    )


class DeltaSource(_Source):
    """A Delta Lake table with a column that holds the day."""

    kind: Literal["delta"] = Field(description="A Delta Lake table.")
    uri: Annotated[str, AfterValidator(_place)] = Field(
        description=f"The table's path or s3:// URI. ${{{SOURCE_ADDRESSES}}} is read from the environment. {_RELATIVE}"
    )
    date_column: str = Field("date", description="The column that holds the day, as a date or a YYYY-MM-DD string.")
    version: int | None = Field(
        None, ge=0, description="The version of the table to read, which stays the same. Default: the newest one."
    )


Source = Annotated[FilesSource | SqlSource | DeltaSource, Field(discriminator="kind")]

SCHEDULED_WAIT_S = 15 * 60
"""Seconds that a scheduled run waits for the files of the data date, unless source.wait is set."""


def wait_limit(source: Source, *, scheduled: bool) -> int:
    """Seconds that a run waits for the files of the data date."""
    if source.wait is not None:
        return source.wait
    return SCHEDULED_WAIT_S if scheduled else 0
