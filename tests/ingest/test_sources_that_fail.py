"""Sources that cannot be read as they are: the error names the source, and the remedy what to do about it."""

import errno
import gzip
import lzma
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.contracts.errors import ConfigurationError, DataRejected, NoAnswer, Unavailable
from ratchet.store.opening import open_store
from tasks.ingest.reading import read
from tasks.ingest.traits import SourceTraits
from tests.world import LAST, World, clicks

HEADER = "query_id,shown_at,country,price,clicked\n"
ROW = "1,2026-11-20 12:00:00,DE,1.5,1\n"
NOBODY = 65534


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = clicks(tmp_path)
    made.put_window()
    return made


def put_csv(world: World, content: bytes, name: str = "x.csv") -> None:
    """The data date as a CSV file alone."""
    folder = world.source / f"date={LAST}"
    (folder / "part-0.parquet").unlink()
    (folder / name).write_bytes(content)


@pytest.mark.parametrize(("number", "kind"), [(errno.ESTALE, NoAnswer), (errno.EIO, Unavailable)])
@pytest.mark.parametrize("at", ["open", "rows"])
def test_a_disk_that_fails_while_a_file_is_read_says_nothing_about_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Unavailable], at: str
) -> None:
    """As a folder on another host that is away for a moment: the night waits, and is not refused."""

    def fails(*_: object, **__: object) -> Any:
        raise OSError(number, os.strerror(number))

    file = tmp_path / "part-0.parquet"
    pq.write_table(pa.table({"clicked": [1, 0]}), file)
    monkeypatch.setattr(*((Path, "open", fails) if at == "open" else (pq, "ParquetFile", fails)))
    with pytest.raises(
        kind, match=rf"^2026-11-20: part-0\.parquet cannot be read now: {os.strerror(number)}"
    ) as raised:
        list(read(file, day=date(2026, 11, 20), name=file.name, columns={}, traits=SourceTraits()))
    assert type(raised.value) is kind


def test_a_disk_that_fails_where_the_form_of_a_file_is_looked_for_refuses_no_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its first bytes, JSON lines were taken for CSV."""
    file, stream, fails = tmp_path / "rows", pa.input_stream, iter([True])

    def stale(*given: Any, **named: Any) -> Any:
        if next(fails, False):
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return stream(*given, **named)

    file.write_text('{"clicked": 1}\n')
    monkeypatch.setattr(pa, "input_stream", stale)
    day, columns = date(2026, 11, 20), {"clicked": "int64"}
    with pytest.raises(NoAnswer, match=r"^2026-11-20: rows cannot be read now"):
        list(read(file, day=day, name=file.name, columns=columns, traits=SourceTraits()))
    assert sum(len(batch) for batch in read(file, day=day, name=file.name, columns=columns, traits=SourceTraits())) == 1


MANY = HEADER + ROW * 40_000
"""More than the rows by which the form of a file is recognised."""
REFUSED = {
    "a comma in numbers": ((HEADER + ROW.replace("1.5", "1,5")), "put each field that contains the separator in quotes"),
    "thousands, or thousandths": (
        HEADER + ROW.replace("1.5", '"1,500"'), r'set source\.csv\.decimal to "," if they are decimal commas'
    ),
    "two marks": (HEADER + ROW.replace("1.5", '"1.500,5"'), "write them without marks between the thousands"),
    "utf-16 without a mark": ((HEADER + ROW).encode("utf-16-le"), r"set source\.csv\.encoding: utf-16"),
    "Polish": ((HEADER + ROW.replace("DE", "Łódź")).encode("cp1250"), r"set source\.csv\.encoding"),
    "Russian": ((HEADER + ROW.replace("DE", "Москва")).encode("cp1251"), r"set source\.csv\.encoding"),
    "late umlaut": ((MANY + ROW.replace("DE", "Köln")).encode("cp1252"), r"set source\.csv\.encoding"),
    "late comma": (MANY + ROW.replace("1.5", '"1,5"'), r"set source\.csv\.decimal; its first rows have none as 1,5"),
    "late word": (MANY + ROW.replace("1.5", "NA"), r"add it to source\.csv\.missing"),
    "a word": (HEADER + ROW.replace("1.5", "none"), r"correct the value 'none'; .* add it to source\.csv\.missing"),
    "other names": ((HEADER.upper() + ROW).replace(",", ";"), "the separator seems to be a semicolon"),
    "an open quote": (HEADER + ROW.replace("DE", '"DE') + ROW * 300_000, "close each quote"),
    "no header": (ROW, "deliver the file with a header"),
    "two zones": (HEADER + ROW + ROW.replace(":00,", ":00Z,"), "every timestamp of the column with a zone, or every one"),
    "xz": (lzma.compress((HEADER + ROW).encode()), "as gzip, bz2, zstd or lz4, or uncompressed"),
    "zip": (b"PK\x03\x04\0\0", "as gzip, bz2, zstd or lz4, or uncompressed"),
    "a cut row": (HEADER + ROW + "2,2026", "deliver the file again"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_csv_that_has_no_form_is_refused_with_what_to_change(world: World, name: str) -> None:
    content, remedy = REFUSED[name]
    put_csv(world, content.encode() if isinstance(content, str) else content)
    with pytest.raises(DataRejected, match=rf"{LAST}: date={LAST}/x\.csv: .*; to do: .*{remedy}") as error:
        world.run("ingest")
    assert len(str(error.value)) < 700


def test_a_compressed_csv_in_s3_is_the_same_day_as_on_this_machine(tmp_path: Path, s3_uri: str) -> None:
    world = clicks(tmp_path)
    world.put_window()
    put_csv(world, gzip.compress((HEADER + ROW).encode(), mtime=0), "x.csv.gz")
    here = world.run("ingest")
    bucket = open_store(f"{s3_uri}/clicks")
    for path in world.source.rglob("*.*"):
        bucket.upload(path, path.relative_to(world.source).as_posix())
    world.document["source"]["uri"] = f"{s3_uri}/clicks/date={{date}}/*"
    assert world.run("ingest").result.content == here.result.content


def test_a_pattern_that_names_the_folder_of_a_day_is_reported(world: World) -> None:
    world.document["source"]["uri"] = f"{world.source}/date={{date}}"
    with pytest.raises(
        DataRejected, match=rf"source\.uri names the folder date={LAST}, .*add a pattern .*/date={{date}}/\*"
    ):
        world.run("ingest")


def test_a_data_date_in_the_future_is_reported_as_one(world: World) -> None:
    tomorrow = datetime.now(UTC).date() + timedelta(days=1)
    with pytest.raises(
        DataRejected, match=f"{tomorrow}: the source has no files .* which lies in the future: today is"
    ):
        world.run("ingest", data_date=tomorrow)


@pytest.fixture
def others() -> Iterator[World]:
    """A source and a store of another user than root, as whom this process runs for the test."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if os.geteuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
            os.seteuid(NOBODY)
            try:
                yield clicks(folder)
            finally:
                os.seteuid(0)
        else:
            yield clicks(folder)


