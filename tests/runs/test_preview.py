"""What a run would do, from what is published, without writing anything."""

from datetime import date, timedelta
from pathlib import Path

import pytest

from ratchet.contracts.loading import load
from ratchet.contracts.snapshot import Snapshot
from ratchet.contracts.stages import REGULAR
from ratchet.runs.planning import make_plan
from ratchet.runs.preview import Preview, preview
from ratchet.runs.work import Work, settle
from ratchet.samples import clicks
from ratchet.store.opening import open_store
from ratchet.store.publishing import Transaction
from tests.production.test_baseline import promote
from tests.runs.recorded import keep

FOLDER = Path(__file__).resolve().parents[2] / "dags" / "pipelines" / "search-ranking"
DAY = date(2026, 3, 20)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty store, beside three days of clicks."""
    monkeypatch.setenv("RATCHET_DATA", str(tmp_path))
    for _ in clicks.write(tmp_path, days=3, rows_per_day=20, end=DAY, seed=0):
        pass
    return str(tmp_path / "store")


def previewed(store: str, **overrides: object) -> Preview:
    spec = load(FOLDER, {"source.window_days": 3, **overrides})
    return preview(folder=FOLDER, spec=spec, data_date=DAY, store_uri=store, tracking_uri=None)


def ingested(store: str, seconds: float) -> None:
    """Publish a snapshot as the run's ingest would."""
    spec = load(FOLDER, {"source.window_days": 3})
    plan = make_plan(folder=FOLDER, spec=spec, data_date=DAY, run_id="r", kind="local", store_uri=store)
    kept = open_store(store)
    work = settle(kept, plan, "ingest", "a", on_event=print)
    assert isinstance(work, Work)
    published = Transaction(kept, work.request.prefix, "a").commit(
        stage="ingest", fingerprint=work.request.fingerprint, parts=work.request.parts, content="c" * 64,
        summary=Snapshot(table="t", version=0, days=()), timings={"read": seconds},
    )  # fmt: skip
    kept.create(f"builds/search-ranking/ingest/{work.request.fingerprint}", b"")
    found = settle(kept, plan, "ingest", "a", on_event=print)
    assert not isinstance(found, Work)
    assert found.manifest == published.key
    keep(kept, plan, found)


def test_a_date_that_would_train_again_meets_the_champion_that_it_made_before(store: str) -> None:
    for number, day in enumerate((DAY - timedelta(days=1), DAY)):
        promote(open_store(store), str(number), day, after=number, beaten=None, model="search-ranking")
    assert previewed(store).baseline == "search-ranking version 2"


def test_in_an_empty_store_every_stage_is_built_after_the_first_and_nothing_is_written(store: str) -> None:
    shown = previewed(store)
    assert [line.stage for line in shown.stages] == list(REGULAR)
    assert {line.state for line in shown.stages} == {"build"}
    assert shown.stages[0].because == "no result is stored yet"
    assert {line.because for line in shown.stages[1:]} == {"it needs the new result of ingest"}
    assert {(line.seconds, line.rows) for line in shown.stages} == {(None, None)}
    assert (shown.days, shown.baseline, shown.promotion) == (3, "none yet", "auto")
    assert shown.source_bytes == sum(path.stat().st_size for path in Path(store).parent.rglob("*.parquet"))
    assert (shown.seconds, shown.unknown, shown.gpu_hours, shown.missing) == (None, REGULAR, 0, ())
    assert [path for path in Path(store).rglob("*") if path.is_file()] == []


def test_a_published_stage_is_cached_and_the_next_is_built(store: str) -> None:
    ingested(store, seconds=12.5)
    ingest, validate, features, *_ = previewed(store).stages
    assert (ingest.state, ingest.because, ingest.seconds, ingest.rows) == ("cached", "its result is stored", 12.5, 0)
    assert (validate.state, validate.because) == ("build", "no result is stored yet")
    assert (features.state, features.because) == ("build", "it needs the new result of validate")


def test_a_changed_key_is_the_reason_to_build_and_the_newest_build_says_how_long(store: str) -> None:
    ingested(store, seconds=12.5)
    changed = previewed(store, **{"source.missing_days": "skip"})
    assert changed.stages[0].state == "build"
    assert "config.source.missing_days" in changed.stages[0].because
    assert (changed.seconds, changed.unknown) == (12.5, REGULAR[1:])
