"""What was made of the rows of some files of days: it is deleted, or written again without what names a key.

The profile of a day and its arrays go, and all sums of days. Of a stage's result go the files with rows or their
values; the manifest stays, for the history, and the files of a model stay. Texts for people keep their words but for
the value.

A change here violates the promise of the project when a file that was made of purged rows stays, or when a file goes
that a model in production needs.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any

import pyarrow as pa

from ratchet.contracts import outbox_paths, paths, summaries
from ratchet.contracts.document import Document
from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.request import Outcome
from ratchet.contracts.result import Artifact, PublishedResult, StageResult
from ratchet.contracts.snapshot import Snapshot
from ratchet.contracts.stages import STAGES
from ratchet.contracts.stored import read_stored
from ratchet.runtime.blocks import KINDS
from ratchet.store.artifacts import read_json
from ratchet.store.base import Entry, Store
from ratchet.store.cache import open_cache
from ratchet.store.documents import read_document, replace_document
from ratchet.store.publishing import read_manifest
from ratchet.store.sealed import replace_sealed
from tasks.keeping.reference import without
from tasks.keeping.texts import Masking, masked, masked_letter
from tasks.validate.profile import Profile

_INGEST, _VALIDATE, _FEATURES = (paths.day_part("ingest"), paths.day_part("validate"), paths.day_part("features"))
DAY_PARTS = (_INGEST, _VALIDATE, _FEATURES)
_ROWS = {_VALIDATE: "input.file", _FEATURES: "input.rows", _INGEST: "day"}
"""The part of a fingerprint that names the day's file. Of ingest only rows kept for another model have it."""
_FILES: Mapping[str, frozenset[str]] = {
    "validate": frozenset({"page.html", "checks.json", "great-expectations.json"}),
    "evaluate": frozenset({"asked", "answers", "scores"}),
    "refit": frozenset({"asked", "answers"}),
    "report": frozenset({"page.html"}),
}
"""The outputs of each stage with rows or their values. Those of features all are; the models of train are kept."""
_REFERENCE = "reference"
_DOCUMENTS = frozenset({"great-expectations.json", "checks.json"})
_KEPT = ("validate-", "features-", "report-")
"""How the names of what these stages keep with a run begin."""
_KINDS = {
    _VALIDATE: "profiles of days",
    _FEATURES: "arrays of days",
    _INGEST: "rows kept for other models",
    "validate": "checks, pages and profiles of windows",
    "features": "fitted state",
    "evaluate": "scored rows",
    "refit": "scored rows",
    "report": "reports",
}


