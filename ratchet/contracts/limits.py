"""What a pipeline file may not ask for, and a document that is stored already may still hold."""

from collections.abc import Iterator

from ratchet.contracts.boosting import boosting_fits
from ratchet.contracts.gate import DECISIVE, METRICS, family
from ratchet.contracts.misfits import Misfit, Rule
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.quantities import show_duration, show_fraction
from ratchet.contracts.stages import BY_DAY

_DAY = 86_400
_MOST_STALE_LOSS = 0.1
_POWERS = "1, 2, 4, 8, 16, 32, 64"


def _metric_decides(spec: PipelineSpec) -> Iterator[Misfit]:
    metric, objective = spec.evaluate.metric, spec.train.objective
    if metric and family(metric) in METRICS[objective] and family(metric) not in DECISIVE[objective]:
        yield Misfit(
            ("evaluate", "metric"),
            f"{metric} compares scores of different groups, and a ranking learns the order within a group alone",
            ", ".join(DECISIVE[objective]),
            remedy="use one of these; or set train.objective: binary, whose scores are probabilities",
        )


def _ranks_fit(spec: PipelineSpec) -> Iterator[Misfit]:
    """A sum of halves of halves has the same bits on any number of processes that is a power of two."""
    for stage, resources in spec.resources.items():
        gpus, processes = getattr(resources, "gpus", 0), getattr(resources, "processes", 1)
        where = ("resources", stage)
        if stage != "train" and processes > 1:
            yield Misfit((*where, "processes"), f"{stage} runs in one process; only train has several", "1")
        elif stage == "train":
            for name, number in (("gpus", gpus), ("processes", processes)):
                if number & (number - 1):
                    yield Misfit((*where, name), f"{number} is not a power of two", _POWERS)
            if gpus and processes not in (1, gpus):
                yield Misfit((*where, "processes"), "a training on GPUs has one process for each GPU", f"1, {gpus}")


def _tasks_fit(spec: PipelineSpec) -> Iterator[Misfit]:
    for stage, resources in spec.resources.items():
        if getattr(resources, "tasks", 1) > 1 and stage not in BY_DAY:
            yield Misfit(("resources", stage, "tasks"), f"{stage} has no days to share", "1")
        elif getattr(resources, "tasks", 1) > 1 and stage == "ingest" and spec.joins:
            message = "with joins, ingest is one task: each day needs all days of the further sources"
            yield Misfit(("resources", stage, "tasks"), message, "1")


def _shards_fit(spec: PipelineSpec) -> Iterator[Misfit]:
    train = spec.resources.get("train")
    ranks = max(getattr(train, "gpus", 0), getattr(train, "processes", 1))
    shards, rows = spec.train.shards, spec.train.batch_size
    if shards != "auto" and shards < ranks:
        message = f"{ranks} processes cannot share {shards} shards"
        yield Misfit(("train", "shards"), message, f"auto, or {ranks} and more")
    needed = max(ranks, 1 if shards == "auto" else shards)
    if rows != "auto" and rows < needed:
        yield Misfit(
            ("train", "batch_size"),
            f"a step of {rows} rows has no row for some of {needed} shards",
            f"{needed} or more",
        )


def _tables_fit(spec: PipelineSpec) -> Iterator[Misfit]:
    if spec.train.tables == "sharded" and not any(one.role == "categorical" for one in spec.columns.values()):
        message = "sharded has no effect: no column has role categorical, so there is no table of vectors"
        yield Misfit(("train", "tables"), message, "whole")


def _stale_is_old(spec: PipelineSpec) -> Iterator[Misfit]:
    """A champion is stale after days, and against a stale one a candidate may not lose what it likes."""
    given, loss = spec.gate.stale_after, spec.gate.max_stale_loss
    if given is not None and given < _DAY:
        message = f"{show_duration(given)} is no age: with it, no candidate has to be better"
        yield Misfit(("gate", "stale_after"), message, "1d or more", "7d")
    if loss > _MOST_STALE_LOSS:
        message = f"{show_fraction(loss)} is no tie: production would get worse with each stale night"
        yield Misfit(("gate", "max_stale_loss"), message, f"0% to {show_fraction(_MOST_STALE_LOSS)}")


LIMITS: tuple[Rule, ...] = (
    _metric_decides,
    _ranks_fit,
    _tasks_fit,
    _shards_fit,
    _tables_fit,
    boosting_fits,
    _stale_is_old,
)
"""Rules for pipeline files alone."""
