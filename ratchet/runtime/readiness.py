"""Whether the files of a day are all there, as source.ready says.

A change here violates the promise of the project when a day is read before the source says that it is complete.
"""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ratchet.contracts.quantities import show_duration
from ratchet.contracts.readiness import Readiness
from ratchet.store.base import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedDay:
    """The files of a day. lack: why they are not complete; empty if they are."""

    files: tuple[Entry, ...]
    lack: str

    @property
    def age_s(self) -> float | None:
        """Seconds since the newest file was written; None without files."""
        return time.time() - max(file.modified_ns for file in self.files) / 1e9 if self.files else None


def listed_day(ready: Readiness, files: Sequence[Entry], marker: str, keys: Collection[str]) -> ListedDay:
    """A day of files. marker: its key, empty without one. keys: of all files in the folder of the day."""
    found = ListedDay(files=tuple(file for file in files if file.key != marker), lack="")
    age_s, lack = found.age_s, ""
    if age_s is not None and marker and marker not in keys:
        lack = f"{marker} is not there"
    elif age_s is not None and ready.quiet and age_s < ready.quiet:
        quiet = show_duration(ready.quiet)
        lack = f"a file was written {show_duration(max(round(age_s), 0))} ago, and source.ready.quiet is {quiet}"
    return ListedDay(files=found.files, lack=lack)
