"""Purged keys whose column has another name, another type or other codes now, or is in the pipeline file no more."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ratchet.contracts import paths, summaries
from ratchet.contracts.errors import ConfigurationError
from ratchet.store.removals import removals
from tasks.keeping import purge as purging
from tests.keeping.test_purge import KEY, do, holders, made
from tests.runs.nights import ratchet
from tests.runs.test_day_records import plan
from tests.world import LAST, SPEC, World, clicks, rows

IDS: dict[str, Any] = {"role": "categorical", "type": "int64"}
WORDS: dict[str, Any] = {"role": "categorical", "type": "string"}


def world_of(folder: Path, values: list[Any], column: dict[str, Any], **source: Any) -> World:
    """A pipeline whose source has three days with a column `user` of these values."""
    world = clicks(folder, columns={**SPEC["columns"], "user": column}, source=source)
    (world.pipeline / "pipeline.yaml").write_text("name: clicks\n", encoding="utf-8")
    fill(world, values)
    return world


def fill(world: World, values: list[Any]) -> None:
    for day in (LAST - timedelta(days=back) for back in range(3)):
        world.put(day, {**rows(9, day), "user": [values[i % len(values)] for i in range(9)]})


def night(world: World, column: str = "user") -> set[str]:
    """What the days of a run have in a column."""
    planned = plan(world, LAST)
    world.run_id = planned.run_id
    days = summaries.snapshot(world.run("ingest").result).days
    return {f"{value}" for day in days for value in _column(world, day.file.key, column)}


def _column(world: World, key: str, column: str) -> list[Any]:
    return pq.ParquetFile(world.store.local(key)).read([column]).column(0).to_pylist()


@pytest.mark.parametrize(
    ("before", "purged", "after", "left"),
    [
        (([7, 8], IDS, {}), "7", (["007", "8"], WORDS, {}), {"8"}),
        ((["007", "8"], WORDS, {}), "007", ([7, 8], IDS, {}), {"8"}),
        ((["a", "b"], IDS, {"user": ["a", "b"]}), "0", (["a", "b"], IDS, {"user": ["b", "a"]}), {"0"}),
        ((["a", "b"], IDS, {"user": ["a", "b"]}), "0", (["a", "b"], WORDS, {}), {"b"}),
    ],
)
def test_a_column_of_another_type_or_of_other_codes_brings_no_row_back_and_loses_no_other(
    tmp_path: Path, before: Any, purged: str, after: Any, left: set[str]
) -> None:
    values, column, codes = before
    world = world_of(tmp_path, values, column, codes=codes)
    night(world)
    do(world.store, values=[purged])
    values, column, codes = after
    world.document["columns"]["user"], world.document["source"]["codes"] = column, codes
    fill(world, values)
    assert night(world) == left


def test_a_purge_finds_the_key_in_tables_of_before_and_says_where_lists_are(tmp_path: Path) -> None:
    world = world_of(tmp_path, [["7"], ["8"]], {**WORDS, "type": "list<string>", "max_length": 2})
    night(world)
    for values, column, codes in (
        (["007", "8"], WORDS, {}),
        (["8", "7"], IDS, {"user": ["8", "7"]}),
        ([7, 8], IDS, {}),
    ):
        world.document["columns"]["user"], world.document["source"]["codes"] = column, codes
        fill(world, values)
        night(world)
    done = do(world.store, values=["7"])
    assert {file.day for file in done.without} == {LAST - timedelta(days=back) for back in range(3)}
    lists = {file.table for file in done.without}
    keys = [entry.key for entry in world.store.list("tables") if entry.key.endswith(".parquet")]
    others = [key for key in keys if "/_delta_log/" not in key and key.split("/date=")[0] not in lists]
    assert {f"{value}" for key in others for value in _column(world, key, "user")} == {"8", "0"}
    with pytest.raises(ConfigurationError, match="is no column of clicks, and never was"):
        do(world.store, column="usr")


def test_a_renamed_column_brings_no_row_back_and_one_that_is_gone_can_be_purged(tmp_path: Path) -> None:
    world = world_of(tmp_path, [KEY, "8", "9"], WORDS)
    night(world)
    do(world.store)
    world.document["columns"]["member"] = world.document["columns"].pop("user")
    world.document["source"]["names"] = {"member": "user"}
    assert night(world, "member") == {"8", "9"}
    del world.document["columns"]["member"], world.document["source"]["names"]
    night(world, "price")
    assert {one.rows for one in do(world.store, column="member", values=["8"]).found} == {3}
    assert [one.rows for one in do(world.store, column="user", values=["9"]).found] == [3] * 6


def test_an_interrupted_purge_is_ended_without_its_keys_though_the_column_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = made(tmp_path, encoded=False)

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(purging, "without_rows", killed)
        with pytest.raises(KeyboardInterrupt):
            do(world.store)
    world.document["columns"] = SPEC["columns"]
    plan(world, LAST)
    words = ("data", "purge", "clicks", "--because", "x", "--yes", "--store", str(tmp_path / "store"), "--resume")
    assert "has no purge of this number that has begun and not ended" in ratchet(*words, "2").err
    real = purging.only_removal

    def after_another(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(purging, "only_removal", real)
        assert len(do(world.store, resume=1).found) == 3
        return real(*given, **named)

    monkeypatch.setattr(purging, "only_removal", after_another)
    ended = ratchet(*words, "1")
    assert [len(one.days) for one in removals(world.store, "clicks")] == [3]
    assert (ended.code, KEY in ended.out) == (0, False), ended.err
    assert [one.ended is not None for one in removals(world.store, "clicks")] == [True]
    assert holders(tmp_path / "store") == []
    assert b"[purged]" in world.store.read(paths.log("clicks", world.run_id, "ingest", 1))
