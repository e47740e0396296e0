"""A window of long ago, whose source is gone: it is read from the snapshot, and trains to the same bits."""

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from ratchet.contracts import summaries
from ratchet.store.opening import open_store
from tests.evaluate.nights import FIRST, Nights, judgement


@pytest.mark.parametrize("kind", ["file", "s3"])
def test_it_trains_to_the_same_bits_from_either_kind_of_store(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    store = open_store(str(tmp_path / "store") if kind == "file" else request.getfixturevalue("s3_uri"))
    store.prepare()
    nights = Nights(folder=tmp_path, store=store)  # type: ignore[arg-type] # what it does works on any
    nights.deliver(FIRST)
    first = nights.run(until="evaluate")
    nights.deliver(FIRST + timedelta(days=300))
    nights.run(FIRST + timedelta(days=300), until="validate")
    shutil.rmtree(tmp_path / "source")
    (tmp_path / "source").mkdir()
    again = nights.run(as_of="then", rebuild=True, until="evaluate")
    for stage in ("ingest", "validate", "features", "train"):
        before, now = first[stage].result, again[stage].result
        assert before is not None
        assert now is not None
        assert now.fingerprint != before.fingerprint, "it was made again"
        assert now.content == before.content
        if stage == "ingest":
            assert summaries.snapshot(now).as_of == "then"
    assert judgement(again).explanation == judgement(first).explanation
