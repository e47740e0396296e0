"""What names rows of days: files of tables, and versions of tables."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ratchet.contracts.snapshot import Snapshot


@dataclass
class NamedRows:
    """files: keys, each with what names it. versions: of tables, likewise."""

    files: dict[str, str] = field(default_factory=dict)
    versions: dict[tuple[str, int], str] = field(default_factory=dict)

    def add(self, snapshot: Snapshot, why: str) -> None:
        """A snapshot stays."""
        self.versions.setdefault((snapshot.table, snapshot.version), why)
        for day in snapshot.days:
            self.files.setdefault(day.file.key, why)

    def versions_of(self, table: str) -> Mapping[int, str]:
        """The versions of a table."""
        return {version: why for (name, version), why in self.versions.items() if name == table}
