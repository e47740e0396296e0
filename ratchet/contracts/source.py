"""The sources of rows, day by day."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from ratchet.contracts.document import Document
from ratchet.contracts.environment import SOURCE_ADDRESSES, SOURCE_SECRETS

MissingDays = Literal["fail", "skip"]


def _names_the_date(uri: str) -> str:
    if "{date}" not in uri:
        raise ValueError("has no place for the day; put {date} into it (it becomes YYYY-MM-DD)")
    return uri


class _Source(Document):
    window_days: int = Field(30, ge=1, le=3660, description="The days of data in a run, including the data date.")
    missing_days: MissingDays = Field(
        "fail",
        description="What to do when an earlier day has no data: fail stops the run, skip goes on without the day. The "
        "data date must always have data.",
    )


class FilesSource(_Source):
    """Parquet or CSV files, a set for each day; local or s3://."""

    kind: Literal["files"] = Field(description="Parquet or CSV files.")
    uri: Annotated[str, AfterValidator(_names_the_date)] = Field(
        description="A path or s3:// URI with {date} (YYYY-MM-DD) and, if needed, *. "
        f"${{{SOURCE_ADDRESSES}}} is read from the environment. A relative path starts at the folder of the command."
    )


class SqlSource(_Source):
    """A query against a database, run once for each day."""

    kind: Literal["sql"] = Field(description="A query against a database.")
    uri: str = Field(
        description="An SQLAlchemy URL. ${NAME} is read from the environment, if the name begins with "
        f"{SOURCE_SECRETS} or the operator allows it; write no password into the file."
    )
    query: str = Field(description="A SELECT with the parameter :date (YYYY-MM-DD).", pattern=r"(?s).*:date\b.*")


class DeltaSource(_Source):
    """A Delta Lake table with a column that holds the day."""

    kind: Literal["delta"] = Field(description="A Delta Lake table.")
    uri: str = Field(
        description=f"The table's path or s3:// URI. ${{{SOURCE_ADDRESSES}}} is read from the environment."
    )
    date_column: str = Field("date", description="The column that holds the day, as a date or a YYYY-MM-DD string.")


Source = Annotated[FilesSource | SqlSource | DeltaSource, Field(discriminator="kind")]
