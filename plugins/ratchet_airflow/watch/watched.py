"""The pipelines whose nights are expected: those with a file, and where all files are gone, those that ran lately.

A change here violates the promise of the project when nights stop and nobody expects them any more: a file that is
broken, and a folder whose disk is not mounted, are no decision of a person.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from ratchet.collection.survey import pipelines_of
from ratchet.contracts.errors import CorruptArtifact, OtherRelease
from ratchet.contracts.loading import FILE
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.request import RunPlan
from ratchet.runs.history import days_of, plan_of, runs_of
from ratchet.store.base import Store
from ratchet_airflow import folders
from ratchet_airflow.alerts.by_hand import root
from ratchet_airflow.watch.guard import Guard

_LATELY = timedelta(days=14)
"""Pipelines that stopped longer than this before the others have been given up before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A pipeline whose nights are expected.

    broken: what is wrong with its file. gone: why no pipeline has a file. In both cases the spec is the newest plan's.
    """

    spec: PipelineSpec
    folder: Path
    broken: str | None = None
    gone: str | None = None


def watched(store: Store) -> Iterator[Watched]:
    """Every pipeline; one whose file is broken by its newest plan, if it has one."""
    place = root()
    found, broken = folders.read(place)
    for one in found:
        yield Watched(spec=one.spec, folder=one.folder)
    if next(place.glob(f"*/{FILE}"), None) is None:
        yield from _of_no_folder(store, place)
        return
    for error in broken:
        folder = Path(error.problems[0].where.partition(FILE)[0])
        plan = None
        with Guard(f"cannot look for missing nights of {folder.name}"):
            plan = _newest_plan(store, _name(folder))
        if plan is not None:
            yield Watched(spec=plan.spec, folder=folder, broken=f"{error.problems[0]}")


def _of_no_folder(store: Store, place: Path) -> Iterator[Watched]:
    """The pipelines that ran lately, where none has a file, as when a disk is not mounted."""
    gone = f"{place} {'has no pipeline' if place.is_dir() else 'is not there'}, and Airflow has no DAG without"
    plans = [plan for name in pipelines_of(store) if (plan := _newest_plan(store, name)) is not None]
    last = max((plan.created for plan in plans), default=None)
    for plan in plans:
        if last is not None and plan.created > last - _LATELY:
            yield Watched(spec=plan.spec, folder=place / plan.spec.name, gone=gone)


def _name(folder: Path) -> str:
    """The pipeline's name by a file that may be broken: its key `name`, or its folder's name."""
    with suppress(OSError, UnicodeDecodeError):
        found = re.search(r"^name:[ \t]*[\"']?([\w-]+)", (folder / FILE).read_text(encoding="utf-8"), re.MULTILINE)
        if found is not None:
            return found[1]
    return folder.name


def _newest_plan(store: Store, pipeline: str) -> RunPlan | None:
    """The newest plan that can be read: whom to alert, and when nights are due, while there is no file that says so."""
    for day in reversed(days_of(store, pipeline)):
        for run_id in reversed(runs_of(store, pipeline, day)):
            with suppress(CorruptArtifact, OtherRelease):  # one before it says nearly the same
                if (plan := plan_of(store, pipeline, run_id)) is not None:
                    return plan
    return None
