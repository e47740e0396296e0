"""CSV files as people have them: recognised by their first rows, said in the log, or set in the pipeline file."""

import bz2
import gzip
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.contracts import summaries
from ratchet.contracts.errors import DataRejected
from tests.world import LAST, World, clicks

ROWS = [
    {"query_id": 1, "shown_at": datetime(2026, 11, 20, 12), "country": "Köln", "price": 1.5, "clicked": 1},
    {"query_id": 2, "shown_at": None, "country": "NA", "price": None, "clicked": 0},
    {"query_id": 3, "shown_at": datetime(2026, 11, 20, 13), "country": None, "price": -2.25, "clicked": 0},
    {"query_id": 4, "shown_at": datetime(2026, 11, 20, 13), "country": "", "price": 3.0, "clicked": 1},
    {"query_id": 5, "shown_at": datetime(2026, 11, 20, 13), "country": 'a "b",\nc; d|e\tf', "price": 4.0, "clicked": 1},
]
PLAIN = """query_id,shown_at,country,price,clicked,comment
1,2026-11-20 12:00:00,Köln,1.5,1,z
2,,NA,,0,z
3,2026-11-20 13:00:00,,-2.25,0,z
4,2026-11-20 13:00:00,"",3,1,z
5,2026-11-20 13:00:00,"a ""b"",\nc; d|e\tf",4.0,1,z
"""


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = clicks(tmp_path)
    made.put_window()
    (made.source / f"date={LAST}" / "part-0.parquet").unlink()
    return made


def put(world: World, content: str | bytes, encoding: str = "utf-8", name: str = "x.csv") -> None:
    path = world.source / f"date={LAST}" / name
    path.write_bytes(content.encode(encoding) if isinstance(content, str) else content)


def rows(world: World) -> list[dict[str, Any]]:
    day = summaries.snapshot(world.run("ingest").result).days[-1]
    found: list[dict[str, Any]] = pq.read_table(world.store.local(day.file.key)).to_pylist()
    return found


def separated(by: str) -> str:
    """The plain file with another separator."""
    head, _, last = PLAIN.rpartition("5,2026")
    return head.replace(",", by) + ("5,2026" + last).replace(",", by).replace(f'"{by}\n', '",\n')


