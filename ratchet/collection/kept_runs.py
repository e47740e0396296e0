"""The runs of a pipeline: their records, what these name, and which runs stay whole.

A change here violates the promise of the project when a record that cannot be read counts as one that names nothing.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, groupby
from typing import TypeVar

from ratchet.contracts import paths
from ratchet.contracts.collection import Policy
from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.request import Outcome, RunPlan
from ratchet.contracts.stages import STAGES
from ratchet.store.base import Entry, Store
from ratchet.store.documents import read_document

DAY_NS = 86_400 * 10**9
_THREADS = 8
_Model = TypeVar("_Model", RunPlan, Outcome)


@dataclass(frozen=True, kw_only=True)
class Run:
    """The records of a run. newest_ns: of its files. why: why it stays whole; empty if only its records may stay."""

    run_id: str
    entries: tuple[Entry, ...]
    plan: RunPlan
    newest_ns: int
    why: str

    @property
    def logs(self) -> tuple[Entry, ...]:
        """The logs of its tries."""
        return tuple(entry for entry in self.entries if entry.key.endswith(".log"))

    @property
    def records(self) -> tuple[Entry, ...]:
        """All others, the plan first: without it there is no run."""
        first = paths.plan(self.plan.spec.name, self.run_id)
        others = (entry for entry in self.entries if not entry.key.endswith(".log"))
        return tuple(sorted(others, key=lambda entry: entry.key != first))


@dataclass(frozen=True, kw_only=True)
class Runs:
    """planned: the newest first. unplanned: files of runs without a plan, by run."""

    planned: tuple[Run, ...]
    unplanned: dict[str, tuple[Entry, ...]]


def read_runs(store: Store, pipeline: str, policy: Policy, now_ns: int) -> Runs:
    """All runs; none of a pipeline that has only marks of dates, as where its first run ended before its plan.

    Raises CorruptArtifact if a plan cannot be read, and where there is none at all.
    """
    listed = store.list(paths.runs(pipeline))
    files = {run_id: tuple(group) for run_id, group in groupby(listed, key=lambda entry: entry.key.split("/")[2])}
    begun = {
        run_id: entry.key for run_id, entries in files.items() for entry in entries if paths.run_of_plan(entry.key)
    }
    if not files and next(iter(store.list(paths.published(pipeline))), None) is None:
        return Runs(planned=(), unplanned={})
    if not begun:
        raise CorruptArtifact(
            f"{pipeline} has no plan of a run, so nobody can say what its results are for",
            remedy="restore the store from a backup, or delete what is left of the pipeline by hand",
        )
    with ThreadPoolExecutor(_THREADS) as pool:
        plans = list(pool.map(lambda key: _read(store, key, RunPlan), begun.values()))
    found = {run_id: plan for run_id, plan in zip(begun, plans, strict=True) if plan is not None}
    newest = sorted(found, key=lambda run_id: found[run_id].created.timestamp(), reverse=True)
    planned = []
    for place, run_id in enumerate(newest):
        written, why = max(entry.modified_ns for entry in files[run_id]), ""
        if now_ns - written < policy.results * DAY_NS:
            why = f"a run of the last {policy.results} days"
        elif place < policy.last:
            why = f"one of the last {policy.last} runs"
        planned.append(Run(run_id=run_id, entries=files[run_id], plan=found[run_id], newest_ns=written, why=why))
    return Runs(planned=tuple(planned), unplanned={one: files[one] for one in files if one not in begun})


def named(store: Store, runs: list[Run]) -> Iterator[tuple[Run, list[str]]]:
    """Of each run, the keys that its plan and its outcomes name. Raises CorruptArtifact if one cannot be read."""
    with ThreadPoolExecutor(_THREADS) as pool:
        yield from zip(runs, pool.map(lambda run: _named(store, run), runs), strict=True)


def models_of(store: Store, pipeline: str) -> set[str]:
    """The models that a pipeline's runs trained, as far as their plans can be read."""
    keys = (entry.key for entry in store.list(paths.runs(pipeline)) if paths.run_of_plan(entry.key) is not None)
    found = {pipeline}
    for key in keys:
        try:
            plan = _read(store, key, RunPlan)
        except CorruptArtifact:
            continue
        found |= {plan.spec.model_name} if plan is not None else set()
    return found


def _named(store: Store, run: Run) -> list[str]:
    plan, there = run.plan, {entry.key for entry in run.entries}
    found = [*plan.champion.manifests.values()] if plan.champion is not None else []
    found += [plan.parent.weights.key, plan.parent.description.key] if plan.parent is not None else []
    days = chain(plan.source, *(one.days for one in plan.joins.values()))
    found += [day.held.file.key for day in days if day.held is not None]
    for stage in STAGES:
        key = paths.outcome(plan.spec.name, run.run_id, stage)
        outcome = _read(store, key, Outcome) if key in there else None
        if outcome is not None:
            found += [outcome.manifest] if outcome.manifest else []
            found += [one.key for one in outcome.result.outputs.values()] if outcome.result else []
    return found


def _read(store: Store, key: str, model: type[_Model]) -> _Model | None:
    """A document; None if it is gone meanwhile."""
    try:
        return read_document(store, key, model)
    except FileNotFoundError:
        return None
