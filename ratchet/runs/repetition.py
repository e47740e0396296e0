"""The attempts at held-out days, counted in the store over all runs of a model.

An attempt is a candidate and the metric that decides. It is counted when the orchestrator is about to evaluate it, so a
crash before the verdict counts as well; the same candidate keeps its number, so a rerun finds the result in the cache.
All runs count, also backfills and runs that may not promote: their verdict is seen, and the same candidate could be run
again to be promoted.

A change here violates the promise of the project when: two candidates can have the same number; a candidate's number
can change; or a verdict can be seen that was not counted.
"""

from datetime import date

from ratchet.contracts import paths
from ratchet.contracts.fingerprint import digest_of
from ratchet.contracts.repetition import HoldoutAttempt, Repetition, numbers
from ratchet.contracts.request import RunPlan
from ratchet.contracts.summaries import TrainedModel
from ratchet.store.base import Store
from ratchet.store.sealed import seal, unseal


def count_attempt(store: Store, plan: RunPlan, trained: TrainedModel) -> None:
    """Count the attempt of a candidate at each of its held-out days, once."""
    ours = _attempt(plan, trained)
    for day in trained.split.holdout:
        known = _attempts(store, plan, day)
        while not any(_same(one, ours) for one in known):
            key = paths.holdout_attempt(plan.spec.model_name, day, len(known) + 1)
            if store.create(key, seal(ours)):
                break
            known = _attempts(store, plan, day)  # another run was first: it has that number


def repetition(store: Store, plan: RunPlan, trained: TrainedModel) -> Repetition:
    """Which attempt a candidate is, or would be if it is not counted yet: the latest that it is at any of its days.

    A run that may not promote is judged as a first attempt: it spends nothing until the same candidate may be promoted,
    and then it has the number that was counted here.
    """
    ours = _attempt(plan, trained)
    found = [1]
    for day in trained.split.holdout if plan.promotion.mode != "never" else ():
        known = _attempts(store, plan, day)
        place = next((index for index, one in enumerate(known) if _same(one, ours)), len(known))
        found.append(numbers([*known[:place], ours])[-1])
    return Repetition(number=max(found), nights=ours.nights)


def _attempt(plan: RunPlan, trained: TrainedModel) -> HoldoutAttempt:
    return HoldoutAttempt(
        candidate=trained.digest,
        metric=_metric(plan),
        data_date=plan.data_date,
        nights=max(1, len(trained.split.holdout)),
        run_id=plan.run_id,
    )


def _metric(plan: RunPlan) -> str:
    """The metric that decides; one of the pipeline's own with the code that makes it: other code is another attempt."""
    name = plan.spec.metric
    return f"{name} {paths.short(digest_of(plan.user_files))}" if name in plan.spec.own_metrics else name


def _same(one: HoldoutAttempt, other: HoldoutAttempt) -> bool:
    return (one.candidate, one.metric) == (other.candidate, other.metric)


def _attempts(store: Store, plan: RunPlan, day: date) -> list[HoldoutAttempt]:
    """The attempts at a day, in their order."""
    found = []
    for entry in store.list(paths.holdout_attempts(plan.spec.model_name, day)):
        remedy = f"restore {entry.key} from a backup; until then no run evaluates a candidate on {day}"
        found.append(unseal(store.read(entry.key), HoldoutAttempt, where=f"{store.uri}/{entry.key}", remedy=remedy))
    return found