FORMS: dict[str, tuple[str | bytes, str, str]] = {
    "plain": (PLAIN, "utf-8", ""),
    "with a mark": (PLAIN, "utf-8-sig", ""),
    "a tab": (separated("\t"), "utf-8", "separator tab"),
    "a bar": (separated("|"), "utf-8", "separator '|'"),
    "cp1252": (PLAIN, "cp1252", "encoding cp1252"),
    "utf-16": (PLAIN, "utf-16", "encoding utf-16"),
    "Windows lines": (PLAIN.replace("z\n", "z\r\n"), "utf-8", ""),
    "words": (
        PLAIN.replace("2,,NA,,", r"2,\N,NA,-,"), "utf-8", r"NA, N/A, null, NULL, \N, - as missing values, except in text"
    ),
    "all of Excel": (
        separated(";").replace("1.5", "1,5").replace("-2.25", "-2,25").replace("4.0", "4,0").replace("2;;NA;;", "2;-;NA;N/A;"),
        "cp1252",
        "separator ';', encoding cp1252, decimal comma, NA, N/A, null, NULL, \\N, - as missing values, except in text",
    ),
    "gzip without an ending": (gzip.compress(PLAIN.encode()), "", ""),
    "bz2 without an ending": (bz2.compress(PLAIN.encode()), "", ""),
    "zstd without an ending": (pa.compress(PLAIN.encode(), "zstd", asbytes=True), "", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_a_file_gives_the_same_rows(world: World, name: str) -> None:
    content, encoding, said = FORMS[name]
    put(world, content, encoding)
    assert rows(world) == ROWS
    logged = [line for line in world.log.getvalue().splitlines() if "CSV read with" in line]
    assert len(logged) == bool(said)
    assert not said or said.replace("\\", "\\\\") in logged[0] or said in logged[0]


def test_what_is_set_is_not_guessed(world: World) -> None:
    text = 'query_id,shown_at,country,price,clicked\n1,none,Łódź,"1,500",1\n2,,none,-,0\n3,,"none",2,0\n'
    put(world, text, "cp1250")
    with pytest.raises(DataRejected, match=r"source\.csv\.(encoding|decimal)"):
        rows(world)
    world.document["source"]["csv"] = {"encoding": "cp1250", "decimal": ",", "missing": ["none", "-"]}
    assert [(row["country"], row["price"]) for row in rows(world)] == [("Łódź", 1.5), (None, None), ("none", 2.0)]
    assert "CSV read with encoding cp1250, decimal comma, none, - as missing values" in world.log.getvalue()


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_read_without_its_mark_where_it_is_set(world: World, encoding: str) -> None:
    put(world, PLAIN, encoding)
    world.document["source"]["csv"] = {"encoding": "utf-16"}
    assert rows(world) == ROWS
    put(world, PLAIN.replace("price", "prize"), encoding)
    with pytest.raises(DataRejected, match=r"column price missing; .*; to do: deliver price"):
        rows(world)
    put(world, PLAIN.encode(encoding)[:-1])
    with pytest.raises(DataRejected, match=r"cannot be read as"):
        rows(world)


def test_a_form_of_csv_does_not_read_other_files_again(world: World) -> None:
    put(world, PLAIN)
    rows(world)
    world.document["source"]["csv"] = {"separator": ","}
    world.log.truncate(0)
    rows(world)
    assert world.log.getvalue().count("ingested") == 1


def test_a_usual_word_in_a_column_with_codes_is_a_missing_value_unless_it_is_a_code(world: World) -> None:
    world.document["source"] |= {"codes": {"clicked": ["-", "yes"]}, "missing_days": "skip"}
    for path in world.source.rglob("*.parquet"):
        path.unlink()
    text = "query_id,shown_at,country,price,clicked\n1,,DE,1.5,yes\n2,,DE,1.5,NA\n3,,NA,1.5,-\n4,,DE,1.5,\n"
    put(world, text)
    assert [(row["country"], row["clicked"]) for row in rows(world)] == [
        ("DE", 1),
        ("DE", None),
        ("NA", 0),
        ("DE", None),
    ]
    assert "NA missing in clicked" in world.log.getvalue()
    put(world, text.replace("DE,1.5,NA", "DE,1.5,none"))
    with pytest.raises(DataRejected, match=r"'none' is none of .*a missing value in CSV into source\.csv\.missing"):
        rows(world)


def test_another_form_in_the_pipeline_file_reads_the_days_of_text_again(world: World) -> None:
    put(world, PLAIN)
    assert rows(world)[1]["country"] == "NA"
    world.document["source"]["csv"] = {"missing": ["NA"]}
    assert rows(world)[1]["country"] is None
    del world.document["source"]["csv"]
    world.log.truncate(0)
    assert rows(world)[1]["country"] == "NA"


def test_a_text_over_many_lines_may_be_anywhere_in_a_large_file(world: World) -> None:
    """Also where the blocks end in which it is read, of 8 MiB each."""
    line = '{},2026-11-20 12:00:00,"' + "a\nb" * 50 + '",1.5,1\n'
    put(world, "query_id,shown_at,country,price,clicked\n" + "".join(line.format(i) for i in range(60_000)))
    found = rows(world)
    assert [row["query_id"] for row in found] == [*range(60_000)]
    assert {row["country"] for row in found} == {"a\nb" * 50}


def test_words_for_missing_numbers_do_not_move_the_rows_of_text(world: World) -> None:
    """Numbers and text are read apart then, block by block."""
    lines = (f"{i},{'-' if i % 3 else '2026-11-20 12:00:00'},v{i},{'-' if i % 7 else i},1\n" for i in range(400_000))
    put(world, "query_id,shown_at,country,price,clicked\n" + "".join(lines))
    assert (world.source / f"date={LAST}" / "x.csv").stat().st_size > 9 << 20
    assert all(
        row["country"] == f"v{i}" and row["query_id"] == i and row["price"] == (None if i % 7 else i)
        for i, row in enumerate(rows(world))
    )


def test_what_is_no_text_in_a_column_that_nobody_reads_changes_nothing(world: World) -> None:
    put(world, PLAIN.encode().replace(b",z\n", b",\xe9\n"))
    assert rows(world) == ROWS
    assert "CSV read with" not in world.log.getvalue()
