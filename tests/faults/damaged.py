"""A published result with an artifact of each kind, and ways to damage its files."""

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.contracts import paths
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.result import PublishedResult
from ratchet.store.file import FileStore
from ratchet.store.publishing import Transaction

FINGERPRINT = "f" * 64
PREFIX = paths.published("example", "features", FINGERPRINT)
KINDS = ("array.npy", "rows.parquet", "weights.bin")


def publish(store: FileStore, attempt: str) -> PublishedResult:
    """An array, a Parquet file and plain bytes."""
    array, rows = io.BytesIO(), io.BytesIO()
    np.save(array, np.arange(1000, dtype=np.float32))
    pq.write_table(pa.table({"x": list(range(1000))}), rows)
    transaction = Transaction(store, PREFIX, attempt)
    for name, data in zip(KINDS, (array.getvalue(), rows.getvalue(), b"w" * 5000), strict=True):
        transaction.add_bytes(name, data)
    return transaction.commit(stage="features", fingerprint=FINGERPRINT, parts={}, content=digest(b"same"))


def file_of(store: FileStore, found: PublishedResult, name: str) -> Path:
    """The file of an output, or of the manifest."""
    path = store.local(found.key if name == "manifest" else found.result.outputs[name].key)
    assert path is not None
    return path


def places(size: int) -> list[int]:
    """Offsets in a file of some size: its ends, and some between."""
    return sorted({0, 1, size // 3, size // 2, size - 2, size - 1})
