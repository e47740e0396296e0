"""Places in which production is played through: a store and a registry whose writers can die at each of their calls."""

import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from ratchet.contracts import paths
from ratchet.store.base import Store
from ratchet.store.file import FileStore
from ratchet.store.memory import MemoryStore
from ratchet.tracking.memory_registry import MemoryRegistry
from ratchet.tracking.mlflow import Tracker, track
from ratchet.tracking.registry import CHAMPION, Version
from ratchet.tracking.use_registry import use_registry

MODEL = "small"


class Crash(Exception):
    """The process that wrote has died."""


class Calls:
    """Counts the calls of a writer, before and after each. It dies at the n-th from now on; 0 for never."""

    left = 0

    def count(self) -> None:
        if self.left:
            self.left -= 1
            if not self.left:
                raise Crash

    @contextmanager
    def around(self) -> Iterator[None]:
        """One call."""
        self.count()
        yield
        self.count()


class World(Protocol):
    """A store and a registry. Each can be set back to a copy alone."""

    store: Store
    calls: Calls

    def add(self, tags: Mapping[str, str]) -> Version:
        """Register a version."""
        ...

    def ask(self, work: Any) -> Any:
        """Do work with the registry."""
        ...

    def bend(self, number: int) -> None:
        """Somebody sets the alias by hand, if there is such a version."""
        ...

    def copy(self) -> None:
        """A backup of both."""
        ...

    def restore_store(self) -> None:
        """The store as it was."""
        ...

    def restore_registry(self) -> None:
        """The registry as it was."""
        ...

    def end(self) -> None:
        """Leave nothing behind."""
        ...


class _CrashingMemoryStore(MemoryStore):
    calls = Calls()

    def replace(self, key: str, data: bytes, *, expected: str | None) -> bool:
        with self.calls.around():
            return super().replace(key, data, expected=expected)

    def delete(self, key: str, *, expected: str | None = None, written_ns: int | None = None) -> bool:
        with self.calls.around():
            return super().delete(key, expected=expected, written_ns=written_ns)


class _CrashingMemoryRegistry(MemoryRegistry):
    calls = Calls()

    def point(self, model: str, version: Version, record: int) -> None:
        """Two calls, as a server's: the tag, then the alias."""
        self.calls.count()
        before = self.models[model].alias
        super().point(model, version, record)
        self.models[model].alias = before
        self.calls.count()
        self.models[model].alias = version.number
        self.calls.count()


class MemoryWorld:
    """All of it in the memory of this process."""

    def __init__(self) -> None:
        self.store = _CrashingMemoryStore(uuid4().hex)
        self._registry = _CrashingMemoryRegistry.of(self.store.uri)
        self.calls = self.store.calls = self._registry.calls = Calls()
        self.copy()

    def add(self, tags: Mapping[str, str]) -> Version:
        return self._registry.add(MODEL, dict(tags))

    def ask(self, work: Any) -> Any:
        return work(self._registry)

    def bend(self, number: int) -> None:
        held = self._registry.models.get(MODEL)
        if held and str(number) in held.versions:
            held.alias = str(number)

    def copy(self) -> None:
        self._files, self._models = dict(self.store._space.files), deepcopy(self._registry.models)

    def restore_store(self) -> None:
        self.store._space.restore(self._files)

    def restore_registry(self) -> None:
        self._registry.models.clear()
        self._registry.models.update(deepcopy(self._models))

    def end(self) -> None:
        self.store._space.restore({})


class _CrashingFileStore(FileStore):
    calls = Calls()

    def create(self, key: str, data: bytes) -> bool:
        with self.calls.around():
            return super().create(key, data)

    def replace(self, key: str, data: bytes, *, expected: str | None) -> bool:
        with self.calls.around():
            return super().replace(key, data, expected=expected)

    def delete(self, key: str, *, expected: str | None = None, written_ns: int | None = None) -> bool:
        with self.calls.around():
            return super().delete(key, expected=expected, written_ns=written_ns)


class SqliteWorld:
    """A folder, and MLflow's own database in it: made by MLflow, with versions that MLflow registers."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ratchet-")
        self._scratch = Path(self._folder.name)
        self.store = _CrashingFileStore(self._scratch / "store")
        self.store.prepare()
        self.calls = self.store.calls = Calls()
        self._database, self._copied = self.store.root / paths.tracking_database(), self._scratch / "copy.db"
        self._database.parent.mkdir()
        self._database.write_bytes(empty_database())
        self.copy()

    def add(self, tags: Mapping[str, str]) -> Version:
        def work(tracker: Tracker) -> str:
            run = tracker.client.create_run(tracker.experiment(MODEL)).info
            made = tracker.client.create_model_version(MODEL, f"{run.artifact_uri}/model", run.run_id, tags={**tags})
            return str(made.version)

        return Version(number=track(self.store, None, self._scratch, work), tags=tags)

    def ask(self, work: Any) -> Any:
        return use_registry(self.store, None, self._scratch, work)

    def bend(self, number: int) -> None:
        if self.ask(lambda registry: registry.version(MODEL, str(number))) is None:
            return
        with closing(sqlite3.connect(self._database)) as database, database:
            database.execute("delete from registered_model_aliases")
            row = ("default", MODEL, CHAMPION, number)
            names = "(workspace, name, alias, version)"
            database.execute(f"insert into registered_model_aliases {names} values (?, ?, ?, ?)", row)

    def copy(self) -> None:
        self._files = {key: self.store.read(key) for key in self._keys()}
        _back_up(self._database, self._copied)

    def restore_store(self) -> None:
        for key in self._keys():
            (self.store.root / key).unlink()
        for key, data in self._files.items():
            (self.store.root / key).parent.mkdir(parents=True, exist_ok=True)
            (self.store.root / key).write_bytes(data)

    def restore_registry(self) -> None:
        _back_up(self._copied, self._database)

    def end(self) -> None:
        self._folder.cleanup()

    def _keys(self) -> list[str]:
        return [entry.key for entry in self.store.list() if not entry.key.startswith(f"{paths.TRACKING}/")]


def _back_up(source: Path, target: Path) -> None:
    """As SQLite does it, whoever has the files open."""
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
        one.backup(other)


@cache
def empty_database() -> bytes:
    """MLflow's file with a model that has no version."""
    with tempfile.TemporaryDirectory() as folder:
        store = FileStore(Path(folder))
        track(store, None, Path(folder), lambda tracker: tracker.client.create_registered_model(MODEL))
        return store.read(paths.tracking_database())
