"""What a day is made into is known by a declared version: the same version means the same rows, profile and arrays.

Where one of these tests fails, a day comes out otherwise than before under the version that names it. If that is meant,
raise the version in ratchet/contracts/data_versions.py, and write down the digest that the test shows beside it. If it
is not meant, a change of code or of a library has changed what models are trained on.
"""

import json
import math
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.contracts import data_versions, paths, summaries
from ratchet.contracts.fingerprint import digest_of
from ratchet.contracts.result import PublishedResult, StageResult
from ratchet.contracts.stages import Stage
from ratchet.store.publishing import read_manifest
from tests.world import LAST, World, clicks

ROWS = {
    1: {
        "plain": "7c9416aadb39f2aa999941617807b31fd019a37a01d6c30549fdb80a66acc5f8",
        "lists": "02e88495bb35577fc8af68ed12e67a9adff1fae2bc4a52ff0df4b946b454c6e3",
    }
}
PROFILES = {
    1: {
        "plain": "fd6516e1c2a50af3108929ae9d7f80a73bc13c52b44fa372cc78a558fb92615a",
        "lists": "33d003eeddde20ea1a9f2f12504eaf4734630790c29d117226a7e7b7147a2312",
    },
    2: {
        "plain": "7a3ae8e18186131a7b36021589da9e8bb18efb7a7a04b124c8482f2c91616de8",
        "lists": "f89d91b2713c0d7f26156b50b1300045a6ebc333a441c5d6133a52aa1d8d86f6",
    },
    3: {
        "plain": "61b9304de3b9c143e166fab6eab6e2ef083d7747623caac328a1325d8bf4ff9c",
        "lists": "6cbd5332dec7651a121929e707301560f63300a9b80133037ab91a3512587ae5",
    },
}
ARRAYS = {
    1: {
        "plain": "2c9f89b658c300fc29a386c5d96011bb9b7734ef8224ab72c9c57898410ad9fe",
        "lists": "d925e13a3eea83586dc6887c07e6424557d65b5c6d7d954de818f1e93040c2b1",
    }
}
D1, D2, D3, D4 = (LAST - timedelta(days=back) for back in (3, 2, 1, 0))
COLUMNS: dict[str, Any] = {
    "query_id": {"role": "group", "type": "string"},
    "shown_at": {"role": "time", "type": "timestamp"},
    "born": {"role": "ignore", "type": "date"},
    "ticket": {"role": "id", "type": "int64"},
    "country": {"role": "categorical", "type": "string", "in": ["DE", "FR", "Ü", ""]},
    "shop": {"role": "categorical", "type": "int64"},
    "new": {"role": "categorical", "type": "bool"},
    "price": {"role": "numeric", "type": "float64", "min": 0, "transform": "log1p"},
    "stock": {"role": "numeric", "type": "int64"},
    "dear": {"role": "numeric", "type": "bool"},
    "heavy": {"role": "weight", "type": "float64"},
    "clicked": {"role": "label", "type": "int64"},
}
CHANGED: dict[str, dict[str, Any]] = {
    "plain": {"country": {**COLUMNS["country"], "statistics": ["count"]}},
    "lists": {
        "tags": {"role": "categorical", "type": "list<string>", "max_length": 3},
        "where": {"role": "numeric", "type": "list<float64>", "dimension": 2},
    },
}
ROW_COUNT = 2_400
"""More texts than a profile keeps, and a number of them that is estimated."""


