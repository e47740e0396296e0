"""Take every row of a key out of the days of a pipeline, for good: `ratchet data purge`.

The order: the record of the purge, which ingest applies from then on and which lets no stage start; what is left of
each file, stored beside it; the record of which file takes the place of which; the manifests, the index and the table
that name them; what was made of the rows; the old files. Each step may be done twice, so a purge that was interrupted
is done by the same command.

A change here violates the promise of the project when a purged value is in the store after it, when a row of another
key is lost, or when the state of a day changes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError, CorruptArtifact
from ratchet.contracts.removal import LostVersion, Removal, RemovedDay
from ratchet.contracts.snapshot import SnapshotDay
from ratchet.contracts.stages import STAGES
from ratchet.contracts.stored import take, with_unknown
from ratchet.runs.lost_versions import lost_versions
from ratchet.runs.standstill import only_removal, wait_for_jobs
from ratchet.store.base import Store
from ratchet.store.cache import scratch
from ratchet.store.lease import Hold
from ratchet.store.publishing import read_manifest
from ratchet.store.removals import begin, earlier, keep, removals
from ratchet.store.sealed import replace_sealed
from tasks.keeping.copies import DAY_PARTS, Copies
from tasks.keeping.files import (
    FoundDay,
    TableFile,
    indexes,
    removed_rows,
    replace_in_indexes,
    replace_in_tables,
    search,
    table_files,
    without_rows,
)
from tasks.keeping.keys import Keys, as_texts, code_texts, in_tables, is_same, key_column, salted, texts_in, unmatched
from tasks.keeping.refusals import refuse_other_releases, refuse_unknown
from tasks.keeping.texts import masking
from tasks.keeping.version_texts import mask_versions

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Purged:
    """What a purge does, or has done.

    found: the files with rows of the key. without: files that lack the column. counts, sizes: of what is deleted or
    written again beside the files of days, by kind; sizes in bytes. keys: how many there are. unmatched: how many of
    them have no row in these files. done: whether it was done.
    """

    found: tuple[FoundDay, ...]
    without: tuple[TableFile, ...]
    versions: tuple[LostVersion, ...]
    counts: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    keys: int
    unmatched: int
    done: bool

    @property
    def emptied(self) -> tuple[date, ...]:
        """Days of which a version has no other rows."""
        return tuple(sorted({one.file.day for one in self.found if one.rows == one.total}))


def purge(
    store: Store,
    pipeline: str,
    column: str,
    values: Sequence[str],
    *,
    by: str,
    because: str,
    do: bool,
    wait_s: float = 0.0,
    resume: int | None = None,
) -> Purged:
    """Purge the rows whose column has one of these values; without `do`, only say what that is.

    resume: the number of a purge that was interrupted, in the place of a column and values. Raises ConfigurationError
    for a column or a value that cannot be, and Unavailable while jobs of the pipeline run.
    """
    if resume is not None:
        wanted, keys = _begun(store, pipeline, resume), Keys()
        known = [wanted]
    else:
        key = key_column(store, pipeline, column)
        known = [one for one in removals(store, pipeline) if is_same(one, key, values)]
        texts = as_texts(values, known[-1].type or key.type if known else key.type)
        new = Removal(number=1, kind="purge", by=by, because=because, began=datetime.now(UTC))
        wanted = known[-1] if known else salted(new, key, texts)
        keys = Keys(texts, () if known else code_texts(key, texts))
    _refuse_damaged(store, pipeline)
    refuse_other_releases(store, pipeline)
    with scratch() as folder:
        refuse_unknown(store, _unknown(store, pipeline, wanted, folder))
    if not do:
        with scratch() as folder:
            return _look(store, pipeline, wanted, keys, folder)
    with only_removal(store, pipeline, by, wait_s=wait_s) as hold:
        wait_for_jobs(store, pipeline, wait_s=wait_s)
        # Also one that has ended: a file may have come back since, from a backup or from a late writer. It is read
        # again: another process may have done it meanwhile.
        now = {one.number: one for one in removals(store, pipeline)}
        ours = now[wanted.number] if known else begin(store, pipeline, wanted)
        if ours.ended is not None:
            ours = keep(store, pipeline, ours.model_copy(update={"ended": None}), hold)
        wait_for_jobs(store, pipeline, wait_s=wait_s)
        with scratch() as folder:
            return _do(store, pipeline, ours, keys, folder, hold)


def _begun(store: Store, pipeline: str, number: int) -> Removal:
    begun = {one.number: one for one in removals(store, pipeline) if one.kind == "purge" and one.ended is None}
    if number not in begun:
        numbers = ", ".join(map(str, begun)) or "none"
        raise ConfigurationError(
            f"--resume {number}: {pipeline} has no purge of this number that has begun and not ended",
            remedy=f"name one of them: {numbers}",
        )
    return begun[number]


def _look(store: Store, pipeline: str, removal: Removal, keys: Keys, folder: Path) -> Purged:
    files = table_files(store, pipeline)
    purges = in_tables(store, pipeline, removal, files)
    found, without = search(store, files, purges, folder)
    return _rest(store, pipeline, removal, keys, found, without, purges, folder, do=False)


def _do(store: Store, pipeline: str, removal: Removal, keys: Keys, folder: Path, hold: Hold) -> Purged:
    for place in (paths.table(pipeline), *(paths.published(pipeline, part) for part in (*STAGES, *DAY_PARTS))):
        store.sweep(place, older_than_s=0)  # what a crashed writer has left; no other is at work
    refuse_unknown(store, _unknown(store, pipeline, removal, folder))
    files = table_files(store, pipeline)
    purges = in_tables(store, pipeline, removal, files)
    found, without = search(store, files, purges, folder)
    known = _published_days(store, pipeline)
    named = [one for one in found if one.file.sha256 in known]
    before = {one.before: one for one in removal.days}
    new = {
        one.file.sha256: without_rows(store, one, known[one.file.sha256], purges[one.file.table], folder)
        for one in named
    }
    days = {**before, **new}
    versions = lost_versions(store, pipeline, earlier(removals(store, pipeline), days).keys())
    change = {"days": tuple(days.values()), "versions": tuple(versions)}
    removal = keep(store, pipeline, removal.model_copy(update=change), hold)
    _replace_in_manifests(store, pipeline, days)
    replace_in_indexes(store, pipeline, days)
    replace_in_tables(store, {file.table for file in table_files(store, pipeline)}, days)
    done = _rest(store, pipeline, removal, keys, found, without, purges, folder, do=True)
    known_now = {*known, *_removed(store, pipeline)}
    for one in found:
        if one.file.sha256 in known_now:
            store.delete(one.file.entry.key)
    keep(store, pipeline, removal.model_copy(update={"ended": datetime.now(UTC)}), hold)
    return done


def _rest(
    store: Store,
    pipeline: str,
    removal: Removal,
    keys: Keys,
    found: Sequence[FoundDay],
    without: Sequence[TableFile],
    purges: dict[str, list[Removal]],
    folder: Path,
    *,
    do: bool,
) -> Purged:
    """What was made of the rows."""
    by_digest = {one.file.sha256: one.file for one in found}
    # Manifests name the file of before all purges.
    now = earlier(removals(store, pipeline), [*by_digest, *(one.before for one in removal.days)])

    def rows(sha256: str) -> pa.Table | None:
        file = by_digest.get(sha256) or by_digest.get(now[sha256])
        return removed_rows(store, file, purges[file.table], folder) if file is not None else None

    there = texts_in(store, found, purges, folder)
    copies = Copies(
        store=store, pipeline=pipeline, number=removal.number, files=frozenset(now), rows=rows,
        columns=frozenset({one.column for of_table in purges.values() for one in of_table}),
        mask=masking([*keys.texts, *keys.codes] or there), do=do,
    )  # fmt: skip
    copies.remove()
    if number := mask_versions(store, pipeline, copies.mask, do=do):
        copies.counts["records of versions that name the value"] = number
    return Purged(
        found=tuple(found),
        without=tuple(without),
        versions=tuple(lost_versions(store, pipeline, now.keys())),
        counts=dict(copies.counts),
        sizes=dict(copies.sizes),
        keys=len(removal.values),
        unmatched=unmatched(removal, keys, there),
        done=do,
    )


def _unknown(store: Store, pipeline: str, removal: Removal, folder: Path) -> list[FoundDay]:
    """The files with rows of the key that neither a published result, an index nor a removal names."""
    known = {*_published_days(store, pipeline), *_removed(store, pipeline)}
    files = [file for file in table_files(store, pipeline) if file.sha256 not in known]
    return search(store, files, in_tables(store, pipeline, removal, files), folder)[0] if files else []


def _removed(store: Store, pipeline: str) -> set[str]:
    """The files of before all removals, and those that purges have put in their place."""
    days = [one for removal in removals(store, pipeline) for one in removal.days]
    return {one.before for one in days} | {one.after.file.sha256 for one in days if one.after is not None}


def _published_days(store: Store, pipeline: str) -> dict[str, SnapshotDay]:
    """The days as ingest has published them, by the digest of their file."""
    found: dict[str, SnapshotDay] = {}
    for key in _manifests(store, pipeline, "ingest"):
        try:
            days = read_manifest(store, key).result.summary.get("days")
        except CorruptArtifact:
            continue
        for day in days if isinstance(days, list) else ():  # a share has their number
            one = take(SnapshotDay, day)
            found[one.file.sha256] = one
    for key in _manifests(store, pipeline, paths.day_part("ingest")):
        try:
            one = take(SnapshotDay, read_manifest(store, key).result.summary)
        except CorruptArtifact:
            continue
        found[one.file.sha256] = one
    for _, index, _ in indexes(store, pipeline):
        found |= {held.day.file.sha256: held.day for held in index.days.values()}
    return found


def _refuse_damaged(store: Store, pipeline: str) -> None:
    """Raise CorruptArtifact for a damaged result of ingest: nobody could say what was made of its rows."""
    for key in _manifests(store, pipeline, "ingest"):
        if key == paths.manifest(paths.published_prefix(key)):
            try:
                read_manifest(store, key)
            except CorruptArtifact as error:
                raise CorruptArtifact(
                    f"{store.uri}/{key} is damaged",
                    remedy="restore it from a backup, or delete it: the purge deletes what was made of its rows then",
                ) from error


def _manifests(store: Store, pipeline: str, part: str) -> list[str]:
    return [entry.key for entry in store.list(paths.published(pipeline, part)) if entry.key.endswith(".json")]


def _replace_in_manifests(store: Store, pipeline: str, days: dict[str, RemovedDay]) -> None:
    """Let each published part of a day name what is left of its file, so that an index made again of them does."""
    for key in _manifests(store, pipeline, paths.day_part("ingest")):
        entry = store.head(key)
        try:
            found = read_manifest(store, key).result
            day = take(SnapshotDay, found.summary)
        except CorruptArtifact:
            continue
        one = days.get(day.file.sha256)
        if one is None or one.after is None or entry is None:
            continue
        after = day.model_copy(update={"file": one.after.file})
        change = {
            "summary": with_unknown(day, found.summary, after),
            "outputs": {**found.outputs, "rows.parquet": after.file},
            "content": after.file.sha256,
        }
        replace_sealed(store, key, found.model_copy(update=change), expected=entry.etag)
