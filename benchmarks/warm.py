"""warm: the optimizer steps of a training that begins with the champion, against those of a fresh one.

A chain of nights: the window moves on by a day, and each night begins with the model of the night before. Beside it, a
fresh training each night, on the same days. All steps of a training count, though a warm start has the champion's
metric before its first one. A set whose warm starts do not reach the champion's metric in the end has the ratio 1.
"""

import statistics
from dataclasses import dataclass

from benchmarks import tasksets
from benchmarks.measure import Result
from benchmarks.quality import train
from benchmarks.tasksets import TaskSet
from ratchet.contracts.gate import lower_is_better

_QUICK = ("friedman1", "ctr")
_FULL = ("friedman1", "ctr", "payments", "flights 06-12")
_NIGHTS, _SEEDS = 4, 2
_NEAR = 0.001
"""A metric counts as reached within a tenth of a per cent: the mean of four days is not known any better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Of one set, sums of steps and means of metrics over its nights. champion: of the models that it began with."""

    warm_steps: int
    fresh_steps: int
    warm: float
    fresh: float
    champion: float


def run(*, full: bool) -> Result:
    """Four sets with two seeds for --full, else two sets with one."""
    sets, chains = [name for name in (_FULL if full else _QUICK) if name in tasksets.names()], {}
    for name in sets:
        task = tasksets.task_set(name)
        chains[name] = one = _mean([_chain(task, seed) for seed in range(_SEEDS if full else 1)])
        print(
            f"{name}: {one.warm_steps:,} of {one.fresh_steps:,} steps; {task.metric} {one.warm:.4f}, fresh"
            f" {one.fresh:.4f}, champion {one.champion:.4f}",
            flush=True,
        )
    ratios = {name: _ratio(tasksets.task_set(name), one) for name, one in chains.items()}
    worst = max(ratios, key=lambda name: ratios[name])
    return Result(
        name="warm",
        ratio=ratios[worst],
        goal=0.3,
        unit="of the steps",
        ours=chains[worst].warm_steps,
        peer=chains[worst].fresh_steps,
        peer_name=f"steps of fresh trainings; worst set: {worst}",
        rows=tuple(
            (name, f"{ratios[name]:.3f} of the steps; metric / that of a fresh start {one.warm / one.fresh:.4f}")
            for name, one in chains.items()
        ),
    )


def _chain(task: TaskSet, seed: int) -> Chain:
    window = len(task.days) - _NIGHTS - 1
    parent = train(task, seed=seed, days=slice(0, window))
    warm, fresh = [], []
    for night in range(1, _NIGHTS + 1):
        days = slice(night, night + window)
        fresh.append(train(task, seed=seed, days=days))
        warm.append(parent := train(task, seed=seed, days=days, parent=parent))
    return Chain(
        warm_steps=sum(one.steps for one in warm),
        fresh_steps=sum(one.steps for one in fresh),
        warm=statistics.fmean(one.value for one in warm),
        fresh=statistics.fmean(one.value for one in fresh),
        champion=statistics.fmean(one.began for one in warm),
    )


def _mean(chains: list[Chain]) -> Chain:
    return Chain(
        warm_steps=sum(one.warm_steps for one in chains),
        fresh_steps=sum(one.fresh_steps for one in chains),
        warm=statistics.fmean(one.warm for one in chains),
        fresh=statistics.fmean(one.fresh for one in chains),
        champion=statistics.fmean(one.champion for one in chains),
    )


def _ratio(task: TaskSet, one: Chain) -> float:
    behind = (one.warm - one.champion if lower_is_better(task.metric) else one.champion - one.warm) / one.champion
    return one.warm_steps / one.fresh_steps if behind <= _NEAR else 1.0
