"""Reads the rows of one day from a database."""

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import ArgumentError, DBAPIError, InvalidRequestError, NoSuchModuleError
from sqlalchemy.pool import NullPool

from ratchet.contracts.columns import ColumnType
from ratchet.contracts.environment import variable
from ratchet.contracts.errors import ConfigurationError, NoAnswer, RatchetError, Unavailable
from ratchet.contracts.fingerprint import digest_of
from ratchet.contracts.source import SqlSource
from ratchet.contracts.source_uri import database_place
from ratchet.contracts.sql_parameters import BOUNDS, parameters
from ratchet.runtime.source_variables import expand, hide
from tasks.ingest.declared import rejection, require, to_snapshot
from tasks.ingest.sql_rows import Bounds, MixedTypes, first_rows, rows
from tasks.ingest.traits import SourceTraits

_NAME = "source.query"
_DISK = "check the disk of the source; run again if no retry follows"
_DRIVERS = "postgresql+psycopg://, duckdb:/// or sqlite:///"
"""Of the stage image."""
_READ_ONLY: dict[str, dict[str, Any]] = {"duckdb": {"read_only": True}}
"""Connection settings by kind of database: DuckDB's lock would keep other readers out."""
_SERVER_STATES = frozenset({"08", "28", "40", "53", "55", "57", "58"})
"""Classes of SQLSTATE that psycopg calls operational: the connection, the log-in, other transactions, the server."""
_SERVERS_OWN = re.compile(r"^.*?ERROR:\s+", re.DOTALL)
"""What ADBC writes before the message of PostgreSQL."""


def read_query(
    source: SqlSource,
    day: date,
    bounds: Bounds,
    columns: dict[str, ColumnType],
    traits: SourceTraits,
    *,
    also: Mapping[str, ColumnType] = MappingProxyType({}),
) -> Iterator[Any]:
    """Run the query for a day; its rows as batches in the snapshot's schema, in any order.

    bounds: the first moment of the day and that of the next one, in UTC. also: further columns of the batches,
    `NAME.COLUMN`, each of the type that it has there.
    Raises DataRejected, ConfigurationError (an invalid URL, driver or query) and NoAnswer.
    """
    others = {name.partition(".")[2]: kind for name, kind in also.items()}
    wanted = {**others, **columns}
    try:
        with _connected(source) as connection, rows(connection, source.query, day, bounds, wanted) as found:
            require(found.names, day=day, name=_NAME, columns=wanted)
            for batch in found.batches:
                cast = to_snapshot(batch, day, _NAME, columns, traits, text=True)
                if also:
                    added = to_snapshot(batch, day, _NAME, others, traits, text=True)
                    cast = pa.RecordBatch.from_arrays([*cast.columns, *added.columns], names=[*columns, *also])
                yield cast
    except MixedTypes as error:
        raise rejection(
            day,
            _NAME,
            f"column {error.column} mixes types: {error}",
            remedy=f"cast {error.column} in source.query",
        ) from error


def changes(source: SqlSource, days: Mapping[date, Bounds]) -> dict[date, str]:
    """A digest of what source.changed answers for each day. days: their bounds. Raises what `read_query` raises."""
    if source.changed is None or not days:
        return {}
    found = {}
    in_utc = bool(parameters(source.query) & BOUNDS)
    with _connected(source, "source.changed") as connection:
        for day, bounds in days.items():
            answer = first_rows(connection, source.changed, day, bounds, in_utc=in_utc)
            if len(answer) != 1:
                raise ConfigurationError(
                    f"source.changed gives {'no row' if not answer else 'several rows'} for {day}",
                    remedy="write it so that it gives one row, as in SELECT max(updated_at), count(*) FROM ...",
                )
            found[day] = digest_of([_written(value) for value in answer[0]])
    return found


def _written(value: Any) -> str:
    """A value as text, which is the same in every time zone of this process."""
    return str(value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo else value)


@contextmanager
def _connected(source: SqlSource, key: str = _NAME) -> Iterator[Connection]:
    """A connection to the database. key: of the query that it is for. Its errors are explained."""
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
    driver: Any = engine.dialect.dbapi
    try:
        with engine.connect() as connection:
            yield connection
    except (DBAPIError, InvalidRequestError, driver.Error, *_copy_errors(place.kind)) as error:
        raise _explain(error, source, key) from None
    finally:
        engine.dispose()


def _copy_errors(kind: str) -> tuple[type[Exception], ...]:
    if kind != "postgresql":
        return ()
    from adbc_driver_postgresql.dbapi import Error

    return (Error,)


def _explain(error: Exception, source: SqlSource, key: str) -> RatchetError:
    """An error of the database in one line, without the URL, which may contain a password."""
    cause = getattr(error, "orig", None) or error
    message = hide(_SERVERS_OWN.sub("", str(cause)).partition("\n")[0], source.uri)
    if _is_of_the_server(cause, message):
        return NoAnswer(f"source.uri: the database {source.uri!r} does not answer: {message}")
    if _is_of_the_disk(cause):
        return Unavailable(f"source.uri: the database {source.uri!r} cannot be read now: {message}", remedy=_DISK)
    return ConfigurationError(f"{key}: {message}", remedy="correct the query, or the rights of its user")


def _is_of_the_disk(cause: object) -> bool:
    """Whether SQLite got no bytes of its file. It does not say whether a disk is broken, or its host is away."""
    return isinstance(cause, sqlite3.Error) and getattr(cause, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_IOERR


def _is_of_the_server(cause: Any, message: str) -> bool:
    """Whether an error is of the connection or the server, and not of the query."""
    module = type(cause).__module__
    if module.startswith("adbc"):
        return not cause.sqlstate or cause.sqlstate[:2] in _SERVER_STATES
    # SQLite has one error for everything; elsewhere OperationalError is about the connection or the server.
    if "sqlite" in module and not ("locked" in message or "unable to open" in message):
        return False
    return any(kind.__name__ == "OperationalError" for kind in type(cause).__mro__)
