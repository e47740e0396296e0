"""One stage of a run, from the cache to its outcome on record. Every orchestrator goes through here."""

import time
from collections.abc import Callable

from ratchet.contracts.errors import RatchetError
from ratchet.contracts.request import Outcome
from ratchet.runs.attempt import Attempt
from ratchet.runs.outcomes import record
from ratchet.store.opening import open_store


def execute(attempt: Attempt) -> Outcome:
    """Bring a stage to its end: skipped, found in the cache, or run.

    Raises a RatchetError whose class, code, cause and remedy say why the stage failed; the outcome is on record either
    way.
    """
    return recorded(attempt, lambda: attempt.ready() or attempt.begin() or attempt.follow())


def recorded(attempt: Attempt, work: Callable[[], Outcome]) -> Outcome:
    """Do some work that ends with an attempt's outcome, and put that on record, unless it was taken over meanwhile."""
    store, started = open_store(attempt.plan.store), time.monotonic()
    try:
        outcome = work()
    except RatchetError as error:
        seconds = time.monotonic() - started
        failed = Outcome(
            stage=attempt.stage,
            state="failed",
            seconds=seconds,
            because=error.cause,
            last_lines=attempt.last_lines,
        )
        if not attempt.lost:
            record(store, attempt.plan, failed)
        raise
    seconds = round(time.monotonic() - started, 3)
    outcome = outcome.model_copy(update={"seconds": seconds, "last_lines": attempt.last_lines})
    if not attempt.lost:
        record(store, attempt.plan, outcome)
    return outcome