@dataclass(frozen=True, kw_only=True)
class Copies:
    """Finds them, and with `do` deletes or rewrites them. number: of the removal.

    files: digests of the files of days. rows: gives the removed rows of such a file; None if it is gone already.
    columns, mask: of the key. counts, sizes: of what is deleted or rewritten, by kind.
    """

    store: Store
    pipeline: str
    number: int
    files: frozenset[str]
    rows: Callable[[str], pa.Table | None]
    columns: frozenset[str]
    mask: Masking
    do: bool
    counts: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)
    ingests: set[str] = field(default_factory=set)
    edited: dict[str, StageResult] = field(default_factory=dict)

    def remove(self) -> None:
        """All of them. May be called again after it was interrupted."""
        self._forget(self.files)
        for part in _ROWS:
            self._parts(part)
        self._sums()
        snapshots: dict[str, Snapshot] = {}
        features: set[str] = set()
        for stage in STAGES:
            for manifests, entries in self._results(stage):
                touched = [found for found in manifests if self._is_of(found, snapshots, features)]
                if stage == "features":
                    features |= {text for found in touched for text in (found.key, found.result.content)}
                if touched or (not manifests and (stage == "features" or stage in _FILES)):
                    self._edit(manifests, entries, snapshots)
        self._runs(snapshots)
        self._alerts()

    def _forget(self, digests: Iterable[str]) -> None:
        """Let this host's cache forget files; before what names them goes, so that no interruption keeps one."""
        if self.do and (cache := open_cache()) is not None:
            cache.forget(digests)

    def _results(self, part: str) -> Iterator[tuple[list[PublishedResult], list[Entry]]]:
        """The results of a stage, or of a day's part of it: their manifests, old ones too, and all their files."""
        listed = list(self.store.list(paths.published(self.pipeline, part)))
        for _, group in groupby(listed, key=lambda entry: paths.published_prefix(entry.key)):
            entries = list(group)
            yield [found for entry in entries if (found := self._manifest(entry)) is not None], entries

    def _manifest(self, entry: Entry) -> PublishedResult | None:
        if not is_manifest(entry.key):
            return None
        try:
            return read_manifest(self.store, entry.key)
        except CorruptArtifact:
            return None

    def _parts(self, part: str) -> None:
        """Delete the parts of days that were made of these files; the next night makes those that it needs.

        Also those of which nothing is known, as their manifest is damaged, or a killed attempt has left them.
        """
        any_gone, index = False, paths.parts_index(self.pipeline, part)
        for manifests, entries in self._results(part):
            if {entry.key for entry in entries} == {index}:
                continue
            names = {found.result.parts.get(_ROWS[part]) for found in manifests}
            is_made = names & self.files and (part != _INGEST or any("reader" in one.result.parts for one in manifests))
            if is_made or not manifests:
                any_gone = True
                self._forget({one.sha256 for found in manifests for one in found.result.outputs.values()})
                for entry in sorted(entries, key=lambda entry: entry.key.endswith(".json")):  # manifests last
                    self._delete(_KINDS.get(part, part), entry)
        if any_gone and self.do:
            self.store.delete(index)

    def _sums(self) -> None:
        """Delete the sums of days, which do not name their days; the next night makes those that it needs."""
        for kind in KINDS if self.files else ():
            for entry in list(self.store.list(paths.published(self.pipeline, kind))):
                self._delete("sums of days", entry)

    def _is_of(self, found: PublishedResult, snapshots: dict[str, Snapshot], features: set[str]) -> bool:
        result, parts = found.result, found.result.parts
        if result.stage == "ingest":
            self.ingests.update((found.key, result.content))
            if not any(one.sha256 in self.files for one in result.outputs.values()):
                return False
            snapshot = summaries.snapshot(result)
            snapshots |= {found.key: snapshot, result.content: snapshot}
            return True
        ingest = parts.get("input.ingest", "")
        is_unknown = bool(ingest) and ingest not in self.ingests  # nobody can say of which rows it was made
        return is_unknown or ingest in snapshots or parts.get("input.features") in features

    def _edit(self, manifests: list[PublishedResult], entries: list[Entry], snapshots: Mapping[str, Snapshot]) -> None:
        """Write the manifests of a result again, and delete the files that none of them names, also damaged manifests.

        manifests: none for what an interrupted attempt has left, of which nothing is known.
        """
        named: set[str] = set()
        for found in manifests:
            edited = self.edited[found.key] = self._edited(found, snapshots)
            named |= {found.key, *(one.key for one in edited.outputs.values())}
            self._forget({one.sha256 for one in found.result.outputs.values() if one.key not in named})
            if edited != found.result:
                self._rewrite(replace_sealed, found.key, edited)
        for entry in entries:
            if entry.key not in named:
                self._delete(_KINDS.get(entry.key.split("/")[2], "results"), entry)

    def _edited(self, found: PublishedResult, snapshots: Mapping[str, Snapshot]) -> StageResult:
        result, stage = found.result, found.result.stage
        if stage == "ingest":
            return result  # it names days by digests
        gone = {*result.outputs} if stage == "features" else {*_FILES.get(stage, ())}
        outputs = {name: one for name, one in result.outputs.items() if name not in gone}
        snapshot = snapshots.get(result.parts.get("input.ingest", ""))
        if stage == "validate" and _REFERENCE in outputs:
            place, before = paths.published_prefix(found.key), outputs.pop(_REFERENCE)
            reference = self._reference(result, snapshot, place, before) if snapshot is not None else None
            outputs |= {_REFERENCE: reference} if reference is not None else {}
        return result.model_copy(update={"outputs": outputs, "summary": masked(result.summary, self.mask)})

    def _reference(self, result: StageResult, snapshot: Snapshot, prefix: str, before: Artifact) -> Artifact | None:
        """The profile of the good days without the rows; None if it cannot be said any more."""
        place = f"{prefix}/{paths.segment(f'purged-{self.number}')}"
        if before.key.startswith(f"{place}/"):
            return before
        validation = summaries.validation(result)
        out = {*validation.excluded, max(day.day for day in snapshot.days)}
        days = [day.file.sha256 for day in snapshot.days if day.file.sha256 in self.files and day.day not in out]
        if not days:
            return before
        removed = [self.rows(sha256) for sha256 in days]
        tables = [table for table in removed if table is not None]
        if len(tables) < len(removed):
            return None
        try:
            profile = read_json(self.store, before, Profile)
        except CorruptArtifact:
            return None
        data = without(profile, pa.concat_tables(tables), self.columns).model_dump_json(by_alias=True).encode()
        key = f"{place}/{_REFERENCE}"
        if self.do:
            entry = self.store.head(key)
            self.store.replace(key, data, expected=entry.etag if entry else None)
        return Artifact(key=key, sha256=digest(data), bytes=len(data), rows=profile.rows)

    def _runs(self, snapshots: Mapping[str, Snapshot]) -> None:
        """What runs keep beside results: their pages and checks, the records of their stages, and their logs."""
        listed = list(self.store.list(paths.runs(self.pipeline)))
        for run_id, group in groupby(listed, key=lambda entry: entry.key.split("/")[2]):
            entries = {entry.key: entry for entry in group}
            of_stage = {paths.outcome(self.pipeline, run_id, stage): stage for stage in STAGES}
            records = {key: self._outcome(key) for key in of_stage if key in entries}
            has_read = any(self._has_read(one, snapshots) for one in records.values() if one is not None)
            for key, entry in entries.items():
                if (record := records.get(key)) is not None:
                    self._record(key, record, has_read=has_read)
                elif has_read and paths.last(key).startswith(_KEPT):
                    self._delete("pages and checks of runs", entry)
                elif key.endswith((".log", ".html")):
                    self._text(key)
        if self.do:  # also where a purge before this one has changed all records, and was killed then
            self.store.delete(paths.run_index(self.pipeline))  # it repeats them, and is made again from them

    def _has_read(self, record: Outcome, snapshots: Mapping[str, Snapshot]) -> bool:
        """Whether a run has read the rows, by the record of its ingest, which has its result too."""
        files = record.result.outputs.values() if record.result is not None else ()
        is_of = record.content in snapshots or any(one.sha256 in self.files for one in files)
        return record.stage == "ingest" and is_of

    def _outcome(self, key: str) -> Outcome | None:
        try:
            return read_document(self.store, key, Outcome)
        except CorruptArtifact:
            return None

    def _record(self, key: str, record: Outcome, *, has_read: bool) -> None:
        """The record of a stage of a run repeats the manifest of its result."""
        change: dict[str, Any] = {}
        if has_read and record.result is not None and record.manifest is not None:
            found = PublishedResult(key=record.manifest, result=record.result, reused=True)
            change["result"] = self.edited.get(record.manifest) or self._edited(found, {})
        plain = record.model_copy(update=change).model_dump(mode="json", by_alias=True)
        text = json.dumps(masked(plain, self.mask))
        after = read_stored(Outcome, text.encode(), where=key)
        if after != record:
            self.counts["records of runs"] += 1
            self._rewrite(replace_document, key, after)

    def _text(self, key: str) -> None:
        text = self.store.read(key).decode("utf-8", "surrogateescape")
        if (after := self.mask(text)) != text:
            self.counts["logs and pages that name the value"] += 1
            self._write(key, after.encode("utf-8", "surrogateescape"))

    def _alerts(self) -> None:
        """Those that were made, and those that wait in the outbox of any installation."""
        for entry in [*self.store.list(paths.alerts(self.pipeline)), *self.store.list(outbox_paths.EVERY)]:
            waits = entry.key.startswith(f"{outbox_paths.EVERY}/")
            try:
                before = json.loads(self.store.read(entry.key))
            except ValueError:
                continue
            after = masked_letter(before, self.mask) if waits else masked(before, self.mask, free=True)
            if after != before:
                self.counts["alerts that name the value"] += 1
                self._write(entry.key, json.dumps(after).encode())

    def _rewrite(self, replace: Callable[..., bool], key: str, after: Document) -> None:
        if self.do and (entry := self.store.head(key)) is not None:
            replace(self.store, key, after, expected=entry.etag, unknown=partial(masked, mask=self.mask))

    def _write(self, key: str, data: bytes) -> None:
        if self.do and (entry := self.store.head(key)) is not None:
            self.store.replace(key, data, expected=entry.etag)

    def _delete(self, kind: str, entry: Entry) -> None:
        self.counts[kind] += 1
        self.sizes[kind] += entry.bytes
        if self.do:
            self.store.delete(entry.key)


def is_manifest(key: str) -> bool:
    """Whether a file of published results is a manifest."""
    return key.endswith(".json") and paths.last(key) not in _DOCUMENTS
