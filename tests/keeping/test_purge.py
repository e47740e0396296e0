"""A key that is purged: its rows leave each version of each day, and everything that was made of them; no others do."""

import io
import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow.parquet as pq
import pytest

from ratchet.contracts import paths, summaries
from ratchet.contracts.errors import ConfigurationError, DataRejected, Unavailable
from ratchet.model.hashing import text_ids
from ratchet.runs.compared import compare_all
from ratchet.runs.day_records import day_states, record_day
from ratchet.runs.standstill import only_removal, wait_for_jobs
from ratchet.runtime.held_days import read_index
from ratchet.store.base import Store
from ratchet.store.lease import new_lease
from ratchet.store.opening import open_store
from ratchet.store.publishing import read_manifest
from ratchet.store.removals import keep, removals
from ratchet.store.sealed import seal
from ratchet.store.version_records import keep_record
from tasks.keeping.purge import Purged, purge
from tasks.validate.profile import Profile
from tests.keeping.test_version_texts import named
from tests.runs.nights import ratchet
from tests.runs.test_day_records import plan
from tests.world import LAST, SPEC, World, clicks, rows

KEY = "ada@example.org"
COLUMNS = {**SPEC["columns"], "user": {"role": "categorical", "type": "string"}}


def users(count: int, day: Any) -> dict[str, list[Any]]:
    """A day with four rows of the key, and of three users with many rows."""
    return {**rows(count, day), "user": [KEY if 4 <= i < 8 else f"user-{i % 3}" for i in range(count)]}


def made(folder: Path, store: str | None = None, *, encoded: bool = True) -> World:
    """Three days, ingested, and validated and encoded if `encoded`, in one run."""
    world = clicks(folder, store=store, columns=COLUMNS)
    (world.pipeline / "pipeline.yaml").write_text("name: clicks\n", encoding="utf-8")
    for back in range(3):
        world.put(LAST - timedelta(days=back), users(60, LAST - timedelta(days=back)))
    planned = plan(world, LAST)
    world.run_id = planned.run_id
    ingested = world.run("ingest")
    if encoded:
        validated = world.run("validate", None, {"ingest": ingested})
        world.run("features", None, {"ingest": ingested, "validate": validated})
    log = paths.log("clicks", planned.run_id, "ingest", 1)
    world.store.create(log, f"5 rows of {KEY}: odd\nall else is well\n".encode())
    return world


def do(store: Store, **changes: Any) -> Purged:
    """Purge the key."""
    given = {"column": "user", "values": [KEY], "by": "Ada", "because": "a request", "do": True}
    return purge(store, "clicks", **{**given, **changes})


def holders(folder: Path) -> list[str]:
    """The files that have the key: as bytes, inside Parquet, or as the id of a category."""
    identity, found = text_ids([KEY])[0], []
    for path in sorted(filter(Path.is_file, folder.rglob("*"))):
        data = path.read_bytes()
        has = KEY.encode() in data or int(identity).to_bytes(8, "little", signed=True) in data
        if data[:4] == b"PAR1":
            has |= KEY in pq.read_table(path).column("user").to_pylist()
        if data[:6] == b"\x93NUMPY":
            has |= bool((np.load(path) == identity).any())
        found += [path.relative_to(folder).as_posix()] if has else []
    return found


def test_a_purge_says_first_what_it_would_do_and_then_leaves_no_byte_of_the_key(tmp_path: Path) -> None:
    world = made(tmp_path)
    folder = tmp_path / "store"
    ingested = summaries.snapshot(read_manifest(world.store, _newest(world, "ingest")).result)
    record_day(
        world.store, pipeline="clicks", data_date=LAST, run_id=world.run_id, stage="validate", state="done",
        snapshot=ingested,
    )  # fmt: skip
    keep_record(world.store, named("1").model_copy(update={"model": "clicks", "pipeline": "clicks"}))
    old_index = f"{paths.published('clicks', 'features.day', 'index')}/parts.json"  # as versions before wrote it
    assert world.store.create(old_index, b"{}")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    said = do(world.store, do=False)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert [(one.file.day, one.rows, one.total) for one in said.found] == [(day.day, 4, 60) for day in ingested.days]
    assert said.counts["profiles of days"] == 6
    assert said.counts["arrays of days"] > 6
    assert {"fitted state", "checks, pages and profiles of windows", "logs and pages that name the value"} <= {
        *said.counts
    }
    kinds = {name.split("/")[2] for name in holders(folder) if name.startswith("published/")}
    assert {"validate.day", "features.day", "features", "validate", "validate.sums"} <= kinds

    done = do(world.store)
    assert holders(folder) == []
    assert done.counts == said.counts
    compared = list(compare_all(world.store, "clicks"))
    assert [one for one in compared if one.damaged] == []
    assert sum(one.removed for one in compared) > 0
    assert world.store.head(old_index) is None
    index = read_index(world.store, world.spec)
    for day in ingested.days:
        held = index.days[day.day].day
        assert (held.source, held.file.rows) == (day.source, 56)
        kept = pq.read_table(folder / held.file.key).to_pydict()
        full = users(60, day.day)
        assert kept == {name: values[:4] + values[8:] for name, values in full.items()}
    (record,) = removals(world.store, "clicks")
    assert record.ended is not None
    assert KEY not in record.model_dump_json()
    assert day_states(world.store, "clicks", [LAST]).accepted == {LAST: paths.short(ingested.days[-1].source)}
    assert b"all else is well" in world.store.read(paths.log("clicks", world.run_id, "ingest", 1))
    profile = read_manifest(world.store, _newest(world, "validate")).result.outputs["reference"]
    counted = Profile.model_validate_json(world.store.read(profile.key)).columns["user"]
    assert (counted.rows, sum(counted.values.values())) == (112, 112)


