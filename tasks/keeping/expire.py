"""Drop the days of a snapshot that are older than `source.keep_days`: `ratchet data expire`.

A day stays while a version of a model, a run that has not ended, or a hold of promotions names its file. The rows go,
and what was made of them stays where it is.

A change here violates the promise of the project when a file goes that one of these names.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import chain, groupby

from ratchet.contracts import paths, summaries
from ratchet.contracts.errors import ConfigurationError, CorruptArtifact
from ratchet.contracts.further_source import further
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.removal import Removal, RemovedDay
from ratchet.contracts.request import RunPlan
from ratchet.contracts.snapshot import SnapshotDay
from ratchet.contracts.stored import take
from ratchet.runs.data_days import newest_plan
from ratchet.runs.history import days_of, plan_of, runs_of
from ratchet.runs.lost_versions import lost_versions
from ratchet.runs.outcomes import outcomes
from ratchet.runs.standstill import only_removal, wait_for_jobs
from ratchet.runtime.held_days import table_of
from ratchet.store.base import Store
from ratchet.store.lease import Hold
from ratchet.store.ledger import records
from ratchet.store.publishing import read_manifest
from ratchet.store.removals import begin, earlier, keep, removals, successors
from ratchet.store.version_records import versions_of
from tasks.keeping.files import TableFile, indexes, replace_in_indexes, replace_in_tables, table_files
from tasks.keeping.refusals import refuse_other_releases

_RECENT = timedelta(days=7)
"""A run that has not ended and was planned longer ago does not go on."""
_ENDED = frozenset({"report"})


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A file that is older than the limit and stays. why: who names it."""

    file: TableFile
    why: str


@dataclass(frozen=True, kw_only=True)
class Expired:
    """What an expiry does, or has done. before: the first day that is kept by its age alone."""

    before: date
    gone: tuple[TableFile, ...]
    kept: tuple[Kept, ...]
    done: bool

    @property
    def bytes(self) -> int:
        """That are freed."""
        return sum(file.entry.bytes for file in self.gone)


def expire(
    store: Store,
    pipeline: str,
    keep_days: int,
    *,
    by: str,
    because: str,
    do: bool,
    archived: bool = False,
    wait_s: float = 0.0,
    today: date | None = None,
) -> Expired:
    """Drop the files of days before the newest `keep_days`; without `do`, only say which.

    archived: also those that only versions of a model name that are not in production, and whose promotion cannot be
    taken back to: they cannot be built again then. today: a day after it, such as 2099-01-01, does not count as the
    newest. Raises Unavailable while jobs of the pipeline run.
    """
    plan, today = newest_plan(store, pipeline), today or datetime.now(UTC).date()
    if not do:
        return _look(store, plan, keep_days, today, archived=archived)
    with only_removal(store, pipeline, by, wait_s=wait_s) as hold:
        wait_for_jobs(store, pipeline, wait_s=wait_s)
        begun = [one for one in removals(store, pipeline) if one.kind == "expire" and one.ended is None]
        for one in begun:
            _finish(store, pipeline, one, hold)
        found = _look(store, plan, keep_days, today, archived=archived)
        if found.gone:
            refuse_other_releases(store, pipeline, [paths.day_part("ingest")])
            _finish(store, pipeline, _begin(store, pipeline, found, by=by, because=because), hold)
        return Expired(before=found.before, gone=found.gone, kept=found.kept, done=True)


def _look(store: Store, plan: RunPlan, keep_days: int, today: date, *, archived: bool) -> Expired:
    pipeline = plan.spec.name
    reach = _reach(plan.spec)
    files = table_files(store, pipeline)
    held = {file.day for file in files if file.table not in reach}
    if not held:
        raise ConfigurationError(
            f"{store.uri} holds no day of {pipeline}", remedy="check --store and the name of the pipeline"
        )
    newest = max({day for day in held if day <= today + timedelta(days=1)} or held)  # it may be tomorrow there
    before = newest - timedelta(days=keep_days - 1)
    named: dict[str, list[str]] = {}
    purged = successors(removals(store, pipeline))
    for sha256, who in chain(_of_versions(store, pipeline, archived=archived), _of_runs(store, pipeline)):
        named.setdefault(sha256, []).append(who)
        if sha256 in purged:  # what is left of that day is what `as_of: then` reads
            named.setdefault(purged[sha256][0].file.sha256, []).append(who)
    old = [file for file in files if file.day < before - reach.get(file.table, timedelta())]
    return Expired(
        before=before,
        gone=tuple(file for file in old if file.sha256 not in named),
        kept=tuple(Kept(file=file, why=_said(named[file.sha256])) for file in old if file.sha256 in named),
        done=False,
    )


