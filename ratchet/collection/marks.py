"""What stays of a pipeline's published results: from what is named, along manifests, to everything that they name.

A result stays as a whole: its manifest, and all that the manifest names, also in other results. What no manifest of a
result that stays names is a leftover.

A change here violates the promise of the project when a file goes that a manifest names which stays.
"""

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby

from ratchet.collection.findings import Findings, Wholes
from ratchet.collection.named_rows import NamedRows
from ratchet.contracts import paths, summaries
from ratchet.contracts.result import PublishedResult
from ratchet.contracts.stages import STAGES
from ratchet.store.base import Store
from ratchet.store.publishing import read_manifest

_THREADS = 8
_LEFT = "an attempt that crashed left it, or a result that was made again"
_UNNAMED = "no run that is kept and no version names it"
_ORDER = {f"results of {stage}": number for number, stage in enumerate(reversed(STAGES))}
"""Results before those that they are made of."""


def is_part(prefix: str) -> bool:
    """Whether a prefix is of a part of a day, or of a sum of days."""
    return "." in prefix.split("/")[2]


class Marks:
    """The published files of a pipeline. prefixes: the files by result. stays: why each result stays.

    named: the keys of files that what stays names, each with why that stays. snapshots: of the results of ingest.
    """

    def __init__(self, store: Store, pipeline: str) -> None:
        self._store, self.pipeline = store, pipeline
        listed = store.list(paths.published(pipeline))
        self.prefixes = {
            prefix: list(group)
            for prefix, group in groupby(listed, key=lambda entry: paths.published_prefix(entry.key))
        }
        self.stays: dict[str, str] = {}
        self.named: dict[str, str] = {}
        self.snapshots = NamedRows()
        self._next: list[str] = []
        self._whole: set[str] = set()
        """Prefixes of which no file is a leftover."""

    def keep(self, key: str, why: str) -> None:
        """A file, or a prefix, stays, and with it all that its result names."""
        self.named.setdefault(key, why)
        prefix = paths.published_prefix(key)
        if prefix in self.prefixes and prefix not in self.stays:
            self.stays[prefix] = why
            self._next.append(prefix)

    def begin(self, prefix: str) -> None:
        """A result that is computed now stays with every file below it."""
        self._whole.add(prefix)
        self.keep(prefix, "it is computed now")

    def keep_indexes(self) -> None:
        """The documents that say which parts the last night used."""
        for prefix in filter(is_part, self.prefixes):
            index = paths.parts_index(self.pipeline, prefix.split("/")[2])
            if index.startswith(f"{prefix}/"):
                self._whole.add(prefix)
                self.keep(index, "the next night reads it")

    def keep_days(self, gone: Collection[str]) -> None:
        """The manifests of days of the snapshot, whatever lies beside them, but of those whose rows go.

        A lost index is made again from them, and a purge reads them. Raises CorruptArtifact for a damaged one.
        """
        place = paths.published(self.pipeline, paths.day_part("ingest"))
        left = [
            prefix
            for prefix, entries in self.prefixes.items()
            if prefix.startswith(f"{place}/")
            and prefix not in self.stays
            and any(entry.key == paths.manifest(prefix) for entry in entries)
        ]
        with ThreadPoolExecutor(_THREADS) as pool:
            for prefix, found in zip(left, pool.map(self._read, map(paths.manifest, left)), strict=True):
                outputs = [one.key for one in found.result.outputs.values()]
                # One that names a file of its own has rows that are kept for another model.
                if not any(key.startswith(f"{prefix}/") or key in gone for key in outputs):
                    self.stays[prefix] = why = "it says what the snapshot has of a day"
                    self._keep_outputs(found, why)

    def keep_younger(self, than_ns: int, why: str, *, only: Callable[[str], bool] = bool) -> None:
        """Results with a file that was written since."""
        for prefix, entries in self.prefixes.items():
            if only(prefix) and any(entry.modified_ns > than_ns for entry in entries):
                self.keep(prefix, why)

    def follow(self) -> None:
        """Keep all that what stays names. Raises CorruptArtifact for a damaged manifest."""
        with ThreadPoolExecutor(_THREADS) as pool:
            while self._next:
                prefixes, self._next = self._next, []
                listed = {entry.key for prefix in prefixes for entry in self.prefixes[prefix]}
                whole = [prefix for prefix in prefixes if paths.manifest(prefix) in listed]
                keys = map(paths.manifest, whole)
                for prefix, found in zip(whole, pool.map(self._read, keys), strict=True):
                    self._keep_outputs(found, self.stays[prefix])

    def follow_superseded(self, before_ns: int) -> None:
        """Keep also what replaced manifests name, if they are younger, or if what stays names one of their files."""
        for prefix, why in list(self.stays.items()):
            aside = f"{paths.superseded(prefix)}/"
            for entry in (entry for entry in self.prefixes[prefix] if entry.key.startswith(aside)):
                found = self._read(entry.key)
                names = {one.key for one in found.result.outputs.values()}
                if entry.modified_ns > before_ns or entry.key in self.named or not names.isdisjoint(self.named):
                    self.named.setdefault(entry.key, why)
                    self._keep_outputs(found, why)
        self.follow()

    def count(self, found: Findings, *, before_ns: int, aside_ns: int) -> None:
        """Add what goes and what stays. Leftovers go that are older than `before_ns`, damaged manifests `aside_ns`."""
        for prefix, entries in self.prefixes.items():
            stage, manifest = prefix.split("/")[2], paths.manifest(prefix)
            kind = f"parts of days: {stage}" if is_part(prefix) else f"results of {stage}"
            if (why := self.stays.get(prefix)) is None:
                guard = next((entry for entry in entries if entry.key == manifest), None)
                others = tuple(entry for entry in entries if entry is not guard)
                (found.parts if is_part(prefix) else found.results).append(Wholes(kind, _UNNAMED, guard, others))
                continue
            for entry in entries:
                is_used = (
                    entry.key in self.named or entry.key == manifest or prefix in self._whole or prefix == entry.key
                )
                limit = aside_ns if entry.key.startswith(f"{paths.damaged(prefix)}/") else before_ns
                if is_used or entry.modified_ns > limit:
                    found.keep(kind, why, [entry])
                else:
                    found.rest.append(Wholes("leftovers", _LEFT, None, (entry,)))
        found.results.sort(key=lambda one: _ORDER.get(one.kind, len(_ORDER)))

    def _read(self, key: str) -> PublishedResult:
        return read_manifest(self._store, key)

    def _keep_outputs(self, found: PublishedResult, why: str) -> None:
        if found.result.stage == "ingest" and "table" in found.result.summary:  # that of a share has none
            self.snapshots.add(summaries.snapshot(found.result), why)
        for one in found.result.outputs.values():
            self.keep(one.key, why)
