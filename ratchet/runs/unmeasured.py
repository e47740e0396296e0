"""For how many nights the champion could not be measured, by the verdicts of earlier dates."""

from collections.abc import Iterator

from ratchet.contracts import summaries
from ratchet.contracts.champion import Champion
from ratchet.contracts.errors import CorruptArtifact, OtherRelease
from ratchet.contracts.judgements import UNMEASURABLE
from ratchet.contracts.request import RunPlan
from ratchet.contracts.summaries import Judgement
from ratchet.runs.history import days_of, runs_of
from ratchet.runs.outcomes import outcome_of_stage
from ratchet.store.base import Store

MOST = 100
"""Nights that are looked at: the number is for people, who need not know it beyond that."""


def unmeasured_nights(store: Store, plan: RunPlan, champion: Champion | None) -> int:
    """The dates before the run's, the newest first without a break, whose verdict says so of this champion.

    A date counts by its newest verdict; a date without one is passed over.
    """
    if champion is None:
        return 0
    found = 0
    for judged in _verdicts(store, plan):
        same = judged.baseline is not None and judged.baseline.digest == champion.digest
        if not same or judged.reason not in UNMEASURABLE:
            break
        found += 1
    return found


def _verdicts(store: Store, plan: RunPlan) -> Iterator[Judgement]:
    """The newest verdict that can be read of each date before a run's, the newest date first."""
    pipeline = plan.spec.name
    days = [day for day in days_of(store, pipeline) if day < plan.data_date]
    for day in reversed(days[-MOST:]):
        for run_id in reversed(runs_of(store, pipeline, day)):
            try:
                outcome = outcome_of_stage(store, pipeline, run_id, "evaluate")
                found = summaries.judgement(outcome.result) if outcome is not None and outcome.result else None
            except (CorruptArtifact, OtherRelease):  # no reason to end the nights after it
                continue
            if found is not None:
                yield found
                break
