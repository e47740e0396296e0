"""Days that are older than the limit go, but for those that a model or a run names, and a night says what it misses."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ratchet.contracts import paths, summaries
from ratchet.contracts.errors import DataRejected
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.further_source import further
from ratchet.contracts.request import Outcome
from ratchet.contracts.snapshot import Snapshot
from ratchet.contracts.summaries import Split
from ratchet.runs.data_days import data_days, newest_plan
from ratchet.runs.lost_versions import lost_versions, why_lost
from ratchet.runtime.held_days import table_of
from ratchet.store.version_records import keep_record
from tasks.keeping.expire import Expired, expire
from tasks.keeping.purge import purge
from tests.ingest.test_joins import filled, put_users
from tests.keeping.test_purge import COLUMNS, KEY, users
from tests.runs.nights import ratchet
from tests.runs.test_day_records import plan
from tests.store.test_version_records import record
from tests.turned_times import turn_round
from tests.world import LAST, World, clicks

DAYS = [LAST - timedelta(days=back) for back in range(5, -1, -1)]
WHO: dict[str, Any] = {"by": "Ada", "because": "policy"}


def night(world: World, day: Any, *, ends: bool = True) -> Snapshot:
    """A run of a date that ingests, and ends."""
    planned = plan(world, day)
    world.run_id = planned.run_id
    made = world.run("ingest", day, planned=(planned.source_root, planned.source))
    if ends:
        outcome = Outcome(stage="report", state="done").model_dump_json(by_alias=True).encode()
        world.store.create(paths.outcome("clicks", planned.run_id, "report"), outcome)
    return summaries.snapshot(made.result)


def register(world: World, version: str, snapshot: Snapshot) -> None:
    made = record(version, digest(version.encode()))
    days = [day.day for day in snapshot.days]
    trained = made.trained.model_copy(
        update={"split": Split(train=tuple(days[:-2]), valid=(days[-2],), holdout=(days[-1],))}
    )
    change = {"model": "clicks", "pipeline": "clicks", "snapshot": snapshot, "trained": trained}
    keep_record(world.store, made.model_copy(update=change))


def made(folder: Path) -> World:
    """Six days, and nights of the third to the last, each with a window of three."""
    world = clicks(folder, columns=COLUMNS)
    (world.pipeline / "pipeline.yaml").write_text("name: clicks\n", encoding="utf-8")
    for day in DAYS:
        world.put(day, users(20, day))
    return world


def days_of(done: Expired) -> tuple[list[Any], list[Any]]:
    return [file.day for file in done.gone], [one.file.day for one in done.kept]


def test_old_days_go_but_for_those_that_a_model_or_a_run_under_way_names(tmp_path: Path) -> None:
    world = made(tmp_path)
    register(world, "1", night(world, DAYS[2]))
    night(world, DAYS[3])
    night(world, DAYS[4], ends=False)
    world.document["register"] = {"model": "clicks-v2"}
    night(world, DAYS[5])
    index = tmp_path / "store" / paths.snapshot_index(table_of(world.spec))
    whole = index.read_bytes()
    index.write_bytes(b"damaged")
    said = expire(world.store, "clicks", 3, do=False, **WHO)
    assert days_of(said) == ([], DAYS[:3])
    assert said.before == DAYS[3]
    assert [one.why for one in said.kept] == [
        "clicks version 1",
        "clicks version 1",
        "clicks version 1 and 1 more",
    ]
    assert index.read_bytes() == b"damaged"
    index.write_bytes(whole)
    far = f"{table_of(world.spec)}/date=2099-01-01/{'0' * 64}.parquet"
    world.store.create(far, b"")
    done = expire(world.store, "clicks", 3, do=True, archived=True, today=LAST, **WHO)
    world.store.delete(far)
    assert days_of(done) == (DAYS[:2], [DAYS[2]])
    assert "which has not ended" in done.kept[0].why
    assert done.bytes == sum(file.entry.bytes for file in done.gone) > 0
    assert [one.version for one in lost_versions(world.store, "clicks", {file.sha256 for file in done.gone})] == ["1"]
    shown = {day.day: (day.state, day.why) for day in data_days(world.store, "clicks")}
    assert [shown[day][0] for day in DAYS] == ["expired"] * 2 + ["arrived"] * 4
    assert "by Ada because policy" in shown[DAYS[0]][1]
    assert expire(world.store, "clicks", 3, do=True, archived=True, **WHO).gone == ()


def test_the_limit_and_the_tables_are_of_the_run_that_was_planned_last_in_a_copy_of_the_store(tmp_path: Path) -> None:
    """Whether the lines of the runs are there or not."""
    world = made(tmp_path)
    for day, keep_days in ((DAYS[4], 3), (DAYS[5], 4)):
        world.document["source"]["keep_days"] = keep_days
        night(world, day)
    turn_round(world.store, "nights")
    for _ in range(2):
        assert newest_plan(world.store, "clicks").data_date == DAYS[5]
        said = ratchet("data", "expire", "clicks", "--store", world.store.uri, "--by", "Ada", "--because", "policy")
        assert (said.code, f"{DAYS[2]}" in said.out) == (0, True), said
        world.store.delete(paths.run_index("clicks"))


def test_a_night_that_needs_an_expired_day_says_so_and_reads_it_where_the_source_has_it(tmp_path: Path) -> None:
    world = made(tmp_path)
    for day in DAYS[2:]:
        night(world, day)
    expire(world.store, "clicks", 3, do=True, **WHO)
    for path in (tmp_path / "source" / f"date={DAYS[0]}").iterdir():
        path.unlink()
    with pytest.raises(DataRejected, match=rf"{DAYS[0]} expired on .* by Ada because policy"):
        night(world, DAYS[2])
    world.put(DAYS[0], users(20, DAYS[0]))
    assert [day.day for day in night(world, DAYS[2]).days] == DAYS[:3]


def test_a_version_that_cannot_be_reproduced_is_said_with_who_and_why(tmp_path: Path) -> None:
    world = made(tmp_path)
    snapshot = night(world, DAYS[2])
    register(world, "1", snapshot)
    register(world, "2", night(world, DAYS[5]))
    (world.source / f"date={DAYS[5]}" / "part-0.parquet").unlink()
    given = {"column": "user", "values": [KEY], "by": "Ada", "because": "a request", "do": True}
    done = purge(world.store, "clicks", **given)
    assert [(one.version, one.trained, len(one.days)) for one in done.versions] == [("2", True, 3), ("1", True, 3)]
    kept = record("1", digest(b"1")).model_copy(update={"pipeline": "clicks", "snapshot": snapshot})
    (line,) = why_lost(world.store, kept)
    assert line.startswith(f"no longer reproducible: rows of {DAYS[0]} and 2 more days were purged on ")
    assert line.endswith("by Ada because a request")
    shown = ratchet("data", "clicks", "--store", str(tmp_path / "store")).out
    assert "by Ada because a request; no longer reproducible: clicks version 2, clicks version 1" in shown


def test_days_that_the_oldest_kept_day_was_joined_from_stay(tmp_path: Path) -> None:
    world = filled(tmp_path)
    night(world, LAST)
    done = expire(world.store, "clicks", 1, do=True, archived=True, **WHO)
    tables = {table_of(world.spec): "clicks", table_of(further(world.spec, "users")): "users"}
    assert {(tables[file.table], file.day) for file in done.gone} == {("clicks", day) for day in DAYS[3:5]}


def test_a_purged_key_is_in_no_day_of_a_further_source_and_later_nights_are_joined(tmp_path: Path) -> None:
    world = filled(tmp_path)
    for day in (LAST - timedelta(days=back) for back in range(3)):
        put_users(world, day, [("z", 1, datetime(day.year, day.month, day.day, 9), "zed", 1)], name="z")
    night(world, LAST)
    purge(world.store, "clicks", "user_id", ["a"], do=True, **WHO)
    files = [entry.key for entry in world.store.list("tables") if entry.key.endswith(".parquet")]
    found = [row["user_id"] for key in files for row in pq.read_table(world.store.local(key)).to_pylist()]
    assert {*found} == {"z"}
    snapshot = night(world, LAST, ends=False)
    rows = [row for day in snapshot.days for row in pq.read_table(world.store.local(day.file.key)).to_pylist()]
    assert [(row["user_id"], row["plan"]) for row in rows] == [("z", "zed")] * 3
