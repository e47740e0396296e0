"""quality: the metric of our defaults against that of LightGBM's defaults, on days that neither has seen.

LightGBM gets the rows of the validation days too, as it needs none. Both run on one thread. No setting differs between
sets, and no set is in the suite. Beside them: other kinds, a constant, and the mean label of the best column.
"""

import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cache
from pathlib import Path

import lightgbm
import numpy as np
import torch

from benchmarks import tasksets
from benchmarks.measure import Result
from benchmarks.nowhere import Nowhere
from benchmarks.peers import boost, column_mean, constant
from benchmarks.tasksets import TaskSet
from ratchet.contracts.gate import lower_is_better
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.step_rows import auto_batch_size
from ratchet.contracts.summaries import FeatureSet, Split
from ratchet.model.description import Description
from ratchet.model.fitted_state import Replaced
from ratchet.model.made_columns import MadeDerive
from ratchet.model.networks import Network, finish
from tasks.features.category_statistics import Source
from tasks.features.day import EncodedDay, categorical, encode_day, numeric, reads, statistical
from tasks.features.fitting import fit as fit_days
from tasks.features.statistics import merge
from tasks.train.building import describe, fit
from tasks.train.checkpoint import Checkpointer
from tasks.train.custom_code import load_loss
from tasks.train.data import Rows
from tasks.train.days import NOTHING, rows_of, statistics_of_day
from tasks.train.hooks import Hooks
from tasks.train.joining import join, shuffled
from tasks.train.loop import Loop
from tasks.train.settings import Settings
from tasks.train.startup import prepare
from tasks.train.warm_start import shorten, warm_start