def test_the_source_does_not_bring_a_key_back_and_the_state_of_the_day_holds(tmp_path: Path) -> None:
    world = made(tmp_path)
    before = summaries.snapshot(read_manifest(world.store, _newest(world, "ingest")).result)
    do(world.store)
    for entry in list(world.store.list(paths.published("clicks", paths.day_part("ingest")))):
        world.store.delete(entry.key)
    again = summaries.snapshot(world.run("ingest", parts={"rebuild": "by hand"}).result)
    assert [(day.source, day.file.rows) for day in again.days] == [(day.source, 56) for day in before.days]
    assert again.purged == tuple(day.day for day in again.days)
    assert "without purged rows of 3 of its days" in again.origin
    assert holders(tmp_path / "store") == []
    world.put(LAST, users(80, LAST))
    corrected = summaries.snapshot(world.run("ingest").result)
    assert [day.file.rows for day in corrected.days] == [56, 56, 76]
    assert holders(tmp_path / "store") == []


def test_a_run_that_has_read_the_rows_goes_no_further_and_a_new_one_does(tmp_path: Path) -> None:
    world = made(tmp_path)
    ingested = read_manifest(world.store, _newest(world, "ingest"))
    do(world.store)
    with pytest.raises(DataRejected, match=r"were purged on .* by Ada because a request"):
        world.run("validate", None, {"ingest": ingested})
    fresh = world.run("ingest")
    validated = world.run("validate", None, {"ingest": fresh})
    world.run("features", None, {"ingest": fresh, "validate": validated})
    assert holders(tmp_path / "store") == []


def test_a_purge_waits_for_jobs_and_names_them(tmp_path: Path) -> None:
    world = made(tmp_path, encoded=False)
    key = paths.lease("clicks", "train", "0" * 64)
    world.store.create(key, seal(new_lease("run-7", "a")))
    with pytest.raises(Unavailable, match="train of run run-7 may read these rows now"):
        do(world.store)
    assert removals(world.store, "clicks") == []
    pauses: list[float] = []

    def end(seconds: float) -> None:
        pauses.append(seconds)
        world.store.delete(key)

    wait_for_jobs(world.store, "clicks", wait_s=60, pause=end)
    assert len(pauses) == 1
    assert do(world.store).found
    other = paths.lease("clicks", "removal", "rows")
    world.store.create(other, seal(new_lease("removal-1 by Bob", "b")))
    with pytest.raises(Unavailable, match="removal-1 by Bob holds the rows of clicks"):
        do(world.store)
    world.store.delete(other)
    with only_removal(world.store, "clicks", "Ada", wait_s=0) as hold:
        (record,) = removals(world.store, "clicks")
        assert keep(world.store, "clicks", record, hold) == record
        held = world.store.head(other)
        assert world.store.replace(
            other, seal(new_lease("removal-2 by Bob", "b")), expected=held.etag if held else None
        )
        with pytest.raises(Unavailable, match="another process has taken over"):
            keep(world.store, "clicks", record, hold)


def test_a_store_in_s3_is_purged_as_a_folder_is(tmp_path: Path, s3_uri: str) -> None:
    world = made(tmp_path, s3_uri, encoded=False)
    done = do(open_store(s3_uri))
    assert [one.rows for one in done.found] == [4, 4, 4]
    copy = tmp_path / "copy"
    for place, entry in enumerate(world.store.list()):
        copy.mkdir(exist_ok=True)
        world.store.download(entry.key, copy / str(place))
    assert holders(copy) == []


