"""The rows of a query as Arrow batches: DuckDB and PostgreSQL give Arrow, other databases give rows.

The moments of a day are written into the query as SQL: PostgreSQL copies no query with parameters, and so no driver
chooses their types. They are digits that this module writes, and no text of anybody.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import Connection, CursorResult, text

from ratchet.contracts import paths
from ratchet.contracts.sql_parameters import BOUNDS, PARAMETERS, filled, parameters, unescaped, without_end

_ROWS = 65_536
"""Of a batch that is made of rows."""
_COPIED = frozenset(
    {"bool", "int2", "int4", "int8", "float4", "float8", "numeric", "text", "varchar", "bpchar", "date", "timestamp"}
    | {"timestamptz"}
)
"""The types of PostgreSQL that ADBC gives whole. It gives a table of arrays without its shape, and money as cents."""
_TYPE = b"POSTGRESQL:type"
_AS = {"BIT": "varchar", "BIGNUM": "varchar", "UHUGEINT": "decimal(38, 0)"}
"""The types of DuckDB that Arrow has not, and what they are cast to: it gives the first two as bytes, the last cut."""
_LASTING = ("IO Error", "Out of Memory")
"""How errors of DuckDB begin that are not of the query."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = {"s": timedelta(seconds=1), "ms": timedelta(milliseconds=1), "us": timedelta(microseconds=1), "ns": None}
_INFINITE_NS = (1 << 63) - 1
"""What DuckDB writes for an infinite moment in nanoseconds, which reach from 1677 to 2262."""
_YEARS = (datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC))

_WITH_ZONE = "timestamptz '{:%Y-%m-%d %H:%M:%S}+00'"
_FORMS = {"sqlite": "'{:%Y-%m-%d %H:%M:%S}'", "duckdb": _WITH_ZONE, "postgresql": _WITH_ZONE}
"""How a moment is written into a query, by kind of database."""
_IN_UTC = {"duckdb": "set TimeZone = 'UTC'", "postgresql": "set time zone 'UTC'"}

Bounds = tuple[datetime, datetime]
"""The first moment of a day and that of the next one."""


class MixedTypes(Exception):
    """The values of a column have no common type. column: its name. why: what Arrow says."""

    def __init__(self, column: str, why: str) -> None:
        super().__init__(why)
        self.column, self.why = column, why


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """names: of all columns of a query. batches: of the wanted columns that it has."""

    names: list[str]
    batches: Iterable[Any]


@contextmanager
def rows(connection: Connection, query: str, day: date, bounds: Bounds, wanted: Iterable[str]) -> Iterator[Rows]:
    """Run a query for a day. Raises MixedTypes, and the errors of the database's driver."""
    kind = connection.dialect.name
    columns = list(wanted)
    if kind == "sqlite":
        yield _sqlite(connection, _with_moments(query, day, bounds, _FORMS[kind]), columns)
    elif kind in {"duckdb", "postgresql"}:
        statement = without_end(_with_moments(query, day, bounds, _FORMS[kind]))
        reader = _duckdb if kind == "duckdb" else _postgresql
        with reader(connection, statement, columns, in_utc=bool(parameters(query) & BOUNDS)) as found:
            yield found
    else:
        yield _others(connection, query, day, bounds, columns)


def first_rows(
    connection: Connection, query: str, day: date, bounds: Bounds, *, in_utc: bool = False
) -> list[tuple[Any, ...]]:
    """At most two rows of a query for a day. in_utc: set the session to UTC, which a query with bounds does itself.

    Raises the errors of the database's driver.
    """
    kind = connection.dialect.name
    if kind not in _FORMS:
        return [tuple(row) for row in _bound(connection, query, day, bounds).fetchmany(2)]
    if kind in _IN_UTC and (in_utc or parameters(query) & BOUNDS):
        connection.exec_driver_sql(_IN_UTC[kind])
    statement = without_end(_with_moments(query, day, bounds, _FORMS[kind]))
    result = connection.execution_options(no_parameters=True).exec_driver_sql(statement)
    return [tuple(row) for row in result.fetchmany(2)]


