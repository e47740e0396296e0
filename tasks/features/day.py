"""One day's rows as arrays and statistics. The result is cached by day, so it depends only on the inputs.

Memory holds a batch for each thread, and some columns of the day: 100 bytes for each of its rows, 170 with groups.
"""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from ratchet.contracts.category_statistics import statistics_of
from ratchet.contracts.columns import ColumnType, Statistic, Transform
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.summaries import Check
from ratchet.model.derivation import Derive
from ratchet.model.independence import Reads
from ratchet.model.list_columns import lists, vectors
from ratchet.model.rows import series
from tasks.features.array_file import ArrayFile, permute
from tasks.features.arrow_columns import CategoryIds
from tasks.features.batch_encoding import BatchEncoder, DaySums, EncodedBatch
from tasks.features.batches import ROWS, Batch, batches, incomplete, read_columns
from tasks.features.category_statistics import label_sums
from tasks.features.derived_rules import DerivedTally
from tasks.features.labels import group_codes, labels, weights
from tasks.features.quantiles import Summary, summarise
from tasks.features.statistics import Moments, add_counts, merge, moments

Array = NDArray[np.generic]
_NUMBERS, _IDS = "numeric.npy", "categorical.npy"


@dataclass(frozen=True, kw_only=True, eq=False)
class EncodedDay:
    """An encoded day.

    arrays: those of summaries.FeatureDay, `categories` of lists.count_all, `quantiles` of quantiles.summarise, and
    `label_sums` of category_statistics.label_sums where a column declares statistics. numeric: moments of each number
    that is standardised. checks: the rules that its derived columns break.
    """

    rows: int
    unlabelled: int
    arrays: dict[str, Array]
    numeric: tuple[Moments, ...]
    label: Moments
    checks: tuple[Check, ...] = ()


def numeric(spec: PipelineSpec) -> tuple[str, ...]:
    """The numeric columns, in the order of their array."""
    return tuple(name for name in spec.with_role("numeric") if not spec.columns[name].is_vector)


def categorical(spec: PipelineSpec) -> dict[str, ColumnType]:
    """The categorical columns, in the order of their array, with their types."""
    plain = (name for name in spec.with_role("categorical") if not spec.columns[name].is_list)
    return {name: spec.columns[name].type for name in plain}


def statistical(spec: PipelineSpec) -> tuple[tuple[int, Statistic], ...]:
    """The statistics of categories: of which column of the categorical array, and which one."""
    places = {name: place for place, name in enumerate(categorical(spec))}
    return tuple((places[name], statistic) for name, statistic in statistics_of(spec))