@pytest.mark.parametrize("name", ["", "part-0.parquet"])
def test_a_source_that_this_user_may_not_read_is_reported_as_the_source(others: World, name: str) -> None:
    others.put_window()
    place = others.source / f"date={LAST}" / name
    place.chmod(0)
    try:
        with pytest.raises(
            ConfigurationError, match=rf"source\.uri: .*date={LAST}.*: Permission denied \(as user \d+\)"
        ) as error:
            others.run("ingest")
        assert error.value.remedy == "let this user read the source's folders and files"
    finally:
        place.chmod(0o700)


CUT = """
import sys
from pathlib import Path
from ratchet.contracts.errors import SourceChanged
from ratchet.contracts.request import SourceDay
from ratchet.runtime.sources import list_days
from tasks.ingest import day as module
from tests.world import LAST, clicks

folder = Path(sys.argv[1])
world = clicks(folder / "world")
world.document["source"]["uri"] = f"{folder}/{{date}}.parquet"
root, (planned,) = list_days(world.spec.source, [LAST])
write = module.write

def cut(batches, schema, path):
    def rows():
        for number, batch in enumerate(batches):
            yield batch
            if number == 0:
                with open(folder / f"{LAST}.parquet", "r+b") as file:
                    file.truncate(4096)
    return write(rows(), schema, path)

module.write = cut
(folder / "scratch").mkdir()
try:
    module.build(world.spec, root, planned, columns={"n": "int64"}, scratch=folder / "scratch")
except SourceChanged as error:
    print(error)
"""


def test_a_file_that_is_cut_while_it_is_read_is_a_changed_source(tmp_path: Path) -> None:
    """In a process of its own, which a read of a mapped file behind its end would kill."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    numbers = np.random.default_rng(0).integers(0, 2**62, 2_000_000)
    pq.write_table(pa.table({"n": numbers}), tmp_path / f"{LAST}.parquet", row_group_size=200_000)
    ended = subprocess.run([sys.executable, "-c", CUT, tmp_path], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, (ended.returncode, ended.stderr)
    assert f"{LAST}.parquet changed or disappeared after the run was planned; to do: wait" in ended.stdout
