"""The joins of a day: its batches with the columns of further sources beside their own.

A change here violates the promise of the project when another column, or the order of the rows, is not what it would be
without joins.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ratchet.contracts.errors import ConfigurationError, DataRejected
from ratchet.contracts.further_source import days_looked_at, further, join_identity, time_column
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.quantities import percent, show_duration, show_memory
from ratchet.contracts.snapshot import SnapshotDay
from ratchet.contracts.widths import widths
from ratchet.runtime.context import StageContext
from ratchet.store.artifacts import fetch
from tasks.ingest.as_of import NONE, AsOf
from tasks.ingest.schema import arrow_schema
from tasks.ingest.writing import ROW_GROUP, DayFile, write

_BYTES_PER_ROW, _BYTES_PER_VALUE = 120, 60
"""Of further rows, while they are sorted by key and time; a value may be a text."""
_COPIES = 2
"""Of the values that are read, at most."""
_GATHERED = 64 << 20
"""Bytes of batches that are joined at once, at most."""
_SHARE = 0.75
"""Of the memory of the stage; the day's own rows need the rest."""


@dataclass(kw_only=True)
class Matches:
    """What a join has found: of the rows of the days that were joined now."""

    rows: int = 0
    found: int = 0
    no_key: int = 0
    """Rows without a key or a time."""


@dataclass(frozen=True, kw_only=True)
class Joins:
    """The further days of a window, by join. matches: filled while days are joined."""

    spec: PipelineSpec
    days: Mapping[str, Mapping[date, SnapshotDay]]
    matches: list[tuple[str, Matches]] = field(default_factory=list)
    _identities: dict[date, dict[str, str]] = field(default_factory=dict)

    def identity(self, day: date) -> dict[str, str]:
        """What the joined columns of a day are made from, by join."""
        if day not in self._identities:
            digests = {name: self._digests(name) for name in self.days}
            self._identities[day] = {name: join_identity(self.spec, name, rows, day) for name, rows in digests.items()}
        return self._identities[day]

    def memory(self, days: Iterable[date]) -> int:
        """The bytes of the further rows of the largest of these days, roughly."""
        return max((sum(self._memory(name, day) for name in self.days) for day in days), default=0)

    def _memory(self, name: str, day: date) -> int:
        values = sum(widths(further(self.spec, name).columns).values())
        rows = sum(one.file.rows or 0 for one in self.looked_at(name, day))
        return rows * (_BYTES_PER_ROW + values * _BYTES_PER_VALUE)

    def _digests(self, name: str) -> dict[date, str]:
        return {day: one.file.sha256 for day, one in self.days[name].items() if one.file.rows}

    def looked_at(self, name: str, day: date) -> list[SnapshotDay]:
        """The further days with rows that a day looks at, oldest first."""
        return [self.days[name][one] for one in days_looked_at(self.spec, name, day) if one in self.days[name]]

    def log(self, ctx: StageContext) -> None:
        """Say how many rows have found another one."""
        for name in self.days:
            of = [one for join, one in self.matches if join == name]
            rows, found, no_key = (sum(getattr(one, key) for one in of) for key in ("rows", "found", "no_key"))
            if rows:
                share = f"{percent(found / rows)} of {rows:,} rows found a row that was known at their time"
                missing = f"; {no_key:,} have no key or no time" if no_key else ""
                ctx.log.event("joined", f"joins.{name}: {share}{missing}", level="warning" if not found else "info")


