"""Sources lie below the roots that the operator names, and in no store: when a run is planned, and when it ingests."""

import sqlite3
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from ratchet.contracts.environment import environment
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.loading import load
from ratchet.contracts.request import RunPlan
from ratchet.runs.jobs import job_for
from ratchet.runs.planning import make_plan
from ratchet.runs.requests import compose
from ratchet.runtime.source_reach import check_reach, check_roots, database_file
from ratchet.runtime.sources import list_days
from ratchet.samples import clicks
from ratchet.store.opening import open_store
from tests.world import clicks as clicks_world

FOLDER = Path(__file__).resolve().parents[2] / "dags" / "pipelines" / "search-ranking"
DAY = date(2026, 3, 20)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three days of clicks, which RATCHET_DATA names."""
    folder = tmp_path / "data"
    for _ in clicks.write(folder, days=3, rows_per_day=20, end=DAY, seed=0):
        pass
    monkeypatch.setenv("RATCHET_DATA", str(folder))
    return folder


def planned(store: Path, run_id: str = "r", **keys: Any) -> RunPlan:
    spec = load(FOLDER, {"source.window_days": 3, **{key.replace("__", "."): value for key, value in keys.items()}})
    return make_plan(folder=FOLDER, spec=spec, data_date=DAY, run_id=run_id, kind="local", store_uri=str(store))


@pytest.mark.parametrize(
    "roots", ["{0}/data", "{0}/data/", "file://{0}/data", "/elsewhere, {0}", "s3://x,{0}/data/clicks"]
)
def test_a_source_below_a_root_is_planned(data: Path, roots: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_SOURCE_ROOTS", roots.format(data.parent))
    assert planned(data.parent / "store").source_root == (data / "clicks").as_uri()


@pytest.mark.parametrize("roots", ["{0}/dat", "{0}/data/clicks/date=2026-03-20", "s3://data", "{0}/data2"])
def test_a_source_outside_of_the_roots_is_refused_by_the_plan(
    data: Path, roots: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_SOURCE_ROOTS", roots.format(data.parent))
    with pytest.raises(ConfigurationError, match=r"source\.uri: .* is outside of the folders that sources may use"):
        planned(data.parent / "store")


def test_a_root_that_the_operator_took_away_is_refused_by_the_stage(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned(data.parent / "store")
    store = open_store(plan.store)
    request = compose(store, plan, "ingest", {}, "a")
    monkeypatch.setenv("RATCHET_SOURCE_ROOTS", "/elsewhere")
    with pytest.raises(ConfigurationError, match=r"allowed: /elsewhere; to do: .*RATCHET_SOURCE_ROOTS"):
        job_for(request, store, None)


def test_the_stage_itself_checks_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = clicks_world(tmp_path)
    world.put_window()
    before = world.plan()
    monkeypatch.setenv("RATCHET_SOURCE_ROOTS", "/elsewhere")
    with pytest.raises(ConfigurationError, match="is outside of the folders"):
        world.run("ingest", planned=before)


def test_a_link_below_a_root_does_not_lead_out_of_it(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = data.parent / "allowed"
    allowed.mkdir()
    (allowed / "clicks").symlink_to(data / "clicks")
    monkeypatch.setenv("RATCHET_DATA", str(allowed))
    monkeypatch.setenv("RATCHET_SOURCE_ROOTS", str(allowed))
    with pytest.raises(ConfigurationError, match="is outside of the folders"):
        planned(data.parent / "store")


def test_a_bucket_with_a_similar_name_is_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_SOURCE_ROOTS", "s3://sources,s3://lake/open/")
    check_roots("s3://sources/clicks")
    check_roots("s3://lake/open")
    for place in ("s3://sources2/clicks", "s3://lake", "s3://lake/openly", "file:///sources"):
        with pytest.raises(ConfigurationError, match=r"allowed: s3://sources, s3://lake/open/"):
            check_roots(place)


@pytest.mark.parametrize("given", ["data", "./data", "https://x/y"])
def test_a_root_that_is_no_whole_place_is_refused(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_SOURCE_ROOTS", given)
    with pytest.raises(ConfigurationError, match=r"RATCHET_SOURCE_ROOTS: .* is neither a whole path nor a URI"):
        _ = environment().source_roots


def test_the_file_of_a_database_is_a_source_like_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "private" / "shop.db"
    file.parent.mkdir()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("create table t (x)")
    keys = {"source__kind": "sql", "source__uri": "sqlite:///${RATCHET_SOURCE_FILE}"}
    keys["source__query"] = "SELECT * FROM t WHERE day = :date"
    monkeypatch.setenv("RATCHET_SOURCE_FILE", str(file))
    planned(tmp_path / "store", **keys)
    monkeypatch.setenv("RATCHET_SOURCE_ROOTS", str(tmp_path / "data"))
    with pytest.raises(
        ConfigurationError, match=r"source\.uri: sqlite:///\$\{RATCHET_SOURCE_FILE\} is outside"
    ) as refused:
        planned(tmp_path / "store2", **keys)
    assert "private" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("sqlite:////srv/shop.db", "/srv/shop.db"),
        ("sqlite+pysqlite:////srv/shop.db?mode=ro", "/srv/shop.db"),
        ("sqlite:///file:/srv/shop.db?uri=true", "/srv/shop.db"),
        ("duckdb:////srv/shop.duckdb", "/srv/shop.duckdb"),
        ("duckdb:///shop.duckdb", f"{Path.cwd()}/shop.duckdb"),
        ("sqlite://", None),
        ("sqlite:///:memory:", None),
        ("postgresql://host/srv", None),
    ],
)
def test_the_file_is_read_from_the_url(url: str, file: str | None) -> None:
    assert database_file(url) == (None if file is None else Path(file).as_uri())


def test_a_pipeline_may_not_read_its_own_store_even_through_a_wildcard(data: Path) -> None:
    store = data / "store"
    for day in (18, 19, 20):
        target = store / "tables" / "t" / f"date=2026-03-{day}" / "x.parquet"
        target.parent.mkdir(parents=True)
        target.write_bytes(b"x")
    for uri in (f"{store}/tables/t/date={{date}}/*", f"{data}/*/tables/t/date={{date}}/*.parquet"):
        with pytest.raises(ConfigurationError, match=r"source\.uri: .* leads into a store of Ratchet"):
            planned(store, source__uri=uri)


def test_a_pipeline_may_not_read_the_store_of_another(data: Path) -> None:
    other = data / "other"
    planned(other)
    for uri in (f"{other}/nights/search-ranking/{{date}}/*", f"{data}/*/nights/search-ranking/{{date}}/*"):
        with pytest.raises(ConfigurationError, match="leads into a store of Ratchet"):
            planned(data.parent / "store", source__uri=uri)
    assert planned(data.parent / "store").source_root == (data / "clicks").as_uri()


def test_the_stage_refuses_a_store_that_an_earlier_plan_took(data: Path) -> None:
    plan = planned(data.parent / "store")
    store = open_store(plan.store)
    request = compose(store, plan, "ingest", {}, "a").model_copy(update={"source_root": f"{plan.store}/runs"})
    with pytest.raises(ConfigurationError, match="leads into a store of Ratchet"):
        job_for(request, store, None)


def test_a_store_in_a_bucket_is_known_too(store_uri: str, data: Path) -> None:
    spec = load(FOLDER, {"source.window_days": 3})
    make_plan(folder=FOLDER, spec=spec, data_date=DAY, run_id="r", kind="local", store_uri=store_uri)
    named = load(
        FOLDER, {"source.window_days": 3, "source.uri": f"{open_store(store_uri).uri}/nights/{spec.name}/{{date}}/*"}
    )
    root, days = list_days(named.source, [DAY])
    with pytest.raises(ConfigurationError, match="leads into a store of Ratchet"):
        check_reach(named.source, root, days, open_store("mem://another"))
