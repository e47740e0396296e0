"""Rows as an earlier run saw them: whether they are there, and that they stay for a run that takes them.

`ratchet gc` deletes rows that newer ones have replaced, unless the plan of a run that it keeps names them. It cannot
see a plan that is written after its look. So a plan that takes rows of then is written while no collection of its
pipeline runs, and only if they are there.

A change here violates the promise of the project when a plan names rows that a collection may delete before the run.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

from ratchet.contracts.errors import Unavailable
from ratchet.contracts.request import RunPlan
from ratchet.contracts.snapshot import SnapshotDay
from ratchet.runs.standstill import only_removal
from ratchet.runtime.held_days import table_of
from ratchet.store.base import Store
from ratchet.store.removals import expired, in_its_place, removals, successors

_WAIT_S = 60.0
"""Longer than most collections of a pipeline take."""
_REMEDY = "run again if no retry follows"


def are_there(store: Store, pipeline: str, table: str, days: Iterable[SnapshotDay]) -> bool:
    """Whether the rows of days are in their table, or what a purge left of them. Ingest reports expired ones."""
    removed = removals(store, pipeline)
    known, gone = successors(removed), expired(removed)
    stored = {entry.key for entry in store.list(table)}
    return all(in_its_place(day, known).file.key in stored or day.day in gone for day in days)


@contextmanager
def past_rows_stay(store: Store, plan: RunPlan) -> Iterator[None]:
    """Within it a plan is written: of what it takes as it was, nothing goes then, or afterwards.

    Raises Unavailable if a collection or a removal goes on for longer, and if rows went before: planned again, the run
    takes what there is.
    """
    if plan.as_of == "now":
        yield
        return
    pipeline, held = plan.spec.name, [day.held for day in plan.source if day.held is not None]
    with ExitStack() as stack:
        try:
            stack.enter_context(only_removal(store, pipeline, f"the plan of run {plan.run_id}", wait_s=_WAIT_S))
        except Unavailable as error:
            raise Unavailable(f"{error.cause}, and this run takes rows as they were", remedy=_REMEDY) from error
        if not are_there(store, pipeline, table_of(plan.spec), held):
            raise Unavailable(
                f"{pipeline}: rows that the first run of {plan.data_date} saw were deleted while this run was planned",
                remedy=_REMEDY,
            )
        yield
