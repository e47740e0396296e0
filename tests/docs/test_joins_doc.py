"""The example of the page about joins gives the rows that the page shows."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ratchet.contracts.loading import loads
from ratchet.contracts.summaries import snapshot
from tests.docs.blocks import blocks, files
from tests.world import LAST, clicks


def test_the_example_gives_the_rows_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written = files("joins.md")
    for name, text in written.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    world = clicks(tmp_path / "world")
    world.document = loads(written["pipeline.yaml"]).model_dump(mode="json", by_alias=True)
    (day,) = snapshot(world.run("ingest", LAST).result).days
    path = world.store.local(day.file.key)
    assert path is not None
    (shown,) = [block.text.splitlines() for block in blocks("joins.md") if block.language == "text"]
    header, *lines = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in shown]
    assert [dict(zip(header, line, strict=True)) for line in lines] == [
        {name: str(value) for name, value in row.items()} for row in pq.read_table(path).to_pylist()
    ]
