"""In how many micro-batches a training computes its steps: what ran out of memory is remembered for the nights after.

A change here violates the promise of the project when a training that fits is split without need, or one that ran out
of memory is tried again as it was.
"""

from collections.abc import Mapping

from pydantic import ValidationError

from ratchet.contracts import paths, summaries
from ratchet.contracts.fingerprint import digest_of, fingerprint
from ratchet.contracts.request import Outcome, RunPlan
from ratchet.contracts.step_rows import step_rows
from ratchet.contracts.summaries import MAX_ACCUMULATION, Accumulation
from ratchet.store.base import Store


def accumulation(store: Store, plan: RunPlan, parts: Mapping[str, str]) -> int:
    """In how many micro-batches the training with these parts of a fingerprint is to be computed.

    What is remembered; fewer, if the result of a training with fewer stands: then there is nothing to compute.
    """
    wanted = _remembered(store, plan)[0]
    fewer = 1
    while fewer < wanted:
        prefix = paths.published(plan.spec.name, "train", fingerprint({**parts, **accumulation_parts(fewer)}))
        if store.head(paths.manifest(prefix)) is not None:
            return fewer
        fewer *= 2
    return wanted


def accumulation_parts(value: int) -> dict[str, str]:
    """What it adds to a fingerprint: sums that are added up otherwise are other bits."""
    return {"accumulation": str(value)} if value > 1 else {}


def halve(store: Store, plan: RunPlan, *, used: int | None = None) -> int | None:
    """After a training that ran out of memory: remember twice the micro-batches, and return how many that is.

    used: how many the failed try had (its request says); without it, those that are remembered. Where another run has
    remembered more in the meantime, theirs are returned. None: a micro-batch cannot be smaller, and nothing is changed.
    """
    key = _key(plan)
    while True:
        held, etag = _remembered(store, plan)
        if used is not None and held > used:
            return held
        doubled = 2 * (used or held)
        if doubled > min(MAX_ACCUMULATION, _most(store, plan)):
            return None
        record = Accumulation(accumulation=doubled, run_id=plan.run_id)
        if store.replace(key, record.model_dump_json(by_alias=True).encode(), expected=etag):
            return doubled
        used = used or held  # another run was faster; it ran out of memory with the same


def _remembered(store: Store, plan: RunPlan) -> tuple[int, str | None]:
    """(micro-batches, etag of the record). A record that cannot be read counts for nothing and is written anew."""
    key = _key(plan)
    entry = store.head(key)
    if entry is None:
        return 1, None
    try:
        return Accumulation.model_validate_json(store.read(key)).accumulation, entry.etag
    except (FileNotFoundError, ValidationError):
        return 1, entry.etag


def _key(plan: RunPlan) -> str:
    """By what the memory of a training depends on, so that other settings begin anew."""
    spec = plan.spec
    limits = spec.resources["train"]
    needs = {
        "memory": limits.memory,
        "gpus": limits.gpus,
        "batch_size": spec.train.batch_size,
        "objective": spec.train.objective,
        "model": spec.train.model.model_dump(mode="json"),
        "code": plan.user_files.get("model.py"),
        "columns": {name: column.model_dump(mode="json") for name, column in spec.columns.items()},
        "window_days": spec.source.window_days,
    }
    return paths.accumulation(spec.name, digest_of(needs))


def _most(store: Store, plan: RunPlan) -> int:
    """Micro-batches of a step in which each has a row at least; a group, for a ranking."""
    try:
        outcome = Outcome.model_validate_json(store.read(paths.outcome(plan.spec.name, plan.run_id, "features")))
    except FileNotFoundError:
        return MAX_ACCUMULATION
    if outcome.result is None:
        return MAX_ACCUMULATION
    features = summaries.features(outcome.result)
    days = features.of(features.split.train)
    rows = sum(day.rows for day in days)
    step = step_rows(plan.spec.train.batch_size, rows)
    if plan.spec.train.objective != "ranking":
        return step
    groups = sum((day.arrays["group"].rows or 1) - 1 for day in days)  # of n groups there are n + 1 offsets
    return max(1, step * groups // max(rows, 1))
