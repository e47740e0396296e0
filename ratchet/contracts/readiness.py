"""When a day of files is complete: by a marker, or because nothing has changed for a while."""

from typing import Annotated

from pydantic import Field

from ratchet.contracts.document import Document
from ratchet.contracts.quantities import Duration


class Readiness(Document):
    """A day that is not ready is one without files."""

    marker: Annotated[str, Field(pattern=r"^[^/*?]+$")] | None = Field(
        None,
        description="The name of a file that says that a day is complete, such as _SUCCESS. It lies in the folder of "
        "the day; where days share a folder, it names the day, as in {date}.done. Its time does not count, since a "
        "copy changes it: where files are written again beside an old marker, set quiet, too.",
    )
    quiet: Duration | None = Field(
        None, description="A day is complete when none of its files has been written for so long, such as 5m."
    )
    fresh: Duration | None = Field(
        None,
        description="A scheduled run warns if the newest file of the data date was written longer ago than this, such "
        "as 26h.",
    )
