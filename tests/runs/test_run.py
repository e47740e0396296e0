"""`ratchet run`: nights in order, the cache, what it prints, and how it fails."""

import os
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from ratchet.runs.history import plan_of, runs_of
from ratchet.runs.planning import make_plan
from ratchet.store.ledger import records
from ratchet.store.opening import open_store
from tests.runs.nights import DAY, ROOT, SMALL, ratchet, run, sample

pytestmark = [pytest.mark.heavy, pytest.mark.xdist_group("runs")]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(sample(tmp_path_factory.mktemp("data")))


@pytest.fixture(scope="module")
def nights(data: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[dict[str, object]]]:
    """A store after two nights, and what they said."""
    store = str(tmp_path_factory.mktemp("store") / "s")
    ended = run("search-ranking", data, store, "--from", "2026-03-19", "--to", "2026-03-20", "--promote", "auto")
    assert ended.code == 0, ended.err
    return store, ended.json


def test_the_second_night_meets_the_first_one_s_model(nights: tuple[str, list[dict[str, object]]]) -> None:
    store, (first, second) = nights
    assert first["verdict"] == "promote"
    assert first["model"] == {"name": "search-ranking", "version": "1"}
    assert second["date"] == "2026-03-20"
    history = records(open_store(store), "search-ranking")
    assert history[0].data_date.isoformat() == "2026-03-19"
    assert second["metrics"]["baseline"] != first["metrics"]["baseline"]  # type: ignore[index]


def test_the_same_night_again_is_found_in_the_cache(nights: tuple[str, list[dict[str, object]]], data: str) -> None:
    store, (_, second) = nights
    again = run("search-ranking", data, store).json
    assert all(stage["cached"] or stage["state"] == "skipped" for stage in again["stages"])
    for key in ("verdict", "metrics", "model", "reason"):
        assert again[key] == second[key]


def test_why_and_plan_list_what_is_reused_and_what_would_be_rebuilt(
    nights: tuple[str, list[dict[str, object]]], data: str
) -> None:
    store, _ = nights
    newest = ratchet("why", "search-ranking", "--store", store).out.splitlines()[0]
    shown = ratchet("why", newest, "--store", store)
    assert shown.code == 0
    assert "train     rebuilt" in shown.out
    assert "no result is stored yet" in shown.out
    asked = ("plan", "search-ranking", "--store", store, "--date", DAY.isoformat(), *SMALL)
    planned = ratchet(*asked, environment={"RATCHET_DATA": data})
    assert planned.code == 0, planned.err
    assert planned.out.count(" cached ") >= 5
    other = ratchet(*asked, "--set", "train.epochs=5", environment={"RATCHET_DATA": data})
    assert "config.train.epochs: 3 -> 5" in other.out
    assert "it needs the new result of train" in other.out
    nobody = ratchet("why", "search-ranking/nobody", "--store", store)
    assert nobody.code == 64
    assert "no run 'nobody' of search-ranking" in nobody.err


def test_nights_shows_a_line_for_each_date_and_writes_a_page(
    nights: tuple[str, list[dict[str, object]]], tmp_path: Path
) -> None:
    store, (first, _) = nights
    asked = ("nights", "search-ranking", "--store", store)
    lines = ratchet(*asked, "--json").json
    assert [line["day"] for line in lines] == ["2026-03-19", "2026-03-20"]
    assert (lines[0]["standing"], lines[0]["would_promote"], lines[0]["promoted"]) == ("promote", True, True)
    assert lines[0]["cause"] == first["reason"]
    assert lines[0]["gain"]["low"] > 0
    page = tmp_path / "nights.html"
    shown = ratchet(*asked, "--from", "2026-03-20", "--html", str(page))
    assert "1 date; " in shown.out
    assert "2026-03-20" in page.read_text(encoding="utf-8")
    assert "2026-03-19" not in page.read_text(encoding="utf-8")
    shown = ratchet(*asked).out
    assert "2 dates; " in shown
    nobody = ratchet("nights", "nobody", "--store", store)
    assert (nobody.code, "no run of 'nobody'" in nobody.err) == (64, True)


