import os
import re
from datetime import date
from pathlib import Path

import polars as pl
import pytest

from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.source import DeltaSource, FilesSource, SqlSource
from ratchet.runtime.source_variables import expand
from ratchet.runtime.sources import list_days, split
from ratchet.store.opening import open_store

D1, D2, D3 = date(2026, 11, 18), date(2026, 11, 19), date(2026, 11, 20)


def files(uri: str) -> FilesSource:
    return FilesSource(kind="files", uri=uri)


def put(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x" * len(name))


def test_days_are_listed_with_their_files_and_a_day_without_any_is_empty(tmp_path: Path) -> None:
    put(
        tmp_path,
        f"date={D1}/b.parquet",
        f"date={D1}/a.parquet",
        f"date={D1}/_SUCCESS",
        f"date={D1}/.a.parquet",
        f"date={D3}/c.csv",
    )
    root, days = list_days(files(f"{tmp_path}/date={{date}}/*.parquet"), [D1, D2, D3])
    assert root == tmp_path.as_uri()
    assert [day.day for day in days] == [D1, D2, D3]
    assert [file.key for file in days[0].files] == [f"date={D1}/a.parquet", f"date={D1}/b.parquet"]
    assert days[1].files == days[2].files == ()


def test_a_file_whose_name_is_not_utf_8_is_refused_with_its_place_if_it_is_of_a_day(tmp_path: Path) -> None:
    put(tmp_path, f"{D1}-a.csv")
    (tmp_path / os.fsdecode(b"2026-11-18-caf\xe9.csv")).touch()
    with pytest.raises(ConfigurationError) as refused:
        list_days(files(f"{tmp_path}/{{date}}*.csv"), [D1])
    assert refused.value.cause == (
        f"source.uri: {tmp_path}/2026-11-18-caf\\xe9.csv: the name of this file is not UTF-8"
    )
    assert "UTF-8" in refused.value.remedy
    _, (day,) = list_days(files(f"{tmp_path}/{{date}}-a.csv"), [D1])
    assert [file.key for file in day.files] == [f"{D1}-a.csv"]


def test_a_relative_uri_starts_at_the_folder_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, f"data/{D1}.csv")
    monkeypatch.chdir(tmp_path)
    root, (day,) = list_days(files("data/{date}.csv"), [D1])
    assert root == (tmp_path / "data").as_uri()
    assert [file.key for file in day.files] == [f"{D1}.csv"]
    assert "for `ratchet run` the folder in which you call it" in str(FilesSource.model_fields["uri"].description)


def test_a_rewritten_file_has_another_identity_and_an_untouched_one_the_same(tmp_path: Path) -> None:
    put(tmp_path, f"{D1}.csv", f"{D2}.csv")
    source = files(f"{tmp_path}/{{date}}.csv")
    before = list_days(source, [D1, D2])[1]
    (tmp_path / f"{D1}.csv").write_bytes(b"other")
    after = list_days(source, [D1, D2])[1]
    assert before[0].files[0].identity != after[0].files[0].identity
    assert before[1] == after[1]


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("/data/clicks/date={date}/*.parquet", ("file:///data/clicks", "date={date}/*.parquet")),
        ("file:///data/{date}.csv", ("file:///data", "{date}.csv")),
        ("s3://bucket/a/b/{date}/part-?.parquet", ("s3://bucket/a/b", "{date}/part-?.parquet")),
        ("s3://bucket/{date}/*", ("s3://bucket", "{date}/*")),
        ("/data/*/{date}/x.parquet", ("file:///data", "*/{date}/x.parquet")),
        ("s3://b/a/{date:%Y/%m}/x-{date:%d}.csv", ("s3://b/a", "{date:%Y}/{date:%m}/x-{date:%d}.csv")),
    ],
)
def test_a_uri_splits_into_the_part_that_days_share_and_a_pattern(uri: str, expected: tuple[str, str]) -> None:
    assert split(uri) == expected


