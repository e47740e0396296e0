"""A further source as a pipeline of its own: its columns, its days, its snapshot table."""

from datetime import date, timedelta

from ratchet.contracts.columns import Column, ColumnType
from ratchet.contracts.fingerprint import digest_of
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.source_columns import as_written


def time_column(spec: PipelineSpec, name: str) -> str:
    """The column of a further source's snapshot that has the time of its rows.

    It has a name that no column of a pipeline can have, unless the time is joined as well.
    """
    join = spec.joins[name]
    names = join.source.names
    return next((one for one in join.columns if names.get(one, one) == join.time), f"{name}.{join.time}")


def further(spec: PipelineSpec, name: str) -> PipelineSpec:
    """The further source of a join, as if it was the source of a pipeline: what ingest reads day by day.

    Its days begin and end as those of the main source, unless it has a time zone or a begin of the day of its own.
    """
    join, main = spec.joins[name], spec.source
    time = time_column(spec, name)
    columns = {one: spec.columns[one] for one in (*join.on, *join.columns)}
    columns[time] = Column(role="ignore", type="timestamp")
    update: dict[str, object] = {"names": {**join.source.names, time: join.time}}
    if join.source.timezone is None:
        update["timezone"] = main.timezone
        if join.source.day_starts == "00:00":
            update["day_starts"] = main.day_starts
    source = join.source.model_copy(update=update)
    return spec.model_copy(update={"source": source, "columns": columns, "joins": {}})


def main_columns(spec: PipelineSpec) -> dict[str, ColumnType]:
    """The columns that are read from the main source, in the file's order."""
    joined = spec.joined_columns
    return {name: kind for name, kind in spec.source_columns.items() if name not in joined}


def days_looked_at(spec: PipelineSpec, name: str, day: date) -> tuple[date, ...]:
    """The days of a further source that may have a row for one of the main source's day, oldest first."""
    first, end = spec.day_bounds(day)
    first -= timedelta(seconds=spec.joins[name].within)
    of_further = further(spec, name)
    begin, last = first.date() - timedelta(days=2), end.date() + timedelta(days=2)
    while of_further.day_bounds(begin)[1] <= first:
        begin += timedelta(days=1)
    while of_further.day_bounds(last)[0] >= end:
        last -= timedelta(days=1)
    return tuple(begin + timedelta(days=number) for number in range((last - begin).days + 1))


def join_identity(spec: PipelineSpec, name: str, rows: dict[date, str], day: date) -> str:
    """What the joined columns of a day are made from: the join, and the rows of the days that it looks at.

    rows: the digest of each day's rows, without days that have none.
    """
    join = spec.joins[name]
    looked_at = [[str(one), rows[one]] for one in days_looked_at(spec, name, day) if one in rows]
    columns = [[one, column.type] for one, column in further(spec, name).columns.items()]
    return digest_of([join.on, join.time, join.within, columns, as_written(join.source), looked_at])
