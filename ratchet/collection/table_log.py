"""The log of a Delta table: which files its newest version has, and those of its versions that something names.

It is read by the store, as documents are. The library would be loaded in a process of Airflow, which forks.

A change here violates the promise of the project when a file counts as one of no version although the log lists it.
"""

import json
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote

from ratchet.contracts import paths
from ratchet.contracts.errors import CorruptArtifact
from ratchet.store.base import Store

_COMMIT = re.compile(r"\d{20}\.json")
_THREADS = 8
NEWEST = "the newest version of the table has them"


def listed_files(store: Store, table: str, versions: Mapping[int, str]) -> dict[str, str]:
    """The keys of the files that the newest version and these versions have, each with why that version stays.

    A version that the log does not have is one of a log that was moved away. Raises CorruptArtifact for a commit that
    is missing or cannot be read.
    """
    keys = [entry.key for entry in store.list(f"{table}/_delta_log") if _COMMIT.fullmatch(paths.last(entry.key))]
    found: dict[str, str] = {}
    files: set[str] = set()
    with ThreadPoolExecutor(_THREADS) as pool:
        for version, (key, data) in enumerate(zip(keys, pool.map(store.read, keys), strict=True)):
            if int(paths.last(key).removesuffix(".json")) != version:
                raise _unreadable(store, table, f"version {version} is missing")
            for action, path in _actions(store, key, data):
                (files.add if action == "add" else files.discard)(f"{table}/{path}")
            if version in versions:
                found |= dict.fromkeys(files - found.keys(), versions[version])
    return found | dict.fromkeys(files, NEWEST)


def _actions(store: Store, key: str, data: bytes) -> Iterator[tuple[str, str]]:
    """Which files a commit adds and removes, in its order."""
    try:
        for line in filter(None, data.decode().splitlines()):
            for action, of in json.loads(line).items():
                if action in {"add", "remove"}:
                    yield action, unquote(of["path"])
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise _unreadable(store, key.partition("/_delta_log/")[0], f"{paths.last(key)} is damaged") from error


def _unreadable(store: Store, table: str, why: str) -> CorruptArtifact:
    log = f"{table}/_delta_log"
    return CorruptArtifact(
        f"{store.uri}/{log} cannot be read: {why}",
        remedy=f"restore {log} from a backup, or move it away: the next run writes a new one",
    )
