"""Where rows come from, day by day."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from ratchet.contracts.document import Document

MissingDays = Literal["fail", "skip"]


def _names_the_date(uri: str) -> str:
    if "{date}" not in uri:
        raise ValueError(f"{uri!r} does not say where a day is; put {{date}} into it (it becomes YYYY-MM-DD)")
    return uri


class _Source(Document):
    window_days: int = Field(
        30, ge=1, le=3660, description="Days of data a model is made from, the data date included."
    )
    missing_days: MissingDays = Field(
        "fail", description="What a day of the window without data does; the data date itself must be there."
    )


class FilesSource(_Source):
    """Parquet or CSV files, a set for each day; local or s3://."""

    kind: Literal["files"]
    uri: Annotated[str, AfterValidator(_names_the_date)] = Field(
        description="A path or s3:// URI with {date} and, if needed, *; ${NAME} is taken from the environment."
    )


class SqlSource(_Source):
    """A query against a database, run once for each day."""

    kind: Literal["sql"]
    uri: str = Field(description="An SQLAlchemy URL; ${NAME} is taken from the environment, where secrets belong.")
    query: str = Field(description="A SELECT with the parameter :date (YYYY-MM-DD).", pattern=r"(?s).*:date\b.*")


class DeltaSource(_Source):
    """A Delta Lake table with a column that holds the day."""

    kind: Literal["delta"]
    uri: str = Field(description="The table's path or s3:// URI; ${NAME} is taken from the environment.")
    date_column: str = Field("date", description="The column that holds the day, as a date or a YYYY-MM-DD string.")


Source = Annotated[FilesSource | SqlSource | DeltaSource, Field(discriminator="kind")]