def _with_moments(query: str, day: date, bounds: Bounds, form: str) -> str:
    start, end = map(form.format, bounds)
    return unescaped(filled(query, {"date": f"'{paths.day(day)}'", "start": start, "end": end}))


@contextmanager
def _duckdb(connection: Connection, statement: str, columns: list[str], *, in_utc: bool) -> Iterator[Rows]:
    own: Any = connection.connection.driver_connection
    if in_utc:
        own.execute(_IN_UTC["duckdb"])
    relation = own.sql(statement)
    names = list(relation.columns)
    types = dict(zip(names, map(str, relation.types), strict=True))
    if any(types.get(name) in _AS for name in columns):
        once = [name for name in columns if names.count(name) == 1]
        relation = relation.project(", ".join(_cast_column(name, types[name]) for name in once))
    with relation.to_arrow_reader(_ROWS) as reader:
        found = _selected(reader, columns)
        yield Rows(names=names, batches=_changed(_explained(found.batches), _finite))


def _cast_column(name: str, kind: str) -> str:
    quoted = '"' + name.replace('"', '""') + '"'
    return f"{quoted}::{_AS[kind]} as {quoted}" if kind in _AS else quoted


def _explained(batches: Iterable[Any]) -> Iterator[Any]:
    """Batches of DuckDB, whose errors behind the first rows come as Arrow's: they are DuckDB's again."""
    import duckdb

    try:
        yield from batches
    except (OSError, pa.ArrowInvalid) as error:
        kind = duckdb.OperationalError if str(error).startswith(_LASTING) else duckdb.Error
        raise kind(str(error)) from error


@contextmanager
def _postgresql(connection: Connection, statement: str, columns: list[str], *, in_utc: bool) -> Iterator[Rows]:
    """By ADBC; by the driver of the connection if ADBC does not give a column whole, or knows no such log-in."""
    from adbc_driver_postgresql import dbapi
    from psycopg.conninfo import make_conninfo
    from psycopg.pq import Conninfo

    given = connection.dialect.create_connect_args(connection.engine.url)[1]
    known = {option.keyword.decode() for option in Conninfo.get_defaults()}
    address = make_conninfo("", **{name: value for name, value in given.items() if name in known})
    try:
        copying = dbapi.connect(address)
    except dbapi.Error:  # ADBC has no Kerberos; SQLAlchemy is connected already
        copying = None
    if copying is not None:
        with copying, copying.cursor() as cursor:
            if in_utc:
                cursor.execute(_IN_UTC["postgresql"])
            cursor.execute(statement)
            with cursor.fetch_record_batch() as reader:
                types = [field.metadata.get(_TYPE, b"") for field in reader.schema if field.name in columns]
                if {kind.decode() for kind in types} <= _COPIED:
                    found = _selected(reader, columns)
                    yield Rows(names=found.names, batches=_changed(found.batches, _of_adbc))
                    return
    if in_utc:
        connection.exec_driver_sql(_IN_UTC["postgresql"])
    yield _streamed(connection.execution_options(stream_results=True, no_parameters=True), statement, columns)


def _changed(batches: Iterable[Any], change: Callable[[Any], Any]) -> Iterator[Any]:
    """Batches whose columns are changed one by one."""
    for batch in batches:
        arrays = []
        for name, values in zip(batch.schema.names, batch.columns, strict=True):
            try:
                arrays.append(change(values))
            except pa.ArrowInvalid as error:
                raise MixedTypes(name, str(error)) from error
        yield pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _of_adbc(values: Any) -> Any:
    return _numbers(values.storage) if isinstance(values, pa.ExtensionArray) else _finite(values)


