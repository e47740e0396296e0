"""A range of real dates along its own winners, and the last of them let into production."""

from datetime import timedelta
from pathlib import Path

import pytest

from ratchet.contracts import paths
from ratchet.store.ledger import records
from ratchet.store.opening import open_store
from tests.runs.nights import DAY, ratchet, run, sample

pytestmark = [pytest.mark.heavy, pytest.mark.xdist_group("backfill")]
FIRST = DAY - timedelta(days=2)
RANGE = ("--from", FIRST.isoformat(), "--to", DAY.isoformat())


def test_a_range_has_one_first_model_and_its_last_date_alone_may_promote(tmp_path: Path) -> None:
    data, place = str(sample(tmp_path / "data")), str(tmp_path / "store")
    ended = run("search-ranking", data, place, *RANGE, "--promote", "latest")
    assert ended.code == 0, ended.err
    first, second, last = (night["reason"] for night in ended.json)
    assert "the mean label by item_id has" in first
    assert f"this backfill's winner of {FIRST} has" in second
    assert "the mean label by item_id has" in last  # production has no model yet
    store = open_store(place)
    assert [record.data_date for record in records(store, "search-ranking")] == [DAY]
    (chain,) = {entry.key.split("/")[2] for entry in store.list("shadow/search-ranking")}
    shadow = records(store, "search-ranking", place=paths.shadow("search-ranking", chain))
    assert shadow[0].data_date == FIRST
    assert DAY not in {record.data_date for record in shadow}
    shown = ratchet("nights", "search-ranking", "--store", place, "--json").json
    assert [line["against"] for line in shown] == ["", f"this backfill's winner of {FIRST}", ""]
    assert {line["chain"] for line in shown} == {chain}


def test_the_last_date_is_refused_before_the_first_one_runs(tmp_path: Path) -> None:
    asked = run("search-ranking", str(tmp_path), str(tmp_path / "store"), "--promote", "latest", "--date", "2026-03-20")
    assert asked.code == 64
    assert "--promote latest is for a range of dates" in asked.err
