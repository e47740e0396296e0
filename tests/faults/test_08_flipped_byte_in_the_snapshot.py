"""A day's Parquet file in the snapshot has changed or gone: readers refuse it by name, and the next run makes it again."""

from datetime import timedelta
from pathlib import Path

import pytest

from ratchet.contracts import summaries
from ratchet.contracts.errors import CorruptArtifact
from ratchet.store.artifacts import fetch
from ratchet.store.publishing import discard_damaged, verify
from tests.runs.nights import CallResult, run, sample
from tests.world import LAST, clicks

DAMAGES = ("flipped", "cut", "gone")


def damaged(path: Path, damage: str) -> None:
    """Change one byte of a file, cut its end off, or remove it."""
    whole = path.read_bytes()
    path.unlink()
    if damage != "gone":
        path.write_bytes(whole[:-7] if damage == "cut" else whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_day_is_refused_by_name_and_made_again(tmp_path: Path, damage: str) -> None:
    nights = clicks(tmp_path)
    nights.put_window()
    ingested = nights.run("ingest")
    day = summaries.snapshot(ingested.result).days[1]
    path = nights.store.local(day.file.key)
    assert path is not None
    whole = path.read_bytes()
    damaged(path, damage)
    with pytest.raises(CorruptArtifact, match=day.file.sha256):
        nights.run("validate", inputs={"ingest": ingested})

    # As the chain does before it reuses a result: it is moved aside, and the stage runs again under its fingerprint.
    assert discard_damaged(nights.store, ingested.key.rpartition("/")[0]) == [f"{day.day}.parquet"]
    again = nights.run("ingest", parts={"run": ingested.result.parts["run"]})
    assert again.key == ingested.key
    assert again.result.content == ingested.result.content
    assert verify(nights.store, again) == []
    assert path.read_bytes() == whole
    nights.run("validate", inputs={"ingest": again})


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_later_night_finds_the_damaged_day_by_itself(tmp_path: Path, damage: str) -> None:
    nights = clicks(tmp_path)
    nights.put_window()
    day = summaries.snapshot(nights.run("ingest").result).days[1]
    path = nights.store.local(day.file.key)
    assert path is not None
    damaged(path, damage)
    nights.put(LAST + timedelta(days=1))
    later = nights.run("ingest", data_date=LAST + timedelta(days=1))
    assert day in summaries.snapshot(later.result).days
    assert verify(nights.store, later) == []
    assert fetch(nights.store, day.file, tmp_path) == path


def test_in_a_bucket_a_changed_byte_is_mended_once_it_was_found(tmp_path: Path, s3_uri: str) -> None:
    nights = clicks(tmp_path, s3_uri)
    nights.put_window()
    ingested = nights.run("ingest")
    day = summaries.snapshot(ingested.result).days[1]
    whole = nights.store.read(day.file.key)
    kept = tmp_path / "kept.parquet"
    kept.write_bytes(whole)
    damaged(kept, "flipped")
    nights.store.upload(kept, day.file.key)
    assert discard_damaged(nights.store, ingested.key.rpartition("/")[0]) == [f"{day.day}.parquet"]
    again = nights.run("ingest", parts={"run": ingested.result.parts["run"]})
    assert again.result.content == ingested.result.content
    assert nights.store.read(day.file.key) == whole


@pytest.mark.heavy
@pytest.mark.xdist_group("snapshot")
def test_the_same_run_again_mends_its_snapshot_and_gives_the_same_numbers(tmp_path: Path) -> None:
    data, store = str(sample(tmp_path / "data")), str(tmp_path / "store")
    first = run("search-ranking", data, store)
    assert first.code == 0, first.err
    files = sorted(Path(store).glob("tables/search-ranking/*/date=*/*.parquet"))
    whole = [path.read_bytes() for path in files]
    for damage, path in zip(DAMAGES, files, strict=False):
        damaged(path, damage)

    again = run("search-ranking", data, store)
    assert again.code == 0, again.err
    assert [path.read_bytes() for path in files] == whole
    assert (again.json["metrics"], again.json["model"]) == (first.json["metrics"], first.json["model"])
    assert built(again) == ["ingest"]
    assert built(run("search-ranking", data, store)) == []


def built(ended: CallResult) -> list[str]:
    """The stages that were computed."""
    return [stage["name"] for stage in ended.json["stages"] if stage["state"] == "done" and not stage["cached"]]