def reads(spec: PipelineSpec) -> Reads:
    """What the model reads, and what a value of it may depend on: its row, in a ranking its group."""
    return Reads(
        numeric=numeric(spec),
        categorical=categorical(spec),
        group=spec.group if spec.train.objective == "ranking" else None,
        vectors=vectors(spec),
        lists=lists(spec),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Outcomes:
    """What rows are given: which of all rows have a label, and of those the label, the weight and the group's rank."""

    labelled: NDArray[np.bool_]
    label: Array
    weight: Array | None
    codes: NDArray[np.int64] | None


def encode_day(
    path: Path, spec: PipelineSpec, derive: Derive, *, day: date, folder: Path, where: str = "", threads: int = 1
) -> EncodedDay:
    """Encode a day's Parquet file: drop rows without a label, and sort the others by group.

    derive gets neither label nor weight, because a served model has none. folder: for the files NAME.npy of the arrays;
    it has nothing else. where: of the rows, for messages, if not the day. threads: how many batches are encoded at
    once; the result does not depend on it. Raises DataRejected and ConfigurationError.
    """
    where = where or f"{day}"
    given = _outcomes(path, spec, where)
    order = None if given.codes is None else np.argsort(given.codes, kind="stable")
    arrays: dict[str, Array] = {"label": given.label if order is None else given.label[order]}
    if given.weight is not None:
        arrays["weight"] = given.weight if order is None else given.weight[order]
    if given.codes is not None:
        rows_of = np.bincount(given.codes)
        arrays["group"] = np.append(0, np.cumsum(rows_of[rows_of > 0])).astype(np.int64)
    label, weight = arrays["label"], arrays.get("weight")
    with ThreadPoolExecutor(threads) as pool:
        encoder = _encoder(path, spec, derive)
        sums, is_sorted = _write(encoder, path, given, folder, pool, threads)
        for name, column in sums.whole.items():
            column.refuse_blurred(name, where)
        transforms = [spec.columns[name].transform for name in numeric(spec)]
        files = [folder / _column(place) for place in range(len(transforms))]
        arrays["quantiles"] = np.concatenate([np.zeros((0, 3)), *pool.map(_summarise, files, count(), transforms)])
        if order is not None and not is_sorted:
            [*pool.map(partial(permute, order=order), (folder / _NUMBERS, folder / _IDS))]
    numbers, ids = (np.load(folder / name, mmap_mode="r", allow_pickle=False) for name in (_NUMBERS, _IDS))
    arrays["categories"] = counts = add_counts(sums.counts)
    if declared := statistical(spec):
        columns = sorted({place for place, _ in declared})
        arrays["label_sums"] = label_sums(ids, label, weight, columns, counts, rows_at_once=ROWS)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", np.ascontiguousarray(array), allow_pickle=False)
    return EncodedDay(
        rows=len(label),
        unlabelled=len(given.labelled) - len(label),
        arrays={**arrays, "numeric": numbers, "categorical": ids},
        numeric=tuple(merge(part[place] for part in sums.moments) for place in range(len(encoder.transforms))),
        label=_moments(label, weight),
        checks=sums.derived.failed(day),
    )


def _moments(label: Array, weight: Array | None) -> Moments:
    parts = [slice(begin, begin + ROWS) for begin in range(0, len(label), ROWS)]
    return merge(
        moments(label[part].astype(np.float64), weight=None if weight is None else weight[part].astype(np.float64))
        for part in parts
    )


def _column(place: int) -> str:
    """The file of the numbers of one column, in any order."""
    return f"{place}.column"


def _summarise(file: Path, place: int, transform: Transform | None) -> Summary:
    values = np.fromfile(file, np.float64)
    file.unlink()
    return summarise(values, place, transform)


def _outcomes(path: Path, spec: PipelineSpec, where: str) -> _Outcomes:
    of_weight = spec.with_role("weight")
    group = () if spec.group is None else (spec.group,)
    table = read_columns(path, [spec.label, *of_weight, *group])
    labelled = series(table.column(spec.label), spec.columns[spec.label], missing=True).notna().to_numpy()
    if not labelled.all():
        table = table.filter(labelled)
    columns = {
        name: series(table.column(name), spec.columns[name], missing=table.column(name).null_count > 0).rename(name)
        for name in (spec.label, *of_weight)
    }
    return _Outcomes(
        labelled=labelled,
        label=labels(columns[spec.label], spec, where),
        weight=weights(columns[of_weight[0]], where) if of_weight else None,
        codes=group_codes(table.column(group[0]), group[0], where, alone=spec.train.objective != "ranking")
        if group
        else None,
    )


def _encoder(path: Path, spec: PipelineSpec, derive: Derive) -> BatchEncoder:
    transforms = [spec.columns[name].transform for name in numeric(spec)]
    return BatchEncoder(
        spec=spec,
        reads=reads(spec),
        derive=derive,
        missing=incomplete(path, spec.columns),
        categories={name: CategoryIds(kind) for name, kind in categorical(spec).items()},
        transforms=[*transforms, *(None for one in vectors(spec) for _ in range(one.dimension))],
    )


def _write(
    encoder: BatchEncoder, path: Path, given: _Outcomes, folder: Path, pool: ThreadPoolExecutor, threads: int
) -> tuple[DaySums, bool]:
    """Write the arrays of numbers and of ids, and the columns of numbers. Returns also whether the rows are sorted."""
    spec, reads_ = encoder.spec, encoder.reads
    hidden = {spec.label, *spec.with_role("weight")}
    names = [name for name in spec.source_columns if name not in hidden]
    sums, is_sorted = DaySums(derived=DerivedTally(spec)), True
    rows, (numbers, ids) = len(given.label), reads_.widths
    with ExitStack() as files:
        dealt = None
        if encoder.needs_groups:
            dealt = Path(files.enter_context(TemporaryDirectory(prefix="dealt-", dir=folder)))
        found = batches(
            path, names, given.labelled, given.codes, as_dictionary=encoder.as_dictionary, whole_groups=dealt
        )
        of_numbers = files.enter_context(ArrayFile(folder / _NUMBERS, rows, numbers, np.float32))
        of_ids = files.enter_context(ArrayFile(folder / _IDS, rows, ids, np.int64))
        columns = [files.enter_context((folder / _column(at)).open("wb")) for at in range(len(reads_.numeric))]
        for one in _encoded(encoder, found, pool, threads):
            of_numbers.add(one.numbers)
            of_ids.add(one.ids)
            for place, file in enumerate(columns):
                file.write(np.ascontiguousarray(one.numbers[:, place]).data)
            sums.add(one.sums)
            is_sorted &= one.is_sorted
    return sums, is_sorted


def _encoded(
    encoder: BatchEncoder, found: Iterator[Batch], pool: ThreadPoolExecutor, threads: int
) -> Iterator[EncodedBatch]:
    """Encode batches ahead, as many as there are threads; they come in order."""
    waiting = deque[Future[EncodedBatch]]()
    try:
        for number, batch in enumerate(found):
            waiting.append(pool.submit(encoder.encode, batch, first=not number))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