def _reach(spec: PipelineSpec) -> dict[str, timedelta]:
    """By table of a further source, how much older than a day that is kept the days are that it was joined from."""
    two_days = timedelta(days=2)  # days of two sources begin at other times
    return {
        table_of(further(spec, name)): timedelta(seconds=join.within) + two_days for name, join in spec.joins.items()
    }


def _said(who: list[str]) -> str:
    names = list(dict.fromkeys(who))
    return names[0] + (f" and {len(names) - 1} more" if names[1:] else "")


def _of_versions(store: Store, pipeline: str, *, archived: bool) -> Iterator[tuple[str, str]]:
    """The files that versions name, of all models that the pipeline has registered; register.model may have changed."""
    for model, of_model in groupby(versions_of(store, pipeline), key=lambda record: record.model):
        ledger = records(store, model)
        reigns = list(dict.fromkeys(one.model_digest for one in reversed(ledger) if one.moves_production))
        holds = {one.model_digest for one in ledger if one.action == "hold"}
        for record in of_model:
            role = " (in production)" if reigns[:1] == [record.digest] else ""
            if archived and record.digest not in {*reigns[:2], *holds}:
                continue
            for day in record.snapshot.days:
                yield day.file.sha256, f"{model} version {record.version}{role}"


def _of_runs(store: Store, pipeline: str) -> Iterator[tuple[str, str]]:
    """The files that runs name which may go on."""
    now = datetime.now(UTC)
    for day in days_of(store, pipeline):
        for run_id in runs_of(store, pipeline, day):
            plan = plan_of(store, pipeline, run_id)
            if plan is None or now - plan.created > _RECENT:
                continue
            ended = outcomes(store, pipeline, run_id)
            if {*ended} >= _ENDED:
                continue
            ingest = ended.get("ingest")
            if ingest is not None and ingest.result is not None:
                for one in summaries.snapshot(ingest.result).days:
                    yield one.file.sha256, f"run {run_id}, which has not ended"
            for source in chain(plan.source, *(one.days for one in plan.joins.values())):
                if source.held is not None:
                    yield source.held.file.sha256, f"run {run_id}, which has not ended"


def _begin(store: Store, pipeline: str, found: Expired, *, by: str, because: str) -> Removal:
    rows = _rows(store, pipeline)
    days = tuple(
        RemovedDay(day=file.day, before=file.sha256, rows=rows.get(file.sha256, 0), bytes=file.entry.bytes, after=None)
        for file in found.gone
    )
    known = earlier(removals(store, pipeline), [one.before for one in days])
    lost = lost_versions(store, pipeline, known.keys())
    removal = Removal(
        number=1, kind="expire", by=by, because=because, began=datetime.now(UTC), days=days, versions=tuple(lost)
    )
    return begin(store, pipeline, removal)


def _rows(store: Store, pipeline: str) -> dict[str, int]:
    return {
        held.day.file.sha256: held.day.file.rows or 0
        for _, index, _ in indexes(store, pipeline)
        for held in index.days.values()
    }


def _finish(store: Store, pipeline: str, removal: Removal, hold: Hold) -> None:
    """Everything after the record; may be done twice."""
    days = {one.before: one for one in removal.days}
    files = table_files(store, pipeline)
    for entry in list(store.list(paths.published(pipeline, paths.day_part("ingest")))):
        if _names(store, entry.key) in days:
            store.delete(entry.key)
    replace_in_indexes(store, pipeline, days)
    replace_in_tables(store, {file.table for file in files}, days)
    for file in files:
        if file.sha256 in days:
            store.delete(file.entry.key)
    keep(store, pipeline, removal.model_copy(update={"ended": datetime.now(UTC)}), hold)


def _names(store: Store, key: str) -> str:
    """The digest of the file of a day that a manifest of its part names; empty for another file."""
    if not key.endswith(".json"):
        return ""
    try:
        return take(SnapshotDay, read_manifest(store, key).result.summary).file.sha256
    except (CorruptArtifact, ValueError):
        return ""
