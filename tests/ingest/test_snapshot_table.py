from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaProtocolError

from ratchet.contracts.errors import CorruptArtifact, NoAnswer, Unavailable
from ratchet.contracts.result import Artifact
from ratchet.store.base import Store
from ratchet.store.opening import open_store
from tasks.ingest import snapshot_table
from tasks.ingest.schema import arrow_schema
from tasks.ingest.snapshot_table import commit, commit_past
from tasks.ingest.stored_days import file_key
from tasks.ingest.writing import write
from tests.s3 import S3Server
from tests.s3_proxy import Refusal, s3_proxy
from tests.s3_tokens import EXPIRED

KEY = "tables/clicks/abc"
D1, D2 = date(2026, 11, 19), date(2026, 11, 20)
SCHEMA = arrow_schema({"a": "int64", "t": "timestamp"})
TABLE = SCHEMA.append(pa.field("date", pa.date32()))


def put(store: Store, folder: Path, day: date, *values: int) -> Artifact:
    path = folder / f"{day}-{'-'.join(map(str, values))}.parquet"
    written = write(pa.table({"a": values, "t": [None] * len(values)}, SCHEMA).to_batches(), SCHEMA, path)
    key = file_key(KEY, day, written.sha256)
    store.upload(path, key)
    return Artifact(key=key, sha256=written.sha256, bytes=written.bytes, rows=written.rows)


def held(store: Store, version: int | None = None) -> list[tuple[date, int]]:
    frame = pl.from_arrow(DeltaTable(store.table(KEY)[0], version=version).to_pyarrow_table())
    return sorted(frame.select("date", "a").rows())


def test_a_changed_day_is_replaced_whole_and_others_stay(tmp_path: Path) -> None:
    store = open_store((tmp_path / "store").as_uri())
    first = commit(store, KEY, TABLE, {D1: put(store, tmp_path, D1, 1, 2), D2: put(store, tmp_path, D2, 3)})
    second = commit(store, KEY, TABLE, {D2: put(store, tmp_path, D2, 4, 5)})
    assert second == first + 1
    assert held(store) == [(D1, 1), (D1, 2), (D2, 4), (D2, 5)]
    assert held(store, first) == [(D1, 1), (D1, 2), (D2, 3)]


def test_nothing_new_makes_no_version(tmp_path: Path) -> None:
    store = open_store((tmp_path / "store").as_uri())
    files = {D1: put(store, tmp_path, D1, 1)}
    assert commit(store, KEY, TABLE, files) == commit(store, KEY, TABLE, files) == 1


def test_many_writers_at_once_lose_nothing_and_leave_one_file_a_day(tmp_path: Path) -> None:
    store = open_store((tmp_path / "store").as_uri())
    nights = [
        {
            D1: put(store, tmp_path, D1, 1),
            D1 + timedelta(days=1 + i): put(store, tmp_path, D1 + timedelta(days=1 + i), i),
        }
        for i in range(6)
    ]
    with ThreadPoolExecutor(6) as pool:
        versions = list(pool.map(lambda files: commit(store, KEY, TABLE, files), nights))
    assert held(store) == [(D1, 1), *((D1 + timedelta(days=1 + i), i) for i in range(6))]
    for version, files in zip(versions, nights, strict=True):
        assert {day for day, _ in held(store, version)} >= set(files)


def test_two_writers_of_one_day_leave_one_of_their_files(tmp_path: Path) -> None:
    store = open_store((tmp_path / "store").as_uri())
    rivals = [{D1: put(store, tmp_path, D1, i)} for i in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda files: commit(store, KEY, TABLE, files), rivals))
    assert len(held(store)) == 1


@pytest.mark.parametrize(("lasts", "kind"), [(False, NoAnswer), (True, Unavailable)])
def test_a_table_that_others_keep_changing_is_waited_for_and_one_that_refuses_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Unavailable], *, lasts: bool
) -> None:
    store = open_store((tmp_path / "store").as_uri())
    others = iter([{D1: put(store, tmp_path, D1, number)} for number in range(3)])
    files = {D2: put(store, tmp_path, D2, 9)}
    replace = snapshot_table._replace

    def late(table: DeltaTable, *given: Any) -> int:
        if lasts:
            raise DeltaProtocolError("this table needs another writer")
        with monkeypatch.context() as undone:
            undone.setattr(snapshot_table, "_replace", replace)
            commit(store, KEY, TABLE, next(others))
        return replace(table, *given)

    monkeypatch.setattr(snapshot_table, "_ATTEMPTS", 2)
    monkeypatch.setattr(snapshot_table, "_replace", late)
    with pytest.raises(kind, match="refused 2 commits") as raised:
        commit(store, KEY, TABLE, files)
    assert type(raised.value) is kind


def log_of(store: Store, version: int) -> Path:
    path = store.local(f"{KEY}/_delta_log/{version:020}.json")
    assert path is not None
    return path


