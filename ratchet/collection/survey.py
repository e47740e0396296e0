"""What of a pipeline stays, and what goes: nothing that it reads is changed.

A change here violates the promise of the project when something goes that a ledger, a version in it, a run that is kept
or under way, or the next night needs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby

from ratchet.collection.findings import Findings
from ratchet.collection.kept_runs import DAY_NS, Runs, named, read_runs
from ratchet.collection.marks import Marks, is_part
from ratchet.collection.records import Records
from ratchet.collection.roots import Roots
from ratchet.collection.rows import Rows
from ratchet.contracts import paths
from ratchet.contracts.collection import Policy
from ratchet.contracts.errors import Unavailable
from ratchet.contracts.stages import TRAININGS
from ratchet.runs.history import rebuild_plan, report_of
from ratchet.runtime.parts_index import indexed_parts
from ratchet.store.base import Entry, Store
from ratchet.store.removals import removals

REMOVAL = "removal"
"""The lease of a purge, an expiry or a collection: no stage has it."""
_REBUILD_DAYS = 8
"""A rebuild goes on for seven days at most (the time of the run of its DAG)."""
_TAKE_NONE = TRAININGS | {"evaluate", "register", "report"}
"""Stages that take no part of a day by an index."""


@dataclass(frozen=True, kw_only=True)
class Survey:
    """working: stages, and parts of days, that may be computed now."""

    findings: Findings
    working: frozenset[str]


def taking_parts(working: frozenset[str]) -> frozenset[str]:
    """Those that may take a part of a day which nothing names. The others read what results of their own run name."""
    return working - _TAKE_NONE


def survey(store: Store, pipeline: str, roots: Roots, policy: Policy, now_ns: int) -> Survey:
    """Look at a pipeline. now_ns: by the store's clock.

    Raises CorruptArtifact or Unavailable where something cannot be read: then nobody can say what goes.
    """
    removed = removals(store, pipeline)
    begun = next((one for one in removed if one.ended is None), None)
    if begun is not None:
        raise Unavailable(f"rows of {pipeline} are being removed ({begun.line})", remedy="let that end first")
    leases = tuple(entry for entry in store.list(paths.leases(pipeline)) if entry.key.split("/")[2] != REMOVAL)
    live = [entry for entry in leases if now_ns - entry.modified_ns <= policy.grace * DAY_NS]
    working = frozenset(entry.key.split("/")[2] for entry in live)
    runs, findings = read_runs(store, pipeline, policy, now_ns), Findings()
    marks = _mark(store, pipeline, roots, policy, now_ns, runs, live)
    before_ns, aside_ns = now_ns - policy.grace * DAY_NS, now_ns - policy.results * DAY_NS
    rows = Rows(store, pipeline, removed, before_ns, f"younger than {policy.grace} days")
    gone = _keep_days(marks, rows, roots, aside_ns)
    marks.count(findings, before_ns=before_ns, aside_ns=aside_ns)
    rows.count(gone, findings)
    records = Records(store=store, pipeline=pipeline, policy=policy, now_ns=now_ns, findings=findings)
    stay = records.of_runs(runs, {run_id for name, run_id in roots.runs if name == pipeline})
    records.of_checkpoints(working)
    records.of_builds({*marks.stays})
    records.of_alerts(stay)
    records.of_leases(leases)
    return Survey(findings=findings, working=working)


def pipelines_of(store: Store) -> Iterator[str]:
    """The pipelines of a store, by the marks and the records of their runs."""
    listed = (entry for place in paths.FIRST[1:] for entry in store.list(place))
    names = {name for name, _ in groupby(listed, key=lambda entry: entry.key.split("/")[1])}
    yield from sorted(names)


def _mark(
    store: Store, pipeline: str, roots: Roots, policy: Policy, now_ns: int, runs: Runs, live: list[Entry]
) -> Marks:
    marks = Marks(store, pipeline)
    for key, why in roots.files.items():
        marks.keep(key, why)
    for entry in live:
        _, _, stage, name = entry.key.split("/")
        marks.begin(paths.published(pipeline, stage, name.removesuffix(".json")))
    for run, keys in named(store, [run for run in runs.planned if run.why]):
        for key in keys:
            marks.keep(key, run.why)
    if runs.planned:
        _keep_for_the_next_night(store, pipeline, policy, now_ns, runs, marks)
    marks.keep_younger(now_ns - policy.grace * DAY_NS, f"younger than {policy.grace} days")
    if begun := [one for one in _rebuilds(pipeline, runs) if one > now_ns - _REBUILD_DAYS * DAY_NS]:
        marks.keep_younger(min(begun) - 1, "a rebuild that has begun before it may go on with it")
    marks.follow()
    marks.follow_superseded(now_ns - policy.results * DAY_NS)
    return marks


def _rebuilds(pipeline: str, runs: Runs) -> Iterator[int]:
    """When each rebuild of a version that has no answer began. No record names its results, which are newer."""
    for run_id, entries in runs.unplanned.items():
        written = {entry.key: entry.modified_ns for entry in entries}
        begun = written.get(rebuild_plan(pipeline, run_id))
        if begun is not None and report_of(pipeline, run_id) not in written:
            yield begun


def _keep_days(marks: Marks, rows: Rows, roots: Roots, aside_ns: int) -> frozenset[str]:
    """Keep the manifests of rows that stay, and what these replaced lately; the files of rows that go."""
    while True:
        gone = rows.unnamed(marks.named, marks.snapshots, roots.rows)
        marks.keep_days(gone)
        marks.follow()
        marks.follow_superseded(aside_ns)
        if gone.isdisjoint(marks.named):
            return gone


def _keep_for_the_next_night(
    store: Store, pipeline: str, policy: Policy, now_ns: int, runs: Runs, marks: Marks
) -> None:
    """Parts of days that the last night used, and those that are younger than the window, counted from its end.

    Rows that a run has used since stay as long as parts that it made of them: a purge finds those by the rows.

    A sum of days, of which no document says whether it was used, was written when the last of its days came: that is a
    window before the newest date at most.
    """
    marks.keep_indexes()
    why = "the next night may take it"
    for part in sorted({prefix.split("/")[2] for prefix in marks.prefixes if is_part(prefix)}):
        for found in indexed_parts(store, paths.parts_index(pipeline, part)):
            marks.keep(found.key, why)
    newest = [run for run in runs.planned if run.why]  # a few runs of a narrower window by hand may be the newest
    today = datetime.fromtimestamp(now_ns / 1e9, UTC).date()
    pause = max((today - max(run.plan.data_date for run in newest)).days, 0)
    window = max(run.plan.spec.source.window_days for run in newest)
    before_ns = now_ns - (window + pause + policy.grace) * DAY_NS
    marks.keep_younger(before_ns, why, only=is_part)
    for _, keys in named(store, [run for run in runs.planned if not run.why and run.newest_ns > before_ns]):
        for key in keys:
            if key.startswith(f"{paths.table(marks.pipeline)}/"):
                marks.keep(key, "parts that were made of it stay")
