"""Where a source is: what a pipeline file may say, and what `check` refuses before anything runs."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from ratchet.contracts.source import DeltaSource, FilesSource, SqlSource
from ratchet.contracts.source_uri import database_place


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("../data/{date}.csv", r"contains \.\.; write the path without"),
        ("${RATCHET_DATA}/../x/{date}.csv", r"contains \.\."),
        ("http://host/{date}.csv", "http:// is not supported; use a path, file:///folder or s3://"),
        ("~/data/{date}.csv", "begins with ~, which is not expanded; write the path in full"),
        ("file://host/{date}.csv", "is not complete"),
    ],
)
def test_a_uri_that_no_run_can_use_is_refused_in_the_file(uri: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        FilesSource(kind="files", uri=uri)
    with pytest.raises(ValidationError, match=message):
        DeltaSource(kind="delta", uri=uri)


@pytest.mark.parametrize(
    "uri", ["${RATCHET_DATA}/{date}/*", "${BASE}{date}", "s3://${BUCKET}/{date}", "data/{date}.csv"]
)
def test_a_uri_whose_variables_are_not_known_yet_is_accepted(uri: str) -> None:
    assert FilesSource(kind="files", uri=uri).uri == uri


def test_a_database_without_its_full_path_is_refused_in_the_file() -> None:
    with pytest.raises(ValidationError, match="a database of sqlite needs the full path of its file"):
        SqlSource(kind="sql", uri="sqlite:///here.db", query="select :date")


@pytest.mark.parametrize(
    ("uri", "file", "hosts"),
    [
        ("sqlite:////data/a.db", Path("/data/a.db"), ()),
        ("duckdb:////data/a.db?access_mode=read_only", Path("/data/a.db"), ()),
        ("postgresql+psycopg://me:a%40b@db.example:5432/x?sslmode=require", None, ("db.example",)),
        ("postgresql://me:p/#?x@db/x", None, ("db",)),
        ("postgresql+psycopg://[::1]:5432/x", None, ("[::1]",)),
        ("postgresql+psycopg://me@/x?host=a:1,b:2", None, ("a", "b")),
        ("postgresql+psycopg:///x?host=/var/run/postgresql", None, ()),
    ],
)
def test_the_place_of_a_database_is_a_file_or_its_hosts(uri: str, file: Path | None, hosts: tuple[str, ...]) -> None:
    place = database_place(uri)
    assert (place.file, place.hosts) == (file, hosts)
