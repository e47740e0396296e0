"""Why the source has nothing for the data date, and what to do about it."""

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

from ratchet.contracts.errors import DataRejected
from ratchet.contracts.source import FilesSource, Source
from ratchet.runtime.sources import folder_of_day, listed

NO_FILES, NO_ROWS = "no files", "no rows"


def absent_error(source: Source, root: str, day: date, what: str, *, timezone: str) -> DataRejected:
    """The error for a data date without data. root: the source's. what: NO_FILES or NO_ROWS. timezone: of runs."""
    cause = f"{day}: the source has {what} for the data date"
    today = datetime.now(UTC).astimezone(ZoneInfo(timezone)).date()
    if day > today:
        return DataRejected(
            f"{cause}, which lies in the future: today is {today}", remedy=f"run for a date before {today}"
        )
    if isinstance(source, FilesSource) and (folder := folder_of_day(source, root, day)):
        return DataRejected(
            f"{cause}: source.uri names the folder {folder}, and not its files",
            remedy=f"add a pattern for the files: source.uri: {source.uri.rstrip('/')}/*",
        )
    if isinstance(source, FilesSource) and (lack := listed(source, root, day).lack):
        return DataRejected(
            f"{day}: the files for the data date are not complete: {lack}",
            remedy="run again when they are; source.wait lets a run wait for them, source.ready says what it waits for",
        )
    waits = "; source.wait lets a run wait for its files" if what == NO_FILES else ""
    return DataRejected(cause, remedy=f"deliver the day to {source.uri}, or run for another date{waits}")