def test_a_day_outside_the_window_whose_path_in_the_log_is_damaged_is_named_again(tmp_path: Path) -> None:
    store = open_store((tmp_path / "store").as_uri())
    first = commit(store, KEY, TABLE, {D1: put(store, tmp_path, D1, 1, 2), D2: put(store, tmp_path, D2, 3)})
    log = log_of(store, first)
    log.write_text(log.read_text().replace(f'"path":"date={D1}', '"path":"date=2026-1!-19'))
    with pytest.raises(FileNotFoundError):
        held(store)
    repairs: list[str] = []
    commit(store, KEY, TABLE, {D2: put(store, tmp_path, D2, 4)}, on_repair=repairs.append)
    assert held(store) == [(D1, 1), (D1, 2), (D2, 4)]
    assert repairs == [f"{KEY}: the log named a file of {D1} that does not exist; it names the stored one now"]


def test_a_log_that_cannot_be_read_stops_the_run_and_its_remedy_works(tmp_path: Path) -> None:
    store = open_store((tmp_path / "store").as_uri())
    files = {D1: put(store, tmp_path, D1, 1)}
    log = log_of(store, commit(store, KEY, TABLE, files))
    data = log.read_bytes()
    log.write_bytes(data[:30] + b"\0" + data[31:])
    with pytest.raises(CorruptArtifact, match=r"_delta_log cannot be read: .* move it away: the next run writes a new"):
        commit(store, KEY, TABLE, files)
    log.parent.rename(tmp_path / "moved")
    commit(store, KEY, TABLE, files)
    assert held(store) == [(D1, 1)]


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_log_that_the_store_does_not_give_or_take_is_no_damage(
    tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    refused = list[str]()

    def refuse(asked: str, path: str, _headers: object) -> Refusal | None:
        if asked != method or not path.endswith(".json") or "_delta_log" not in path or away != "away":
            return None
        refused.append(path)
        return EXPIRED

    away = "back"
    with s3_proxy(s3.endpoint, refuse=refuse) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        store = open_store(f"s3://{s3.bucket}/{tmp_path.name}")
        commit(store, KEY, TABLE, {D1: put(store, tmp_path, D1, 1)})
        away = "away"
        with pytest.raises(NoAnswer, match=r"tables/clicks/abc does not answer: .*ExpiredToken") as seen:
            commit(store, KEY, TABLE, {D2: put(store, tmp_path, D2, 2)})
        away = "back"
        assert "\n" not in str(seen.value)
        assert len(refused) == len(set(refused)) > 0  # it is the stage that is tried again
        assert commit(store, KEY, TABLE, {D2: put(store, tmp_path, D2, 2)}) == 2


def test_files_of_the_past_are_named_by_their_version_and_the_newest_rows_stay(tmp_path: Path) -> None:
    store = open_store((tmp_path / "store").as_uri())
    past = {D1: put(store, tmp_path, D1, 1), D2: put(store, tmp_path, D2, 2)}
    first = commit(store, KEY, TABLE, past)
    newest = commit(store, KEY, TABLE, {D2: put(store, tmp_path, D2, 22)})
    assert commit_past(store, KEY, TABLE, past) == first
    assert held(store) == held(store, newest) == [(D1, 1), (D2, 22)]


def test_files_that_never_were_together_get_a_version_and_the_newest_rows_stay(tmp_path: Path) -> None:
    store = open_store((tmp_path / "store").as_uri())
    old, new = put(store, tmp_path, D1, 1), put(store, tmp_path, D1, 11)
    commit(store, KEY, TABLE, {D1: old})
    commit(store, KEY, TABLE, {D1: new, D2: put(store, tmp_path, D2, 2)})
    mixed = {D1: old, D2: put(store, tmp_path, D2, 2)}
    past = commit_past(store, KEY, TABLE, mixed)
    assert held(store, past) == [(D1, 1), (D2, 2)]
    assert held(store) == [(D1, 11), (D2, 2)]
    assert commit_past(store, KEY, TABLE, mixed) == past


def test_an_old_version_is_not_named_again_where_rows_of_its_other_days_may_have_been_collected(tmp_path: Path) -> None:
    store = open_store((tmp_path / "store").as_uri())
    old = {D2: put(store, tmp_path, D2, 2)}
    first = commit(store, KEY, TABLE, {D1: put(store, tmp_path, D1, 1), **old})
    commit(store, KEY, TABLE, {D1: put(store, tmp_path, D1, 11), D2: put(store, tmp_path, D2, 22)})
    past = commit_past(store, KEY, TABLE, old)
    assert past > first
    assert held(store, past) == [(D1, 11), (D2, 2)]
    assert held(store) == [(D1, 11), (D2, 22)]


def test_a_day_that_the_table_does_not_hold_is_added_also_for_a_run_of_the_past(tmp_path: Path) -> None:
    store = open_store((tmp_path / "store").as_uri())
    commit(store, KEY, TABLE, {D2: put(store, tmp_path, D2, 2)})
    commit_past(store, KEY, TABLE, {D1: put(store, tmp_path, D1, 1)})
    assert held(store) == [(D1, 1), (D2, 2)]
