"""Which files of days a cached result need not be compared with: nobody has written them since they were.

A change here violates the promise of the project when a file counts as compared that somebody has written since.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from zlib import crc32

from ratchet.contracts import paths
from ratchet.contracts.errors import CorruptArtifact, OtherRelease
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.request import Outcome, RunPlan
from ratchet.contracts.stages import Stage
from ratchet.runs.history import runs_of
from ratchet.runs.outcomes import outcomes
from ratchet.runtime.held_days import read_index
from ratchet.runtime.parts_index import indexed_etags
from ratchet.store.base import Store
from ratchet.store.publishing import MANIFEST, read_manifest, verify
from ratchet.store.removals import removals

_NIGHTS = 30
"""Dates in which each file on a disk is compared once although nobody wrote it; a disk may lose a bit by itself."""


def is_doubted(store: Store, plan: RunPlan, ended: Iterable[Outcome]) -> bool:
    """Whether a stage of this date read damaged bytes, or its record is damaged, and no run ended well since.

    Then nothing is trusted: each byte is compared, and what is damaged is made again. ended: the stages of this run.
    """
    if any(one.damaged for one in ended):
        return True
    for run_id in reversed(runs_of(store, plan.spec.name, plan.data_date)):
        try:
            found = outcomes(store, plan.spec.name, run_id) if run_id != plan.run_id else {}
        except CorruptArtifact:
            return True
        if any(one.damaged for one in found.values()):
            return True
        if "report" in found and not any(one.state == "failed" for one in found.values()):
            return False
    return False


def distrust(store: Store, prefix: str) -> None:
    """Let the attempt that makes a result compare each byte of the days that it takes, as after a damaged result."""
    if not any(store.list(paths.damaged(prefix))):
        store.create(paths.manifest_aside(paths.damaged(prefix), digest(b"")), b"")


def compared(store: Store, plan: RunPlan, stage: Stage) -> Mapping[str, str]:
    """The etags that files had when their bytes were last compared, or written, by key.

    A store over the network compares what it keeps by itself, so an etag is enough there.
    """
    if stage == "ingest":
        days = read_index(store, plan.spec).days.values()
        etags = {held.day.file.key: held.etag for held in days if held.etag}
    elif stage == "features":
        etags = indexed_etags(store, paths.parts_index(plan.spec.name, paths.day_part(stage)))
    else:
        return {}
    if all(store.local(key) is None for key in [*etags][:1]):
        return etags
    tonight = plan.data_date.toordinal()
    return {key: etag for key, etag in etags.items() if (crc32(key.encode()) + tonight) % _NIGHTS}


class Compared(NamedTuple):
    """A result whose bytes were compared. files: how many. removed: how many a purge or an expiry took away.

    unread: why nothing was compared: another release wrote its manifest.
    """

    prefix: str
    files: int
    damaged: list[str]
    removed: int = 0
    unread: str = ""


def compare_all(store: Store, pipeline: str) -> Iterator[Compared]:
    """Compare the bytes of every result of a pipeline.

    A file that several results name is compared, and counted, once. A file that was removed on purpose is not damaged.
    """
    seen: set[str] = set()
    removed = {one.before for removal in removals(store, pipeline) for one in removal.days}
    for entry in list(store.list(paths.published(pipeline))):
        prefix = paths.published_prefix(entry.key)
        if entry.key != paths.manifest(prefix):
            continue
        try:
            found = read_manifest(store, entry.key)
        except CorruptArtifact:
            yield Compared(prefix, 1, [MANIFEST])
            continue
        except OtherRelease as error:
            yield Compared(prefix, 0, [], unread=error.cause)
            continue
        outputs = {name: one for name, one in found.result.outputs.items() if one.key not in seen}
        seen |= {one.key for one in outputs.values()}
        gone = {name for name, one in outputs.items() if one.sha256 in removed and store.head(one.key) is None}
        left = {name: one for name, one in outputs.items() if name not in gone}
        rest = found.result.model_copy(update={"outputs": left})
        yield Compared(prefix, len(left), verify(store, found.model_copy(update={"result": rest})), len(gone))