class DayJoin:
    """The joins of one day, with their further rows in memory.

    scratch: an empty folder, for files from the store. Raises ConfigurationError where the rows do not fit into the
    stage's memory.
    """

    def __init__(self, ctx: StageContext, joins: Joins, day: date, scratch: Path) -> None:
        self._spec, self._day = ctx.spec, day
        self._time = ctx.spec.with_role("time")[0]
        self._matches = {name: Matches() for name in joins.days}
        joins.matches.extend(self._matches.items())
        self._zones = {name: _zones(ctx.spec, name, joins.looked_at(name, day)) for name in joins.days}
        self._rows: dict[str, tuple[AsOf, Any]] = {}
        held = 0
        for name in joins.days:
            table = _further_rows(ctx, name, day, joins.looked_at(name, day), scratch, held)
            held += table.num_rows * _BYTES_PER_ROW + _COPIES * table.nbytes
            join = ctx.spec.joins[name]
            keys, times = [table.column(key) for key in join.on], table.column(time_column(ctx.spec, name))
            self._rows[name] = AsOf(keys, times, join.within * 1_000_000), table.select([*join.columns])

    def write(self, batches: Iterable[Any], schema: Any, target: Path) -> DayFile:
        """Write batches of the main source, of a schema, with the joined columns: in the order of the pipeline file.

        A column that only a purge reads comes last.
        """
        columns = arrow_schema(self._spec.source_columns)
        others = [own for own in schema if own.name not in columns.names]
        whole = pa.schema([*columns, *others])
        return write(self._joined(batches, whole), whole, target)

    def _joined(self, batches: Iterable[Any], schema: Any) -> Iterator[Any]:
        for batch in gathered(batches):
            found = dict(zip(batch.schema.names, batch.columns, strict=True))
            for name, (as_of, table) in self._rows.items():
                keys, times = [found[key] for key in self._spec.joins[name].on], found[self._time]
                places = as_of.find(keys, times)
                self._count(name, keys, times, places)
                indices = pa.array(places, mask=places == NONE)
                found |= {one: _take(table.column(one), indices) for one in table.column_names}
            yield pa.RecordBatch.from_arrays([found[one] for one in schema.names], schema=schema)

    def refuse_other_zone(self, zones: Mapping[str, bool]) -> None:
        """Refuse a day whose times or keys have a zone where those of a further source have none, or the reverse.

        zones: `SourceTraits.zones` of the day.
        """
        for name, compared in self._zones.items():
            for column, (key, others) in compared.items():
                own = zones.get(column)
                if own is not None and (not own) in others:
                    one, other = ("a time zone", "none") if own else ("no time zone", "one")
                    raise DataRejected(
                        f"{self._day}: column {column} has {one}, and joins.{name}.{key} has {other}: which of two "
                        f"moments was first{'' if key == 'time' else ', or which are equal,'} is not known",
                        remedy="deliver both with a zone, or both in UTC",
                    )

    def _count(self, name: str, keys: Sequence[Any], times: Any, places: Any) -> None:
        matches = self._matches[name]
        there = np.logical_and.reduce([np.asarray(pc.is_valid(one)) for one in (*keys, times)])
        matches.rows += len(places)
        matches.found += int((places != NONE).sum())
        matches.no_key += int((~there).sum())


def gathered(batches: Iterable[Any]) -> Iterator[Any]:
    """The rows of batches as batches of a row group or more: each look at the further keys takes all of them."""
    waiting: list[Any] = []
    rows = held = 0
    for batch in batches:
        waiting.append(batch)
        rows, held = rows + batch.num_rows, held + batch.nbytes
        if rows >= ROW_GROUP or held >= _GATHERED:
            yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()
            waiting, rows, held = [], 0, 0
    if waiting:
        yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()


def _zones(spec: PipelineSpec, name: str, days: Sequence[SnapshotDay]) -> dict[str, tuple[str, set[bool]]]:
    """By column of the main source that is compared: what it is compared with, and which zones that has."""
    pairs = {key: ("on", key) for key in spec.joins[name].on}
    pairs[spec.with_role("time")[0]] = ("time", time_column(spec, name))
    return {
        column: (key, {day.zones[other] for day in days if other in day.zones})
        for column, (key, other) in pairs.items()
    }


def _take(column: Any, indices: Any) -> Any:
    taken = column.take(indices)
    return taken.combine_chunks() if isinstance(taken, pa.ChunkedArray) else taken


def _further_rows(
    ctx: StageContext, name: str, day: date, days: Sequence[SnapshotDay], scratch: Path, taken: int
) -> Any:
    """The further rows that a day looks at: older days first, the rows of a day in the order of its file.

    taken: the bytes that other joins of the day need.
    """
    schema = arrow_schema(further(ctx.spec, name).source_columns)
    rows, read, held = sum(one.file.rows or 0 for one in days), 0, 0
    batches: list[Any] = []
    for one in days:
        with pq.ParquetFile(fetch(ctx.store, one.file, scratch), memory_map=False) as file:
            for batch in file.iter_batches(use_threads=False):
                batches.append(batch.cast(schema))
                read, held = read + batch.num_rows, held + batch.nbytes
                needed = rows * (_BYTES_PER_ROW + _COPIES * held // max(read, 1))
                _refuse_too_large(ctx, name, day, len(days), rows, needed, taken)
    return pa.Table.from_batches(batches, schema).combine_chunks()


def _refuse_too_large(ctx: StageContext, name: str, day: date, days: int, rows: int, needed: int, taken: int) -> None:
    allowed = ctx.spec.resources_of("ingest").memory
    if needed + taken > _SHARE * allowed:
        within, least = show_duration(ctx.spec.joins[name].within), _in_mib((needed + taken) / _SHARE)
        others = f", and those of other joins {_in_mib(taken)}" if taken else ""
        raise ConfigurationError(
            f"resources.ingest.memory: {show_memory(allowed)} does not hold what joins.{name} looks at for {day}: "
            f"{rows:,} rows of {days} days need about {_in_mib(needed)}{others}",
            remedy=f"set resources.ingest.memory to {least} or more, shorten joins.{name}.within from {within}, or "
            "join where the data are and read the result",
        )


def _in_mib(size: float) -> str:
    return show_memory(math.ceil(size / 2**20) * 2**20)