def test_a_past_date_is_planned_with_the_data_that_its_own_night_saw(
    nights: tuple[str, list[dict[str, object]]], data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _ = nights
    monkeypatch.setenv("RATCHET_DATA", data)
    kept = open_store(store)
    own = plan_of(kept, "search-ranking", runs_of(kept, "search-ranking", DAY)[0])
    assert own is not None
    late = next((Path(data) / "clicks" / f"date={DAY - timedelta(days=2)}").iterdir()).with_name("late.parquet")
    late.write_bytes(next(late.parent.iterdir()).read_bytes())
    try:
        planned = {
            as_of: make_plan(
                folder=ROOT / "dags" / "pipelines" / "search-ranking",
                spec=own.spec,
                data_date=DAY,
                run_id=f"past-{as_of}",
                kind="backfill",
                store_uri=store,
                as_of=as_of,
                publish=False,
            )
            for as_of in ("then", "now")
        }
    finally:
        late.unlink()
    then = planned["then"].source
    assert [day.files for day in then] == [day.files for day in own.source]
    assert all(day.held is not None for day in then)
    assert planned["now"].source != own.source


def test_a_past_date_runs_to_the_same_bits_without_its_source(
    nights: tuple[str, list[dict[str, object]]], tmp_path: Path
) -> None:
    store, (_, own) = nights
    gone = ("search-ranking", str(tmp_path / "gone"), store)
    again = run(*gone, "--as-of", "then")
    assert again.code == 0, again.err
    for key in ("verdict", "metrics", "model", "reason"):
        assert again.json[key] == own[key]
    assert {stage["name"]: stage["cached"] for stage in again.json["stages"]}["train"]
    assert "the source as it was then" in Path(again.json["report"]).read_text(encoding="utf-8")
    now = run(*gone)
    assert (now.code, "does not exist" in now.err) == (64, True)


def test_a_plan_names_the_days_that_changed_and_those_that_the_source_has_no_more(
    nights: tuple[str, list[dict[str, object]]], data: str, tmp_path: Path
) -> None:
    store, _ = nights
    other = shutil.copytree(data, tmp_path / "other")
    changed, lost = DAY - timedelta(days=1), DAY - timedelta(days=2)
    file = next((other / "clicks" / f"date={changed}").iterdir())
    os.utime(file, (1, 1))
    shutil.rmtree(other / "clicks" / f"date={lost}")
    asked = ("plan", "search-ranking", "--store", store, "--date", DAY.isoformat(), *SMALL)
    shown = ratchet(*asked, environment={"RATCHET_DATA": str(other)}).out
    assert f"1 day changed, or Ratchet reads them otherwise now, and would be read again: {changed}" in shown
    assert f"1 day would be taken from the snapshot, as the source has them no more, or not whole: {lost}" in shown


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (("--set", "train.epoch=1"), 64, "--set train.epoch: train.epoch: unknown key"),
        (("--date", "yesterday"), 64, "--date: 'yesterday' is not a date; to do: write it like 2026-11-20"),
        (("--from", "2026-03-19"), 64, "--from and --to go together"),
        (("--from", "2026-03-20", "--to", "2026-03-19"), 64, "--from 2026-03-20 is after --to 2026-03-19"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_clear_line_and_nothing_is_written(
    more: tuple[str, ...], code: int, said: str, data: str, tmp_path: Path
) -> None:
    ended = ratchet(
        "run", "search-ranking", "--store", str(tmp_path / "s"), "--runner", "process", *more,
        environment={"RATCHET_DATA": data},
    )  # fmt: skip
    assert ended.code == code
    assert said in ended.err
    assert "Traceback" not in ended.err
    assert not (tmp_path / "s").exists()


def test_data_that_breaks_a_rule_stops_the_run_before_anything_is_trained(data: str, tmp_path: Path) -> None:
    ended = run("search-ranking", data, str(tmp_path / "s"), "--set", "columns.price.max=40")
    assert ended.code == 65
    said = ended.json
    assert [stage["name"] for stage in said["stages"]] == ["ingest", "validate", "report"]
    assert "price" in said["error"]["cause"]
    assert said["verdict"] is None
    assert said["model"] is None
    page = Path(said["report"]).read_text(encoding="utf-8")
    assert "price" in page


def test_a_day_that_is_not_there_is_named(data: str, tmp_path: Path) -> None:
    ended = run("search-ranking", data, str(tmp_path / "s"), "--set", "source.window_days=40")
    assert ended.code == 65
    assert "2026-02-09" in ended.json["error"]["cause"]
