"""A byte of a snapshot's Parquet file has changed: whoever reads it refuses it and names the file; a rebuild mends it."""

from pathlib import Path

import pytest

from tasks.contracts import documents
from tasks.contracts.errors import CorruptArtifact
from tests.ingest.night import Nights


@pytest.mark.parametrize("damage", ["flipped", "cut"])
def test_a_damaged_day_is_refused_by_name_and_a_rebuild_mends_it(tmp_path: Path, damage: str) -> None:
    nights = Nights(tmp_path)
    nights.put_window()
    ingested = nights.run("ingest")
    file = documents.snapshot(ingested.result).days[1].file
    whole = nights.store.read(file.key)
    broken = whole[:-7] if damage == "cut" else whole[:200] + bytes([whole[200] ^ 1]) + whole[201:]
    path = nights.store.local(file.key)
    assert path is not None
    path.write_bytes(broken)
    with pytest.raises(CorruptArtifact, match=file.sha256):
        nights.run("validate", inputs={"ingest": ingested})
    again = nights.run("ingest", parts={"rebuild": "run-1"})
    assert again.result.content == ingested.result.content
    assert nights.store.read(file.key) == whole
    nights.run("validate", inputs={"ingest": again})