def test_each_mistake_is_one_clear_line_without_the_key(tmp_path: Path) -> None:
    world = made(tmp_path, encoded=False)
    keys = tmp_path / "keys"
    keys.write_text(f"{KEY}\nbob@example.org\n", encoding="utf-8")
    store = ("--store", str(tmp_path / "store"))
    why = ("--because", "a request")
    for words, said in (
        (("purge", "clicks", *store, *why), "--column is missing"),
        (("purge", "clicks", "--column", "user", *store, *why), "no key is given"),
        (("purge", "clicks", "--column", "user", "--value", KEY, *store), "--because is missing"),
        (("purge", "clicks", "--column", "usr", "--value", KEY, *store, *why), "--column 'usr' is no column of clicks"),
        (("purge", "clicks", "--column", "price", "--value", KEY, *store, *why), "a value is no float64"),
        (
            ("purge", "clicks", "--column", "user", "--value", "a\udcff", *store, *why),
            "--value has bytes that are no UTF-8",
        ),
        (("purge", "clicks", "--column", "user", "--value", KEY, *store, "--because", f"for {KEY}"), "names a key"),
        (
            ("purge", "clicks", "--column", "user", "--value", KEY, *store, *why, "--by", f"{KEY}, Bob"),
            "--by names a key",
        ),
        (("purge", "clicks", "--keep-days", "3", *store, *why), "--keep-days: not with purge"),
        (("purge", "clicks", "--also-archived", *store, *why), "--also-archived: not with purge"),
        (("expire", "clicks", "--keep-days", "3", "--value", KEY, *store, *why), "--value: not with expire"),
        (("expire", "clicks", "--keep-days", "800000", *store, *why), "is more than 36,600"),
        (("purge", "nobody", "--column", "user", "--value", KEY, *store, *why), "no run of 'nobody'"),
        (("expire", "clicks", *store, *why), "source.keep_days of clicks is not set"),
        (("expire", "clicks", "--keep-days", "1", *store, *why), "less than source.window_days, 3"),
        (("clicks", "--yes", "--keep-days", "3", *store), "--keep-days and --yes: only with purge or expire"),
    ):
        ended = ratchet("data", *words)
        assert (ended.code, said in ended.err, KEY in ended.err) == (64, True, False), ended.err
    keys.write_bytes(f"\ufeff{KEY}\r\nbob@example.org\r\n{KEY} \nuser\u2028-1\n\n".encode())
    from_keys = ("purge", "clicks", "--column", "user", "--values-from", str(keys), *store, *why)
    ended = ratchet("data", *from_keys)
    assert (ended.code, "12 rows would be purged from 3 days" in ended.out) == (0, True), ended.err
    assert "3 keys of 4 without any row in the files of days" in ended.out
    assert "warning: 1 key with a blank at an end" in ended.err
    ended = ratchet("data", *from_keys, "--yes")
    assert (ended.code, KEY in ended.out) == (0, False), ended.err
    with patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{KEY}\n".encode()))):
        again = ratchet("data", *from_keys, "--values-from", "-", "--json").json
    assert (again["days"], again["keys"], again["keys_without_rows"]) == ([], 1, 1)
    with pytest.raises(ConfigurationError, match="or an empty one"):
        do(world.store, values=[""])


def _newest(world: World, stage: Any) -> str:
    outcome = json.loads(world.store.read(paths.outcome("clicks", world.run_id, stage)))
    return str(outcome["manifest"])


def test_what_began_before_a_purge_publishes_nothing_after_it(tmp_path: Path) -> None:
    world = made(tmp_path, encoded=False)
    ingested = read_manifest(world.store, _newest(world, "ingest"))
    request = world.request("validate", None, {"ingest": ingested})
    with world.open(request) as ctx:
        do(world.store)
        with pytest.raises(Unavailable, match="were removed while validate ran"):
            ctx.refuse_later_removal()
    fresh = world.run("ingest")
    with world.open(world.request("validate", None, {"ingest": fresh})) as ctx:
        do(world.store)  # again, which is no other record
        with pytest.raises(Unavailable, match="were removed while validate ran"):
            ctx.refuse_later_removal()
    copies = {entry.key for entry in world.store.list(paths.published("clicks", "validate"))}
    assert copies == set()


def test_a_column_that_is_gone_everywhere_stops_no_night_and_is_said(tmp_path: Path) -> None:
    world = made(tmp_path, encoded=False)
    do(world.store)
    world.document["columns"] = SPEC["columns"]
    assert [day.file.rows for day in summaries.snapshot(world.run("ingest").result).days] == [56] * 3
    assert "purged rows cannot be looked for" not in world.log.getvalue()
    world.put(LAST, rows(30))
    assert [day.file.rows for day in summaries.snapshot(world.run("ingest").result).days] == [56, 56, 30]
    assert "purged rows cannot be looked for: neither file nor source has user" in world.log.getvalue()
