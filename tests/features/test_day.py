"""A day comes out the same however many batches it is encoded in, and as a served model would encode it."""

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.contracts.errors import DataRejected, RatchetError
from ratchet.contracts.made_columns import made_columns
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.model.derivation import load_derive
from ratchet.model.made_columns import MadeDerive
from ratchet.model.rows import read_rows
from tasks.features import arrow_columns, batches, day
from tasks.features.day import EncodedDay, encode_day

COUNT = 4_000
COLUMNS: dict[str, Any] = {
    "query": {"role": "group", "type": "string"},
    "country": {"role": "categorical", "type": "string"},
    "shop": {"role": "categorical", "type": "int64"},
    "new": {"role": "categorical", "type": "bool"},
    "tags": {"role": "categorical", "type": "list<string>", "max_length": 2, "weights": "shares"},
    "shares": {"role": "list_weight", "type": "list<float64>"},
    "price": {"role": "numeric", "type": "float64", "min": 0, "transform": "log1p"},
    "stock": {"role": "numeric", "type": "int64"},
    "dear": {"role": "numeric", "type": "bool"},
    "place": {"role": "numeric", "type": "list<float64>", "dimension": 2},
    "heavy": {"role": "weight", "type": "float64"},
    "clicked": {"role": "label", "type": "int64"},
}
STATISTICS = {"country": {**COLUMNS["country"], "statistics": ["count", "target_mean"]}}
LISTS = ("tags", "shares", "place")
DERIVED = {"best": {"role": "numeric", "type": "float64", "derived": True, "max": 3}}
MADE: dict[str, Any] = {
    "ratio": {"role": "numeric", "type": "float64", "make": {"ratio": ["price", "stock"]}, "max": 50},
    "both": {"role": "categorical", "type": "string", "make": {"cross": ["country", "shop"]}},
    "bucket": {"role": "categorical", "type": "int64", "make": {"bucketize": {"of": "stock", "at": [10, 20]}}},
}
IN_GROUP = {
    "rank": {"role": "numeric", "type": "float64", "make": {"in_group": {"of": "stock", "statistic": "rank"}}, "max": 3}
}
OF_A_GROUP = "def derive(df):\n    df['best'] = df.groupby('query')['stock'].transform('max')\n    return df\n"
OF_A_ROW = "def derive(df):\n    df['best'] = df['stock'] * 2.0\n    return df\n"


def rows() -> pa.Table:
    draw = np.random.default_rng(0)
    places = range(COUNT)
    return pa.table(
        {
            "query": [f"q{number}" if number % 11 else None for number in draw.integers(0, 900, COUNT)],
            "country": [("DE", "Ü", "", None)[number] for number in draw.integers(0, 4, COUNT)],
            "shop": [None if number == 3 else int(number) for number in draw.integers(-5, 2_000, COUNT)],
            "new": [(True, False, None)[number] for number in draw.integers(0, 3, COUNT)],
            "tags": [[f"t{place % 7}"] * (place % 4) if place % 9 else None for place in places],
            "shares": [[0.5] * (place % 4) if place % 9 else None for place in places],
            "price": [None if place % 13 == 0 else float(place) / 3 for place in places],
            "stock": pa.array([None if place == COUNT - 1 else place % 50 for place in places], pa.int64()),
            "dear": [place % 3 == 0 for place in places],
            "place": [[float(place), 1.0] for place in places],
            "heavy": [0.1 * (1 + place % 5) for place in places],
            "clicked": [None if place % 17 == 0 else int(place % 3 == 0) for place in places],
        }
    )


def encoded(
    folder: Path, columns: dict[str, Any], code: str = "", threads: int = 1, **train: Any
) -> tuple[EncodedDay, dict[str, bytes]]:
    """A day in row groups of 300 rows, and the bytes of its arrays."""
    folder.mkdir()
    if code:
        (folder / "features.py").write_text(code, encoding="utf-8")
    spec = PipelineSpec.model_validate(
        {
            "name": "day",
            "source": {"kind": "files", "uri": "rows/{date}.parquet", "window_days": 9},
            "columns": columns,
            "train": {"objective": "binary", **train},
        }
    )
    pq.write_table(rows().select([*spec.source_columns]), folder / "day.parquet", row_group_size=300)
    derived = {name: column.type for name, column in spec.columns.items() if column.derived}
    derive = load_derive(folder, derived, made_columns(spec.columns))
    (arrays := folder / "arrays").mkdir()
    found = encode_day(folder / "day.parquet", spec, derive, day=date(2026, 1, 1), folder=arrays, threads=threads)
    files = {path.name: path.read_bytes() for path in arrays.iterdir()}
    assert {*files} == {f"{name}.npy" for name in found.arrays}
    return found, files