_FIRST = date(2026, 3, 1)
_QUICK = ("friedman1", "payments", "relative", "flights 06-12")
_SEEDS = 5
_OF_ROWS = ("numeric", "categorical", "label", "weight", "group")
_ALLOWED = {"ranking": 1.0, "binary": 0.99, "regression": 1.05}
"""Of our metric / LightGBM's: at least, at least, at most."""
_FRIEDMAN = 1.07
"""The RMSE on friedman1, whose noise is 1, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """A metric on the days that were held out, how long it took to train, and the model.

    began: the metric before the first step. epochs: passes over the rows.
    """

    value: float
    seconds: float
    began: float
    steps: int
    epochs: float
    description: Description = field(repr=False)
    network: Network = field(repr=False)


def run(*, full: bool) -> Result:
    """All sets with five seeds for --full, else four sets with one."""
    names = tasksets.names() if full else tuple(name for name in _QUICK if name in tasksets.names())
    slowest, friedman = 0.0, 0.0
    missed: dict[str, float] = {}
    ratios: dict[str, list[float]] = {}
    for name in names:
        task = tasksets.task_set(name)
        ours = [train(task, seed=seed) for seed in range(_SEEDS if full else 1)]
        value, seconds = statistics.fmean(one.value for one in ours), max(one.seconds for one in ours)
        boosted = boost(task)
        others = {kind: train(task, seed=0, kind=kind).value for kind in _kinds(task, full=full)}
        slowest, friedman = max(slowest, seconds), value if name == "friedman1" else friedman
        ratios.setdefault(name.split()[0], []).append(value / boosted)
        print(
            f"{name}: {task.metric} {value:.4f} in {seconds:.0f} s; LightGBM {boosted:.4f}: {value / boosted:.4f};"
            f" {', '.join(f'{kind} {found:.4f}' for kind, found in others.items())},"
            f" constant {constant(task):.4f}, mean of a column {column_mean(task):.4f}",
            flush=True,
        )
    for name, found in ratios.items():
        task = tasksets.task_set(next(each for each in names if each.split()[0] == name))
        ratio, allowed = statistics.fmean(found), _ALLOWED[task.objective]
        missed[name] = ratio / allowed if task.objective == "regression" else allowed / ratio
    if friedman:
        missed["friedman1, absolute"] = friedman / _FRIEDMAN
    worst = max(missed, key=lambda name: missed[name])
    return Result(
        name="quality",
        ratio=missed[worst],
        goal=1.0,
        unit="of what is allowed",
        ours=missed[worst],
        peer=1.0,
        peer_name=f"LightGBM {lightgbm.__version__}, defaults; worst set: {worst}",
        rows=(
            ("sets; seeds", f"{len(names)}; {_SEEDS if full else 1}"),
            ("slowest training, one thread", f"{slowest:.0f} s"),
            *((name, f"{share:.4f} of what is allowed") for name, share in missed.items()),
        ),
    )


def _kinds(task: TaskSet, *, full: bool) -> tuple[str, ...]:
    """The kinds beside the default, with one seed. A step of tabm takes about thirty times as long."""
    of_groups = ("set",) if task.group else ()
    return ("mlp", "linear", *of_groups, *(("tabm",) if full else ()))


def train(
    task: TaskSet, *, seed: int, kind: str | None = None, days: slice | None = None, parent: Trained | None = None
) -> Trained:
    """Train by the defaults on all but the tested days, the newest of them for early stopping.

    days: to train on instead; the day after them is then tested. parent: whose weights it begins with; its epochs are
    those of the last training without a parent.
    """
    model = {} if kind is None else {"kind": kind}
    spec = _spec(task, {"model": model, "seed": seed})
    encoded = _encoded(task.name)
    end = len(encoded) - task.tested if days is None else days.stop
    chosen, held = encoded[days or slice(end)], encoded[end : None if days is None else end + 1]
    prepare(seed=seed, cpus=1, gpus=0)
    begin = time.perf_counter()
    valid = spec.train.valid_days
    network, description, of_days = _network(spec, chosen, valid)
    loss, mass = load_loss(task.objective, spec.train.model.kind, Path())
    if parent is not None:
        warm_start(network, description, parent.network.state_dict(), parent.description)
    both = _join([chosen[:-valid], chosen[-valid:]], network, seed, of_days)
    first, rest = both.split(sum(day.rows for day in chosen[:-valid]))
    network.preprocess.flagged.copy_(first.numeric.isnan().any(0))
    settings = _settings(spec, task, len(first))
    if parent is not None:
        settings = shorten(settings, epochs=parent.epochs, rows=len(both))
    tested = _join([held], network, seed)
    began = _score(task, network, tested)
    result = Loop(
        network,
        settings,
        train=first,
        valid=rest,
        both=both,
        loss=loss,
        mass=mass,
        checkpointer=Checkpointer(Nowhere(), keep=1, warn=print),
        hooks=Hooks(
            progress=lambda *_: None,
            warn=print,
            begun=lambda *_: None,
            stopping=lambda: False,
            metric=lambda rows, scores: metric(task, rows, scores),
            finish=lambda raw: finish(network, task.objective, raw),
        ),
    ).run()
    seconds = time.perf_counter() - begin
    recipe = result.recipe
    return Trained(
        value=_score(task, network, tested),
        seconds=seconds,
        began=began,
        steps=result.history[-1].step,
        epochs=recipe.level + recipe.fall if parent is None else parent.epochs,
        description=description,
        network=network,
    )


def _score(task: TaskSet, network: Network, tested: Rows) -> float:
    with torch.inference_mode():
        raw = network.eval().scores(tested.numeric, tested.places, tested.sizes)
        scores = finish(network, task.objective, raw)
    value = metric(task, tested, scores)
    if value is None:
        raise ValueError(f"{task.name}: {task.metric} has no value")
    return value


def _spec(task: TaskSet, changed: dict[str, object]) -> PipelineSpec:
    return PipelineSpec.model_validate(
        {
            "name": task.name.replace(" ", "-"),
            "source": {"kind": "files", "uri": "rows/{date}.parquet", "window_days": len(task.days)},
            "columns": task.columns,
            "train": {"objective": task.objective, **changed},
            "evaluate": {"metric": task.metric},
        }
    )


@cache
def _encoded(name: str) -> tuple[EncodedDay, ...]:
    task = tasksets.task_set(name)
    spec, found = _spec(task, {}), []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "day.parquet"
        for number, day in enumerate(task.days):
            day.to_parquet(path)
            (arrays := Path(folder) / str(number)).mkdir()
            given = _FIRST + timedelta(days=number)
            found.append(encode_day(path, spec, MadeDerive(()), day=given, folder=arrays))
    return tuple(found)


def _network(
    spec: PipelineSpec, days: Sequence[EncodedDay], valid: int
) -> tuple[Network, Description, Mapping[date, Replaced]]:
    """The network before its first step, and the statistics of categories for the rows of each day."""
    dates = [_FIRST + timedelta(days=number) for number in range(len(days))]
    counts, wanted = [day.arrays["categories"].astype(np.int64) for day in days], statistical(spec)
    fitted = fit_days(
        [merge(column) for column in zip(*(day.numeric for day in days), strict=True)],
        counts,
        [day.arrays["quantiles"].astype(np.float64) for day in days],
        merge(day.label for day in days),
        columns=reads(spec),
        min_count=spec.train.model.min_count,
        statistics=Source(
            wanted=wanted,
            days=dates,
            counts=counts,
            sums=[day.arrays["label_sums"].astype(np.float64) for day in days],
            learnt=dates[:-valid],
            label=merge(day.label for day in days[:-valid]),
        )
        if wanted
        else None,
    )
    features = FeatureSet(
        numeric=numeric(spec),
        categorical=tuple(categorical(spec)),
        days=(),
        split=Split(train=(), valid=(), holdout=()),
    )
    with tempfile.TemporaryDirectory() as empty:
        description = describe(spec, Path(empty), features, fitted)
    return fit(Network(description), fitted), description, fitted.of_days


def _join(
    parts: Sequence[Sequence[EncodedDay]], network: Network, seed: int, of_days: Mapping[date, Replaced] = NOTHING
) -> Rows:
    places, begin = [], 0
    for part in parts:
        count = sum(day.rows for day in part)
        sizes = [np.diff(day.arrays["group"].astype(np.int64)) for day in part if "group" in day.arrays]
        places.append(shuffled(count, np.concatenate(sizes) if sizes else None, seed) + begin)
        begin += count
    days = [day for part in parts for day in part]
    arrays = [{name: day.arrays[name] for name in _OF_ROWS if name in day.arrays} for day in days]
    tables = [statistics_of_day(network, of_days.get(_FIRST + timedelta(days=number))) for number in range(len(days))]
    blocks = (rows_of(each, network, table) for each, table in zip(arrays, tables, strict=True))
    return join(blocks, np.concatenate(places))


def _settings(spec: PipelineSpec, task: TaskSet, rows: int) -> Settings:
    given = spec.train
    learning_rate, weight_decay = given.rates
    return Settings(
        objective=given.objective,
        steps=given.steps,
        epochs=given.epochs,
        evaluations=given.evaluations,
        batch_size=auto_batch_size(rows),
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        seed=given.seed,
        patience=given.patience,
        checkpoint_every_s=1e9,
        lower_is_better=lower_is_better(task.metric),
    )


def metric(task: TaskSet, rows: Rows, scores: torch.Tensor) -> float | None:
    """The set's metric of final scores; None where it has no value."""
    offsets = None if rows.sizes is None else np.append(0, np.cumsum(rows.sizes.numpy()))
    return task.measure(rows.label.double().numpy(), offsets, scores.double().numpy())