def test_wildcards_stay_within_a_folder_and_may_stand_above_the_day(tmp_path: Path) -> None:
    put(tmp_path, f"de/{D1}/x.csv", f"fr/{D1}/x.csv", f"fr/deep/{D1}/x.csv", f"fr/{D1}/y.csv")
    _, days = list_days(files(f"{tmp_path}/*/{{date}}/x.csv"), [D1])
    assert [file.key for file in days[0].files] == [f"de/{D1}/x.csv", f"fr/{D1}/x.csv"]


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("{date:%Y/%m/%d}/*.csv", "2026/11/18/x.csv"),
        ("year={date:%Y}/month={date:%m}/day={date:%d}/x.csv", "year=2026/month=11/day=18/x.csv"),
        ("{date:%Y}/{date}.csv", "2026/2026-11-18.csv"),
        ("{date:%Y%m%d}.csv", "20261118.csv"),
        ("{date:%Y-%j}.csv", "2026-322.csv"),
    ],
)
def test_a_day_is_found_by_the_parts_of_its_date(tmp_path: Path, pattern: str, name: str) -> None:
    put(tmp_path, name, name.replace("18", "19").replace("322", "325"))
    _, days = list_days(files(f"{tmp_path}/{pattern}"), [D1, D3])
    assert [[file.key for file in day.files] for day in days] == [[name], []]


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("/data/x.csv", "has no place for the day; put {date} into it"),
        ("/data/{date:%Y/%m}.csv", "do not tell one day from another; use %Y with %m and %d, or with %j"),
        ("/data/{date:%y%m%d}.csv", "%y is no part of a date here; allowed: %Y, %m, %d, %j"),
        ("/data/{date:%Y-%m-%}.csv", "% is no part of a date here"),
        ("/data/{date}/**/x.csv", "** is not supported; write * for each folder"),
    ],
)
def test_a_pattern_that_finds_no_day_is_refused(uri: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        files(uri)
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        split(uri)


def test_variables_are_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put(tmp_path, f"{D1}.csv")
    monkeypatch.setenv("RATCHET_DATA_CLICKS", str(tmp_path))
    assert list_days(files("${RATCHET_DATA_CLICKS}/{date}.csv"), [D1])[0] == tmp_path.as_uri()


def test_a_variable_that_is_not_set_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"source\.uri: \$\{RATCHET_DATA\} is not set.*set RATCHET_DATA"):
        expand("${RATCHET_DATA}/x", {})


@pytest.mark.parametrize(
    "uri", ["/data/../etc/{date}", "s3://bucket/../{date}", "ftp://host/{date}", "s3://{date}/x", "file://host/{date}"]
)
def test_a_uri_that_leads_elsewhere_is_refused(uri: str) -> None:
    with pytest.raises(ConfigurationError, match=r"source\.uri"):
        split(uri)


def test_a_variable_cannot_smuggle_in_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_DATA_CLICKS", "/data/../../etc")
    with pytest.raises(ConfigurationError, match=r"contains \.\."):
        list_days(files("${RATCHET_DATA_CLICKS}/{date}.csv"), [D1])


def test_a_root_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"source\.uri: the folder .*/nowhere does not exist"):
        list_days(files(f"{tmp_path}/nowhere/{{date}}.csv"), [D1])


def test_other_stores_identify_files_by_their_etag() -> None:
    store = open_store("mem://test-sources/clicks")
    store.create(f"{D1}/a.parquet", b"one")
    root, days = list_days(files("mem://test-sources/clicks/{date}/*"), [D1])
    entry = store.head(f"{D1}/a.parquet")
    assert root == "mem://test-sources/clicks"
    assert entry is not None
    assert days[0].files[0].identity == entry.etag


def test_a_query_is_identified_by_itself_and_the_day_and_its_secrets_stay_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_SOURCE_DATABASE", "postgresql://me:secret@host/db")
    source = SqlSource(kind="sql", uri="${RATCHET_SOURCE_DATABASE}", query="select * from clicks where day = :date")
    root, days = list_days(source, [D1, D2])
    assert root == "${RATCHET_SOURCE_DATABASE}"
    assert days[0].files[0].identity == days[1].files[0].identity
    assert days[0].files[0].key != days[1].files[0].key
    monkeypatch.setenv("RATCHET_SOURCE_DATABASE", "postgresql://me:rotated@host/db")
    assert list_days(source, [D1, D2])[1] == days


def test_a_partitioned_delta_table_changes_only_the_days_that_were_written(tmp_path: Path) -> None:
    frame = pl.DataFrame({"a": [1, 2], "date": [D1, D2]})
    frame.write_delta(str(tmp_path), delta_write_options={"partition_by": ["date"]})
    source = DeltaSource(kind="delta", uri=str(tmp_path))
    before = list_days(source, [D1, D2, D3])[1]
    assert [len(day.files) for day in before] == [1, 1, 0]
    frame.filter(pl.col("date") == D2).write_delta(str(tmp_path), mode="append")
    after = list_days(source, [D1, D2, D3])[1]
    assert after[0] == before[0]
    assert after[1] != before[1]


def test_a_plain_delta_table_is_identified_by_its_version(tmp_path: Path) -> None:
    pl.DataFrame({"a": [1], "day": [str(D1)]}).write_delta(str(tmp_path))
    days = list_days(DeltaSource(kind="delta", uri=str(tmp_path), date_column="day"), [D1])[1]
    assert days[0].files[0].identity.endswith(":0")


def test_a_delta_table_that_is_not_there_or_lacks_the_column_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no Delta table exists"):
        list_days(DeltaSource(kind="delta", uri=str(tmp_path / "nothing")), [D1])
    pl.DataFrame({"a": [1]}).write_delta(str(tmp_path / "t"))
    with pytest.raises(ConfigurationError, match=r"source\.date_column: date is not a column.*use one of a"):
        list_days(DeltaSource(kind="delta", uri=str(tmp_path / "t")), [D1])