def _numbers(values: Any) -> Any:
    """The values of `numeric`, which ADBC gives as text, with as many decimals as one of them has."""
    point = pc.find_substring(values, ".")
    decimals = pc.if_else(pc.less(point, 0), 0, pc.subtract(pc.binary_length(values), pc.add(point, 1)))
    most = pc.max(decimals).as_py() or 0
    try:
        return pc.cast(values, pa.decimal128(38, most))
    except pa.ArrowInvalid:
        return pc.cast(values, pa.decimal256(76, most))


def _finite(values: Any) -> Any:
    """Values without infinite moments: Arrow has them as numbers that no calendar has. Nanoseconds are cut."""
    if pa.types.is_timestamp(values.type):
        numbers, unit = pc.cast(values, pa.int64()), _UNITS[values.type.unit]
    elif pa.types.is_date32(values.type):
        numbers, unit = pc.cast(values, pa.int32()), timedelta(days=1)
    else:
        return values
    first, last = ((moment - _EPOCH) // unit for moment in _YEARS) if unit else (1 - _INFINITE_NS, _INFINITE_NS - 1)
    if pc.any(pc.or_(pc.less(numbers, first), pc.greater(numbers, last))).as_py():
        raise pa.ArrowInvalid("a value is infinite, or outside of the years 1 to 9999")
    if unit is None:
        return pc.cast(pc.floor_temporal(values, unit="microsecond"), pa.timestamp("us", values.type.tz))
    return values


def _selected(reader: Any, columns: list[str]) -> Rows:
    names = list(reader.schema.names)
    found = {name: names.index(name) for name in columns if name in names}

    def batches() -> Iterator[Any]:
        for batch in reader:
            yield pa.RecordBatch.from_arrays([batch.column(place) for place in found.values()], names=list(found))

    return Rows(names=names, batches=batches())


def _sqlite(connection: Connection, statement: str, columns: list[str]) -> Rows:
    own: Any = connection.connection.driver_connection
    cursor = own.execute(statement)
    names = [column[0] for column in cursor.description or ()]
    return Rows(names=names, batches=_of_rows(iter(lambda: cursor.fetchmany(_ROWS), []), names, columns))


def _others(connection: Connection, query: str, day: date, bounds: Bounds, columns: list[str]) -> Rows:
    result = _bound(connection, query, day, bounds)
    names = list(result.keys())
    return Rows(names=names, batches=_of_rows(result.partitions(_ROWS), names, columns))


def _bound(connection: Connection, query: str, day: date, bounds: Bounds) -> CursorResult[Any]:
    """The result of a query whose moments are bound, for a database of which nothing is known."""
    # SQLAlchemy takes each `:name` for a parameter, also in a text, and `:date::text` for one that is called `dat`.
    start, end = (moment.replace(tzinfo=None) for moment in bounds)
    used = parameters(query)
    values = {name: value for name, value in (("date", paths.day(day)), ("start", start), ("end", end)) if name in used}
    bound = filled(query, {name: f":{name} " for name in PARAMETERS}, other=_as_text)
    return connection.execution_options(stream_results=True).execute(text(bound), values)


def _as_text(found: str) -> str:
    return unescaped(found).replace(":", r"\:")


def _streamed(connection: Connection, statement: str, columns: list[str]) -> Rows:
    result = connection.exec_driver_sql(statement)
    names = list(result.keys())
    return Rows(names=names, batches=_of_rows(result.partitions(_ROWS), names, columns))


def _of_rows(parts: Iterable[Any], names: list[str], columns: list[str]) -> Iterator[Any]:
    """Rows as batches, each column in the Arrow type of its values."""
    found = {name: names.index(name) for name in columns if name in names}
    for part in parts:
        values, arrays = list(zip(*part, strict=True)), []
        for name, place in found.items():
            try:
                arrays.append(pa.array(values[place]))
            except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
                raise MixedTypes(name, str(error)) from error
        yield pa.RecordBatch.from_arrays(arrays, names=list(found))