@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("code", ["", OF_A_ROW, "made"])
def test_many_batches_give_the_arrays_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, grouped: bool, code: str
) -> None:
    columns = {**COLUMNS, **(MADE if code == "made" else STATISTICS | DERIVED if code else {})}
    for name in (*(() if grouped else ("query",)), *(LISTS if code == OF_A_ROW else ())):
        del columns[name]
    code = code.removeprefix("made")
    monkeypatch.setattr(batches, "ROWS", COUNT)
    one, whole = encoded(tmp_path / "one", columns, code)
    monkeypatch.setattr(batches, "ROWS", 500)
    monkeypatch.setattr(day, "ROWS", 500)
    several, parts = encoded(tmp_path / "several", columns, code, threads=3)
    assert parts == whole
    assert several.checks == one.checks
    assert (several.rows, several.unlabelled) == (one.rows, one.unlabelled)
    for ours, theirs in zip((*several.numeric, several.label), (*one.numeric, one.label), strict=True):
        assert (ours.count, ours.mean, ours.m2) == pytest.approx((theirs.count, theirs.mean, theirs.m2))


@pytest.mark.parametrize("code", ["", OF_A_GROUP])
def test_in_a_ranking_batches_have_whole_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(batches, "_MOST", 7)
    table = rows().filter(pa.compute.is_valid(rows()["query"]))
    monkeypatch.setattr("tests.features.test_day.rows", lambda: table)
    columns = COLUMNS | (DERIVED if code else IN_GROUP)
    one, whole = encoded(tmp_path / "one", columns, code, objective="ranking")
    monkeypatch.setattr(batches, "ROWS", 500)
    several, parts = encoded(tmp_path / "several", columns, code, threads=2, objective="ranking")
    assert parts == whole
    assert several.checks == one.checks != ()


def test_arrays_are_what_a_served_model_makes_of_the_rows(tmp_path: Path) -> None:
    columns = {name: column for name, column in (COLUMNS | MADE).items() if name != "query"}
    found, _ = encoded(tmp_path / "day", columns)
    spec = PipelineSpec.model_validate(
        {
            "name": "day",
            "source": {"kind": "files", "uri": "rows/{date}.parquet"},
            "columns": columns,
            "train": {"objective": "binary"},
        }
    )
    frame = read_rows(tmp_path / "day" / "day.parquet", spec.columns)
    derive = MadeDerive(made_columns(spec.columns))
    numbers, ids = day.reads(spec).encode(derive(frame[frame["clicked"].notna()].reset_index(drop=True)))
    np.testing.assert_array_equal(found.arrays["numeric"], numbers)
    np.testing.assert_array_equal(found.arrays["categorical"], ids)


def test_a_day_that_a_served_model_would_read_otherwise_is_not_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other_ids(texts: Any) -> Any:
        return np.array([len(text) + 1 for text in texts], np.int64)

    monkeypatch.setattr(arrow_columns, "text_ids", other_ids)
    with pytest.raises(RatchetError, match="otherwise than a served model") as caught:
        encoded(tmp_path / "day", COLUMNS)
    assert caught.value.code == 70


def test_whole_numbers_that_a_float_blurs_are_refused_over_all_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = rows()
    stock = pa.array([2**60 + place % 50 for place in range(COUNT)], pa.int64())
    blurred = table.set_column(table.column_names.index("stock"), "stock", stock)
    monkeypatch.setattr("tests.features.test_day.rows", lambda: blurred)
    monkeypatch.setattr(batches, "ROWS", 500)
    with pytest.raises(DataRejected, match=r"columns\.stock: the values of 2026-01-01 lie around 1\.15292e\+18"):
        encoded(tmp_path / "day", COLUMNS)
