"""A night whose newest day is bad, after one that promoted a model: what it says, and what it must leave as it was."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.contracts import paths
from ratchet.contracts.errors import DataRejected
from ratchet.contracts.exits import ExitCode
from ratchet.contracts.summaries import Check, Validation
from ratchet.store.file import FileStore
from ratchet.store.ledger import champion
from tests.evaluate.nights import FIRST, Nights, registration, rows
from tests.mlflow_server import prepare

NEXT = FIRST + timedelta(days=1)
Change = Callable[[pa.Table], pa.Table]


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory, mlflow_database: Path) -> Nights:
    """A night that put its model into production."""
    folder = tmp_path_factory.mktemp("office")
    nights = Nights(folder=folder, store=prepare(FileStore(folder / "store"), mlflow_database))
    nights.deliver(FIRST)
    assert registration(nights.run()).promoted
    return nights


@pytest.fixture
def nights(office: Nights, tmp_path: Path) -> Nights:
    """The same in a folder of its own, with the good days of the next night."""
    shutil.copytree(office.store.root, tmp_path / "store", symlinks=True)
    found = replace(office, folder=tmp_path, store=FileStore(tmp_path / "store"), number=10)
    found.deliver(NEXT)
    return found


def source_file(nights: Nights) -> Path:
    """The file of the newest day."""
    return nights.folder / "source" / f"{NEXT}.parquet"


def spoil(nights: Nights, change: Change) -> None:
    """Deliver the newest day otherwise."""
    pq.write_table(change(rows(NEXT)), source_file(nights))


def refused(nights: Nights) -> DataRejected:
    """Play the whole night: it ends before training with 65, and production and its files stay as they were."""
    before = champion(nights.store, nights.name), trainings(nights)
    with pytest.raises(DataRejected) as raised:
        nights.run(NEXT)
    assert raised.value.code is ExitCode.DATA_REJECTED
    assert (champion(nights.store, nights.name), trainings(nights)) == before
    return raised.value


def trainings(nights: Nights) -> list[str]:
    """The files of all trainings that the store holds: at least one."""
    found = sorted(entry.key for entry in nights.store.list(paths.published(nights.name, "train")))
    assert found
    return found


def failures(nights: Nights) -> list[Check]:
    """The failed checks that the last night has kept of its data date."""
    data = nights.store.read(paths.checks(nights.name, f"run-{nights.number}", "validate"))
    return Validation.model_validate_json(data).failures(NEXT)


def replaced(name: str, values: Callable[[pa.Table], pa.ChunkedArray | pa.Array]) -> Change:
    """Give one column other values."""
    return lambda table: table.set_column(table.column_names.index(name), name, values(table))


def recovers(nights: Nights) -> None:
    """After the day is delivered as it should be, its night comes to a verdict."""
    nights.deliver(NEXT)
    outcomes = nights.run(NEXT)
    assert outcomes["evaluate"].state == "done"
