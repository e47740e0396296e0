"""`ratchet profile`: what nights have measured, the difference of two days, and a pipeline file for data."""

import gzip
import json
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from ratchet.cli.main import main
from ratchet.contracts.errors import ConfigurationError, DataRejected
from ratchet.contracts.loading import loads
from tasks.profiling.suggest import suggest
from tests.world import LAST, World, clicks, rows

BEFORE = LAST - timedelta(days=1)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A night has measured three days; on the newest one there is a country less, and prices are missing."""
    made = clicks(tmp_path)
    made.put_window()
    today: dict[str, Any] = rows(60)
    today["country"] = [country if country != "US" else "DE" for country in today["country"]]
    today["price"] = [None if place < 12 else price for place, price in enumerate(today["price"])]
    made.put(LAST, today)
    ingest = made.run("ingest")
    with pytest.raises(DataRejected, match="country: lost categories"):  # a refused day has a profile too
        made.run("validate", inputs={"ingest": ingest})
    document = json.loads(made.spec.model_dump_json(by_alias=True, exclude_defaults=True))
    (made.pipeline / "pipeline.yaml").write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return made


def profile(world: World, *given: str) -> int:
    return main(["profile", str(world.pipeline), "--store", world.store.uri, *given])


def line(text: str, name: str) -> str:
    return next(one for one in text.splitlines() if one.startswith(name))


def test_the_newest_day_is_shown_and_how_it_differs_from_another(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert profile(world) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"clicks {LAST}: 60 rows, 60 with a label\n")
    assert "20 %" in line(shown, "price")
    assert "'DE' 66" in line(shown, "country")
    assert profile(world, "--against", f"{BEFORE}") == 0
    shown = capsys.readouterr().out
    assert "missing 0 % before" in line(shown, "price")
    assert "gone: 'US'" in line(shown, "country")
    assert "PSI" not in line(shown, "query_id")  # nothing counts its values


def test_several_days_are_shown_as_one_and_json_has_each(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert profile(world, "--from", f"{BEFORE}") == 0
    assert capsys.readouterr().out.startswith(f"clicks {BEFORE} to {LAST}, 2 days: 120 rows")
    assert profile(world, "--from", f"{BEFORE}", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert {day: one["columns"]["price"]["missing"] for day, one in found.items()} == {f"{BEFORE}": 0, f"{LAST}": 12}


def test_a_page_has_a_chart_of_each_column(world: World, tmp_path: Path) -> None:
    page = tmp_path / "pages" / "day.html"
    assert profile(world, "--against", f"{BEFORE}", "--html", str(page)) == 0
    text = page.read_text(encoding="utf-8")
    assert f"{LAST} against {BEFORE}" in text
    assert text.count('<article class="column">') == 5
    assert "gone: &#39;US&#39;" in text
    assert profile(world, "--html", str(tmp_path)) == 64


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--day", "2026-11-01"], "no profile of 2026-11-01 is stored"),
        (["--day", "2026-11-20", "--from", "2026-11-19"], "--day goes without --from and --to"),
        (["--from", "2027-01-01"], "the snapshot has no day from 2027-01-01"),
        (["--suggest", "x.csv"], "--suggest needs no"),
    ],
)
def test_what_cannot_be_shown_is_one_line(
    world: World, capsys: pytest.CaptureFixture[str], given: list[str], said: str
) -> None:
    assert profile(world, *given) == 64
    assert said in capsys.readouterr().err
    assert profile(world, *given, "--json") == 64
    assert said in json.loads(capsys.readouterr().out)["error"]["cause"]


def test_without_a_night_or_a_pipeline_it_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = clicks(tmp_path)
    (made.pipeline / "pipeline.yaml").write_text(yaml.safe_dump(made.document), encoding="utf-8")
    assert profile(made) == 64
    assert "run a night: ratchet run" in capsys.readouterr().err
    assert main(["profile"]) == 64
    assert "name a pipeline, or a data file with --suggest" in capsys.readouterr().err


GERMAN = "Nr;bestellt am;Größe;Preis (EUR);Ort;Status;date;spät\n" + "".join(
    f"{place};2026-11-20 {place % 24:02d}:05:00;{'SML'[place % 3]};{place % 37 + 1},5;{('', 'Köln', 'Mainz', 'Köln')[place % 4]};neu;"
    f"{place % 7};{'ja' if place % 5 == 0 else 'nein'}\n"
    for place in range(200)
)


def test_a_suggested_file_fits_the_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "orders" / "2026-11-20.csv"
    path.parent.mkdir()
    path.write_text(GERMAN, encoding="cp1252")
    assert main(["profile", "--suggest", str(path)]) == 0
    text = capsys.readouterr().out
    spec = loads(text)
    assert spec.name == "orders"
    assert spec.source.names == {
        "bestellt_am": "bestellt am", "grosse": "Größe", "preis_eur": "Preis (EUR)", "date_": "date",
        "spat": "spät",
    }  # fmt: skip
    assert spec.source.codes == {"spat": ("ja", "nein")}
    roles = {name: column.role for name, column in spec.columns.items()}
    assert roles == {
        "Nr": "id", "bestellt_am": "time", "grosse": "categorical", "preis_eur": "numeric", "Ort": "categorical",
        "Status": "ignore", "date_": "numeric", "spat": "label",
    }  # fmt: skip
    assert (spec.columns["preis_eur"].min, spec.columns["preis_eur"].max) == (0, 400)
    assert spec.columns["grosse"].allowed == ("L", "M", "S")
    assert spec.columns["Ort"].max_null == 0.5
    assert [key.columns for key in spec.validate_.unique] == [("Nr",)]
    assert "separator ';', encoding cp1252, decimal comma" in text
    world = World(folder=tmp_path, store=clicks(tmp_path).store, document=yaml.safe_load(text))
    world.document["source"] |= {"uri": str(path).replace("2026-11-20", "{date}"), "window_days": 3}
    for back in (1, 2):
        other = path.with_name(f"{LAST - timedelta(days=back)}.csv")
        more = GERMAN.replace("2026-11-20", f"{LAST - timedelta(days=back)}").replace("\n", f"\n{back}")
        other.write_text(more.removesuffix(f"{back}"), encoding="cp1252")
    validated = world.run("validate", inputs={"ingest": world.run("ingest")})
    assert validated.result.metrics["rows"] == 200


def test_what_gives_the_label_away_is_left_out_and_rows_of_a_query_are_ranked(tmp_path: Path) -> None:
    count = 400
    pq.write_table(
        pa.table(
            {
                "query_id": [place // 8 for place in range(count)],
                "shown_at": [date(2026, 11, 20)] * count,
                "price": [float(place * 37 % 101) for place in range(count)],
                "tags": [["a"]] * count,
                "paid": [9.5 if place % 4 == 0 else None for place in range(count)],
                "note": [f"text {place}" if place % 2 else f"text {place - 1}" for place in range(count)],
                "clicked": [place % 4 == 0 for place in range(count)],
            }
        ),
        tmp_path / "part-0.parquet",
    )
    text = suggest(tmp_path / "part-0.parquet")
    spec = loads(text)
    roles = {name: column.role for name, column in spec.columns.items()}
    assert roles == {
        "query_id": "group", "shown_at": "time", "price": "numeric", "tags": "ignore", "paid": "ignore",
        "note": "ignore", "clicked": "label",
    }  # fmt: skip
    assert spec.train.objective == "ranking"
    assert "where the files of a day are" in text


@pytest.mark.parametrize(
    "lines", [["a", "[1, 2]"], ['{"x": 1.5, "z": 3}', '{"x": 2.5, "z": 9}', '{"x": 4.5, "z": 1}'], []]
)
def test_json_lines_without_a_label_and_files_that_are_none(tmp_path: Path, lines: list[str]) -> None:
    path = tmp_path / "rows.json"
    path.write_text("\n".join(lines), encoding="utf-8")
    if lines[:1] == ['{"x": 1.5, "z": 3}']:
        assert "no column looks like the label" in suggest(path)
        return
    with pytest.raises(ConfigurationError):
        suggest(path)


def test_words_of_a_text_are_values_and_odd_texts_are_quoted(tmp_path: Path) -> None:
    path = tmp_path / "2026-11-20.csv.gz"
    values = ["NA", "DE", "-", "1e5"]
    text = "country,price,is_mobile,clicked\n" + "".join(
        f"{values[place % 4]},{'NA' if place % 5 == 0 else place % 60},{place % 2},{int(place % 3 == 0)}\n"
        for place in range(200)
    )
    path.write_bytes(gzip.compress(text.encode()))
    text = suggest(path)
    spec = loads(text)
    assert spec.columns["country"].allowed == ("-", "1e5", "DE", "NA")
    assert (spec.columns["price"].role, spec.columns["price"].type) == ("numeric", "int64")
    assert spec.label == "clicked"
    assert ".csv.gz" in text


ODD = {
    "label": [0.0, 1.0, None] * 40,
    "wild": [float("inf"), 1e308, -1.0, 2.0] * 30,
    "exact": [Decimal(1), Decimal(2), None] * 40,
    "clock": [time(1), time(2), None] * 40,
    "big": pa.array([2**63 + place for place in range(120)], pa.uint64()),
    "kind": pa.array(["a\nb: c"] * 120).dictionary_encode(),
    "signup_on": [date(2020, 1, 1), date(2024, 1, 1), None] * 40,
    "session_id": [place // 10 if place % 2 else None for place in range(120)],
    "L" * 200: [place % 50 for place in range(120)],
}


def test_odd_columns_are_left_out_and_the_file_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "123.parquet"
    pq.write_table(pa.table(ODD), path)
    spec = loads(suggest(path))
    roles = {name: column.role for name, column in spec.columns.items()}
    assert {name for name, role in roles.items() if role == "ignore"} == {
        "exact", "clock", "big", "kind", "signup_on", "session_id",
    }  # fmt: skip
    assert (spec.columns["label"].type, spec.columns["label"].allowed) == ("int64", (0, 1))
    assert spec.columns["wild"].max is None


@pytest.mark.parametrize("text", ["a,b,c\n", "a,a,y\n1,2,0\n", ""])
def test_a_file_without_rows_or_with_a_name_twice_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError):
        suggest(path)
