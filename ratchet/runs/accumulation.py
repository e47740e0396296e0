"""How many micro-batches a training step uses. After an out-of-memory failure the number is doubled and remembered.

A change here violates the promise of the project when a training that fits is split without need, or one that ran out
of memory is tried again as it was.
"""

from collections.abc import Mapping

from ratchet.contracts import paths, summaries
from ratchet.contracts.accumulation import Accumulation
from ratchet.contracts.computing import fewest
from ratchet.contracts.errors import ConfigurationError, CorruptArtifact, OutOfMemory, RatchetError
from ratchet.contracts.fingerprint import digest_of, fingerprint
from ratchet.contracts.request import Outcome, RunPlan
from ratchet.contracts.stages import Stage
from ratchet.contracts.step_rows import MAX_ACCUMULATION, step_rows
from ratchet.contracts.summaries import TrainedModel
from ratchet.store.base import Store
from ratchet.store.documents import read_document


def accumulation(store: Store, plan: RunPlan, stage: Stage, parts: Mapping[str, str]) -> int:
    """How many micro-batches a step of the training with these parts of a fingerprint uses. stage: one of TRAININGS.

    The remembered number; fewer, if a training with fewer is published: then there is nothing to compute.
    """
    remembered, fewer = _read(store, plan)[0].accumulation, fewest(plan.spec.train)
    while fewer < remembered:
        prefix = paths.published(plan.spec.name, stage, fingerprint({**parts, **accumulation_parts(fewer)}))
        if store.head(paths.manifest(prefix)) is not None:
            return fewer
        fewer *= 2
    return remembered


def accumulation_parts(value: int) -> dict[str, str]:
    """What it adds to a fingerprint: a sum in another order has other bits."""
    return {"accumulation": str(value)} if value > 1 else {}


def remember_out_of_memory(store: Store, plan: RunPlan, error: OutOfMemory, *, used: int) -> RatchetError:
    """The error of a training that ran out of memory, with what the next try does about it.

    used: the micro-batches of the failed try. ConfigurationError where a micro-batch cannot be smaller.
    """
    doubled = double_micro_batches(store, plan, used=used)
    if doubled is None:
        hopeless = ConfigurationError(
            f"{error.cause}, and its micro-batches cannot be smaller", remedy="raise resources.train.memory"
        )
        hopeless.last_lines, hopeless.log = error.last_lines, error.log
        return hopeless
    error.remedy = (
        f"try again: the next try and later runs compute a step in {doubled} micro-batches; "
        "raise resources.train.memory to compute it in fewer"
    )
    return error


def measured_on(store: Store, plan: RunPlan) -> str:
    """The machine that the remembered number was measured on; empty if it was not."""
    return _read(store, plan)[0].machine


def remember_chosen(store: Store, plan: RunPlan, trained: TrainedModel, *, used: int) -> None:
    """Remember the micro-batches of a training that measured them, or halved them by itself.

    used: those that it began with.
    """
    if trained.measurement is not None:
        record = Accumulation(
            accumulation=trained.accumulation, run_id=plan.run_id, machine=trained.measurement.machine
        )
        while not store.replace(
            _key(plan), record.model_dump_json(by_alias=True).encode(), expected=_read(store, plan)[1]
        ):
            pass  # another run was faster
        return
    while used < trained.accumulation:
        doubled = double_micro_batches(store, plan, used=used)
        if doubled is None:
            return
        used = doubled


def double_micro_batches(store: Store, plan: RunPlan, *, used: int | None = None) -> int | None:
    """Remember twice the micro-batches for the next training, and return that number.

    used: the micro-batches of the failed try; without it, the remembered number. If another run has remembered more
    meanwhile, that number is returned. None: a micro-batch cannot be smaller, and nothing is changed.
    """
    key = _key(plan)
    while True:
        record, etag = _read(store, plan)
        held = record.accumulation
        if used is not None and held > used:
            return held
        doubled = 2 * (used or held)
        if doubled > min(MAX_ACCUMULATION, _most(store, plan)):
            return None
        record = Accumulation(accumulation=doubled, run_id=plan.run_id)  # not measured any more
        if store.replace(key, record.model_dump_json(by_alias=True).encode(), expected=etag):
            return doubled
        used = used or held  # another run was faster; it ran out of memory with the same


def _read(store: Store, plan: RunPlan) -> tuple[Accumulation, str | None]:
    """(the record, its etag); the number of the pipeline if there is none.

    A record that cannot be read counts for nothing and is replaced.
    """
    key, begin = _key(plan), Accumulation(accumulation=fewest(plan.spec.train), run_id=plan.run_id)
    entry = store.head(key)
    if entry is None:
        return begin, None
    try:
        return read_document(store, key, Accumulation), entry.etag
    except (FileNotFoundError, CorruptArtifact):
        return begin, entry.etag


def _key(plan: RunPlan) -> str:
    """The record's key: a digest of what the memory of a training depends on, so that other settings begin afresh."""
    spec = plan.spec
    limits = spec.resources["train"]
    needs = {
        "memory": limits.memory,
        "gpus": limits.gpus,
        "batch_size": spec.train.batch_size,
        "accumulation": spec.train.accumulation,
        "precision": spec.train.precision,
        "recompute": spec.train.recompute,
        "ema": spec.train.ema,
        "optimizer": spec.train.optimizer,
        "objective": spec.train.objective,
        "model": spec.train.model.model_dump(mode="json"),
        "code": plan.user_files.get("model.py"),
        "columns": {name: column.model_dump(mode="json") for name, column in spec.columns.items()},
        "window_days": spec.source.window_days,
    }
    return paths.accumulation(spec.name, digest_of(needs))


def _most(store: Store, plan: RunPlan) -> int:
    """The most micro-batches of a step: each has at least one row, and for a ranking one group. Trees have none."""
    if plan.spec.train.model.is_boosted:
        return 1
    try:
        outcome = read_document(store, paths.outcome(plan.spec.name, plan.run_id, "features"), Outcome)
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
