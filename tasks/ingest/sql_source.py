"""Reads the rows of one day from a database."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from sqlalchemy import create_engine, text
from sqlalchemy.exc import ArgumentError, DBAPIError, InvalidRequestError, NoSuchModuleError, OperationalError
from sqlalchemy.pool import NullPool

from ratchet.contracts import paths
from ratchet.contracts.columns import ColumnType
from ratchet.contracts.environment import variable
from ratchet.contracts.errors import ConfigurationError, RatchetError, Unavailable
from ratchet.contracts.source import SqlSource
from ratchet.contracts.source_uri import database_place
from ratchet.runtime.source_variables import expand, hide
from tasks.ingest.reading import rejection, require, to_snapshot
from tasks.ingest.traits import SourceTraits

_ROWS_AT_A_TIME = 65_536
_NAME = "source.query"
_DRIVERS = "postgresql+psycopg://, duckdb:/// or sqlite:///"
"""Of the stage image."""
_READ_ONLY: dict[str, dict[str, Any]] = {"duckdb": {"read_only": True}}
"""Connection settings by kind of database: DuckDB's lock would keep other readers out."""


def read_query(
    source: SqlSource,
    day: date,
    columns: dict[str, ColumnType],
    traits: SourceTraits,
    *,
    also: Mapping[str, ColumnType] = MappingProxyType({}),
) -> Iterator[Any]:
    """Run the query for :date; its rows as batches in the snapshot's schema, in any order.

    also: further columns of the batches, `NAME.COLUMN`, each of the type that it has there.
    Raises DataRejected, ConfigurationError (an invalid URL, driver or query) and Unavailable.
    """
    uri = expand(source.uri, secret=True)
    try:
        place = database_place(uri)
    except ConfigurationError as error:
        cause = error.cause.removeprefix("source.uri: ")
        raise ConfigurationError(f"source.uri: {source.uri!r}: {cause}", remedy=error.remedy) from None
    try:
        engine = create_engine(
            uri, poolclass=NullPool, hide_parameters=True, connect_args=_READ_ONLY.get(place.kind, {})
        )
    except (ArgumentError, NoSuchModuleError, ImportError, ValueError) as error:
        if isinstance(error, ImportError):
            raise ConfigurationError(
                f"source.uri: {source.uri!r}: the driver of {place.kind} is not installed: {error}",
                remedy=f"use one of {_DRIVERS}, or name an image with the driver as {variable('stage_image')}",
            ) from None
        raise ConfigurationError(
            f"source.uri: {source.uri!r} is not the URL of a database: not a URL of a known kind",
            remedy=f"write it as {_DRIVERS}",
        ) from None
    try:
        with engine.connect() as connection:
            result = connection.execution_options(stream_results=True).execute(
                text(source.query), {"date": paths.day(day)}
            )
            names = list(result.keys())
            others = {name.partition(".")[2]: kind for name, kind in also.items()}
            require(names, day=day, name=_NAME, columns={**others, **columns})
            for rows in result.partitions(_ROWS_AT_A_TIME):
                batch = _batch(rows, names, day, {**others, **columns})
                cast = to_snapshot(batch, day, _NAME, columns, traits, text=True)
                if also:
                    added = to_snapshot(batch, day, _NAME, others, traits, text=True)
                    cast = pa.RecordBatch.from_arrays([*cast.columns, *added.columns], names=[*columns, *also])
                yield cast
    except (DBAPIError, InvalidRequestError) as error:
        raise _explain(error, source) from None
    finally:
        engine.dispose()


def _batch(rows: Sequence[Any], names: list[str], day: date, columns: dict[str, ColumnType]) -> Any:
    """Rows as a batch, each column in the Arrow type of its values."""
    arrays = []
    for column in columns:
        place = names.index(column)
        try:
            arrays.append(pa.array([row[place] for row in rows]))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise rejection(
                day, _NAME, f"column {column} mixes types: {error}", remedy=f"cast {column} in source.query"
            ) from error
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _explain(error: DBAPIError | InvalidRequestError, source: SqlSource) -> RatchetError:
    """An error of the database in one line, without the URL, which may contain a password."""
    message = hide(str(getattr(error, "orig", None) or error).partition("\n")[0], source.uri)
    # SQLite has one error for everything; elsewhere OperationalError is about the connection or the server.
    sqlite = "sqlite" in type(getattr(error, "orig", None)).__module__
    if isinstance(error, OperationalError) and (not sqlite or "locked" in message or "unable to open" in message):
        return Unavailable(f"source.uri: the database {source.uri!r} does not answer: {message}")
    return ConfigurationError(f"source.query: {message}", remedy="correct the query, or the rights of its user")