def a_day(day: date) -> pa.Table:
    """Every type, with nothing, not-a-number, the infinite, the far away and the repeated."""
    places = range(ROW_COUNT)
    noon = datetime(day.year, day.month, day.day, 12)
    odd = {3: None, 5: float("nan"), 7: 1e12, 11: 0.0}
    return pa.table(
        {
            "query_id": [f"q{i * 7919 % 1_501}" for i in places],
            "shown_at": [noon + timedelta(microseconds=i * 10_007) for i in places],
            "born": [date(1970, 1, 1) + timedelta(days=i % 500) if i % 9 else None for i in places],
            "ticket": [i % 2_399 for i in places],
            "country": [("DE", "FR", "Ü", "", None)[i * 31 % 5] for i in places],
            "shop": [(1 << 40) + i * i % 1_013 if i % 50 else None for i in places],
            "new": [(True, False, None)[i % 3] for i in places],
            "price": pa.array([odd.get(i, i * 37 % 1_009 / 8) for i in places], pa.float64()),
            "stock": [i % 97 - 48 if i % 13 else None for i in places],
            "dear": [(True, False, None)[i * i % 3] for i in places],
            "tags": [[f"t{(i + j) % 7}" for j in range(i % 5)] if i % 11 else None for i in places],
            "where": [[i / 3, -i % 17 / 4] if i % 6 else None for i in places],
            "heavy": [1 + i % 4 / 2 for i in places],
            "clicked": [i % 5 // 4 if i % 40 else None for i in places],
        }
    )


@pytest.fixture(scope="module", params=[*CHANGED])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def world(kind: str, tmp_path_factory: pytest.TempPathFactory) -> World:
    found = clicks(
        tmp_path_factory.mktemp("versions"), source={"window_days": 4}, validate={"volume": None, "drift": None}
    )
    found.document["columns"] = {**COLUMNS, **CHANGED[kind]}
    for day in (D1, D3, D4):
        found.put(day, a_day(day))
    frame = a_day(D2).to_pandas()
    for name in ("tags", "where"):
        frame[name] = [None if value is None else json.dumps(list(value)) for value in frame[name]]
    frame["shown_at"] = frame["shown_at"].dt.strftime("%Y-%m-%dT%H:%M:%S.%f")
    folder = found.source / f"date={D2}"
    folder.mkdir()
    frame.astype({"shop": "Int64", "stock": "Int64", "clicked": "Int64"}).to_csv(folder / "part-0.csv", index=False)
    return found


@pytest.fixture(scope="module")
def ingested(world: World) -> PublishedResult:
    return world.run("ingest")


@pytest.fixture(scope="module")
def validated(world: World, ingested: PublishedResult) -> PublishedResult:
    return world.run("validate", inputs={"ingest": ingested})


@pytest.fixture(scope="module")
def encoded(world: World, ingested: PublishedResult, validated: PublishedResult) -> PublishedResult:
    return world.run("features", inputs={"ingest": ingested, "validate": validated})


def days_parts(world: World, stage: Stage) -> list[StageResult]:
    """The parts of all days, in a fixed order."""
    keys = [entry.key for entry in world.store.list(paths.published("clicks", paths.day_part(stage)))]
    results = [read_manifest(world.store, key).result for key in keys if paths.last(key) == "manifest.json"]
    return sorted(results, key=lambda one: (one.content, one.fingerprint))


def plain(value: Any) -> Any:
    """A value without what the arithmetic of another processor may change, and without its address in the store."""
    match value:
        case float():
            return f"{value:.6g}" if math.isfinite(value) else str(value)
        case dict():
            return {str(name): plain(one) for name, one in value.items() if name not in {"key", "sha256", "bytes"}}
        case list() | tuple():
            return [plain(one) for one in value]
    return value if isinstance(value, bool | int | str | None) else str(value)


def recorded(versions: dict[int, dict[str, str]], version: int, kind: str, found: list[Any]) -> None:
    assert digest_of(plain(found)) == versions.get(version, {}).get(kind), f"version {version}, {kind}"


def test_the_same_source_gives_the_same_rows(world: World, kind: str, ingested: PublishedResult) -> None:
    tables = [pq.read_table(world.store.local(day.file.key)) for day in summaries.snapshot(ingested.result).days]
    assert [table.num_rows for table in tables] == [ROW_COUNT] * 4
    recorded(ROWS, data_versions.ROWS, kind, [[str(table.schema), table.to_pydict()] for table in tables])


def test_the_same_rows_have_the_same_profile(world: World, kind: str, validated: PublishedResult) -> None:
    parts = days_parts(world, "validate")
    profiles = [json.loads(world.store.read(one.outputs["profile"].key)) for one in parts]
    assert len(profiles) == 4
    recorded(PROFILES, data_versions.PROFILE, kind, profiles)


def test_the_same_rows_become_the_same_arrays(world: World, kind: str, encoded: PublishedResult) -> None:
    parts = sorted(days_parts(world, "features"), key=lambda one: str(one.parts["day"]))
    assert len(parts) == 4
    arrays = [[f"{name} {array.sha256}" for name, array in sorted(one.outputs.items())] for one in parts]
    recorded(ARRAYS, data_versions.ARRAYS, kind, [arrays, [one.summary for one in parts]])


@pytest.mark.parametrize("stage", ["ingest", "validate", "features"])
def test_neither_a_module_nor_a_library_makes_a_day_again(world: World, encoded: PublishedResult, stage: Stage) -> None:
    names = {name for one in days_parts(world, stage) for name in one.parts}
    assert names
    assert [name for name in names if name.startswith("code.") or name == "libraries"] == []


def test_a_risen_version_reads_a_day_again(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = clicks(tmp_path)
    other.put_window()
    other.run("ingest")
    monkeypatch.setattr(data_versions, "ROWS", 2)
    other.log.truncate(0)
    other.run("ingest")
    assert other.log.getvalue().count("ingested") == 3
