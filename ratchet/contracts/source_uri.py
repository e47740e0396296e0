"""The addresses of sources: of files and Delta tables, and of databases."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, unquote

from ratchet.contracts.environment import SOURCE_SECRETS
from ratchet.contracts.errors import ConfigurationError

_SCHEMES = frozenset({"file", "s3", "mem"})
_COMPLETE = "use a path, file:///folder or s3://bucket/folder"
_FILE_DATABASES: Final = ("sqlite", "duckdb")
"""The databases that are a file, by SQLAlchemy's names."""
_DATABASE = re.compile(
    r"(?P<kind>\w+)(?:\+\w+)?://(?:[^:/@]*(?::[^@]*)?@)?(?P<host>\[[^\]/?]+\]|[^/:?]*)(?::\d*)?(?:/(?P<name>[^?]*))?"
    r"(?:\?(?P<options>.*))?"
)
"""SQLAlchemy's form of a URL. A password may hold what the parser of the standard library takes for the path."""


def parse(uri: str) -> tuple[str, str, list[str]]:
    """Scheme, bucket (files: empty) and path of files or a Delta table. A relative path starts at the working folder.

    Raises ConfigurationError for another scheme, for `..` and for `~`.
    """
    scheme, separator, rest = uri.partition("://")
    if not separator:
        if uri.startswith("~"):
            raise ConfigurationError(
                f"source.uri: {uri!r} begins with ~, which is not expanded", remedy="write the path in full"
            )
        scheme, rest = "file", str(Path(uri).absolute())
    elif scheme == "file":
        rest = unquote(rest)
    if scheme not in _SCHEMES:
        raise ConfigurationError(f"source.uri: {scheme}:// is not supported", remedy=_COMPLETE)
    base, _, path = rest.partition("/")
    steps = [step for step in path.split("/") if step not in {"", "."}]
    if ".." in steps:
        raise ConfigurationError(f"source.uri: {uri!r} contains ..", remedy="write the path without ..")
    if (scheme == "file") == bool(base):
        raise ConfigurationError(f"source.uri: {uri!r} is not complete", remedy=_COMPLETE)
    return scheme, base, steps


def join(scheme: str, base: str, steps: Sequence[str]) -> str:
    """The URI of the parts that `parse` returns."""
    if scheme == "file":
        return Path("/", *steps).as_uri()
    return f"{scheme}://{'/'.join([base, *steps])}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabasePlace:
    """Where a database is: a file of this machine, or the hosts of its server. Neither for a socket of this machine."""

    kind: str
    file: Path | None
    hosts: tuple[str, ...]


def database_place(uri: str) -> DatabasePlace:
    """The place of the database that an SQLAlchemy URL without ${NAME} names.

    Raises ConfigurationError if it is not such a URL, or names a database in memory or by a relative path. No error
    shows the URL, which may contain a password.
    """
    found = _DATABASE.fullmatch(uri)
    if found is None:
        raise ConfigurationError(
            "source.uri: it is not the URL of a database",
            remedy=f"write it like postgresql+psycopg://me:${{{SOURCE_SECRETS}PASSWORD}}@host/name",
        )
    kind = found["kind"]
    if kind in _FILE_DATABASES:
        file = Path(found["name"] or "")
        if not file.is_absolute() or ".." in file.parts:
            raise ConfigurationError(
                f"source.uri: a database of {kind} needs the full path of its file",
                remedy=f"write it like {kind}:////folder/file.db, with four slashes",
            )
        return DatabasePlace(kind=kind, file=file, hosts=())
    options = parse_qs(found["options"] or "")
    hosts = [found["host"], *(name for each in options.get("host", []) for name in each.split(","))]
    named = (host.rpartition(":")[0] or host if not host.startswith("[") else host for host in hosts)
    return DatabasePlace(kind=kind, file=None, hosts=tuple(host for host in named if host and host[0] != "/"))
