"""The places that a source may lie in: below the roots that the operator names, and never in a store.

A change here violates the promise of the project when a pipeline can read a file that the operator has not opened to
pipelines, or what a run has written, as its source.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from ratchet.contracts import paths
from ratchet.contracts.environment import environment, variable
from ratchet.contracts.errors import ConfigurationError, RatchetError
from ratchet.contracts.request import SourceDay
from ratchet.contracts.source import FilesSource, Source, SqlSource
from ratchet.runtime.source_variables import expand
from ratchet.store.base import Store
from ratchet.store.opening import open_store

_FILE_DATABASES = frozenset({"sqlite", "duckdb"})


def check_reach(source: Source, root: str, days: Iterable[SourceDay], store: Store) -> None:
    """Raise ConfigurationError where a source lies outside of the roots, or in a store.

    root, days: as `list_days` gives them. store: the run's own; any other is known by its folders.
    """
    places = list(_places(source, root, days))
    if not places:
        return
    check_roots(places[0], shown=source.uri if isinstance(source, SqlSource) else None)
    # Of other stores one file is enough: what a pattern leads to is much the same for each.
    if any(_is_below(place, store.uri) for place in places) or any(map(_is_store, _folders(places[-1]))):
        raise ConfigurationError(
            f"source.uri: {source.uri} leads into a store of Ratchet",
            remedy="name the place of the data itself; what runs have written is no source",
        )


def _places(source: Source, root: str, days: Iterable[SourceDay]) -> Iterator[str]:
    """The root of a source, then its files; for a database its file, if it is one."""
    if isinstance(source, SqlSource):
        if place := database_file(expand(source.uri, secret=True)):
            yield place
        return
    yield root
    if isinstance(source, FilesSource):
        yield from (_join(root, file.key) for day in days for file in day.files)


def check_roots(place: str, *, shown: str | None = None) -> None:
    """Raise ConfigurationError for a place outside of the roots that the operator names; no roots allow every place.

    shown: the place as a message may show it.
    """
    roots = environment().source_roots
    if roots and not any(_is_below(place, _uri(root)) for root in roots):
        raise ConfigurationError(
            f"source.uri: {shown or place} is outside of the folders that sources may use; allowed: {', '.join(roots)}",
            remedy=f"move the data below one of them, or let the operator add the folder to {variable('source_roots')}",
        )


def database_file(url: str) -> str | None:
    """The file of a database that is one, as a URI; None for a server, and for a database in memory."""
    scheme, _, rest = url.partition("://")
    if scheme.partition("+")[0] not in _FILE_DATABASES:
        return None
    name = rest.partition("/")[2].partition("?")[0].removeprefix("file:")
    return None if name in {"", ":memory:"} else Path(name).absolute().as_uri()


def _join(root: str, key: str) -> str:
    return (Path(_path(root)) / key).as_uri() if _is_file(root) else f"{root.rstrip('/')}/{key}"


def _uri(root: str) -> str:
    return root.rstrip("/") if "://" in root else Path(root).as_uri()


def _is_file(uri: str) -> bool:
    return uri.startswith("file://")


def _path(uri: str) -> str:
    return unquote(urlsplit(uri).path)


def _is_below(place: str, folder: str) -> bool:
    """Whether a place is a folder, or in it; links are followed."""
    if _is_file(place) and _is_file(folder):
        return Path(os.path.realpath(_path(place))).is_relative_to(os.path.realpath(_path(folder)))
    return f"{place.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")


def _folders(place: str) -> Iterator[str]:
    """A place and all folders above it, up to the bucket."""
    if _is_file(place):
        path = Path(os.path.realpath(_path(place)))
        yield from (folder.as_uri() for folder in (path, *path.parents))
        return
    scheme, _, rest = place.partition("://")
    path_ = PurePosixPath(rest)
    yield from (f"{scheme}://{folder}" for folder in (path_, *path_.parents) if str(folder) != ".")


def _is_store(folder: str) -> bool:
    if _is_file(folder):
        return all((Path(_path(folder)) / name).is_dir() for name in paths.FIRST)
    with suppress(RatchetError):  # a source whose folders may not be listed is no store that a pipeline could read
        store = open_store(folder)
        return all(next(iter(store.list(name)), None) is not None for name in paths.FIRST)
    return False
