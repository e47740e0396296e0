"""A day of files is there when its marker is, and when nothing was written for a while."""

import os
import time
from datetime import date
from pathlib import Path

import pytest
from pydantic import ValidationError

from ratchet.contracts.source import FilesSource
from ratchet.runtime.sources import list_days, listed

D1, D2 = date(2026, 11, 19), date(2026, 11, 20)


def files(uri: str, **ready: str) -> FilesSource:
    return FilesSource.model_validate({"kind": "files", "uri": uri, "ready": ready})


def counts(source: FilesSource) -> list[int]:
    return [len(day.files) for day in list_days(source, [D1, D2])[1]]


@pytest.mark.parametrize(
    ("pattern", "names", "marker", "key"),
    [
        ("date={date}/*", ["date={}/a.csv", "date={}/b.csv"], "_SUCCESS", "date={}/_SUCCESS"),
        ("date={date}/*", ["date={}/a.csv", "date={}/b.csv"], "done", "date={}/done"),
        ("date={date}/*/*.csv", ["date={}/1/a.csv", "date={}/2/b.csv"], "done", "date={}/done"),
        ("{date}*.csv", ["{}-1.csv", "{}-2.csv"], "{date}.done", "{}.done"),
        ("{date}*", ["{}-1.csv", "{}-2.csv"], "{date:%Y-%m-%d}_ok", "{}_ok"),
    ],
)
def test_a_day_has_files_once_its_marker_is_there(
    tmp_path: Path, pattern: str, names: list[str], marker: str, key: str
) -> None:
    for day in (D1, D2):
        for name in names:
            path = tmp_path / name.format(day)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("x")
    source = files(f"{tmp_path}/{pattern}", marker=marker)
    assert counts(source) == [0, 0]
    (tmp_path / key.format(D2)).touch()
    assert counts(source) == [0, 2]
    root = list_days(source, [D1])[0]
    assert listed(source, root, D1).lack == f"{key.format(D1)} is not there"
    assert listed(source, root, D2).lack == ""


def test_a_day_has_files_once_nothing_was_written_for_a_while(tmp_path: Path) -> None:
    for name in (f"{D1}-1.csv", f"{D1}-2.csv", f"{D2}-1.csv"):
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (0, time.time() - 400))
    source = files(f"{tmp_path}/{{date}}*.csv", quiet="5m")
    assert counts(source) == [2, 1]
    os.utime(tmp_path / f"{D1}-2.csv", (0, time.time() - 100))
    assert counts(source) == [0, 1]
    found = listed(source, list_days(source, [D1])[0], D1)
    assert found.lack.startswith("a file was written 1m4")
    assert found.lack.endswith("ago, and source.ready.quiet is 5m")


def test_a_day_without_files_lacks_nothing(tmp_path: Path) -> None:
    source = files(f"{tmp_path}/{{date}}.csv", marker="{date}.done", quiet="5m")
    found = listed(source, list_days(source, [D1])[0], D1)
    assert (found.files, found.lack, found.age_s) == ((), "", None)


@pytest.mark.parametrize("uri", ["/data/{date}.csv", "/data/*/{date}/x.csv", "/data/{date:%Y/%m}/*/{date}.csv"])
def test_a_marker_is_of_one_day(uri: str) -> None:
    with pytest.raises(
        ValidationError, match=r"ready\.marker '_SUCCESS' would be of many days; write \{date\} into it"
    ):
        files(uri, marker="_SUCCESS")
    assert files(uri, marker="{date}.done").ready.marker == "{date}.done"
    assert files("/data/{date:%Y/%m}/{date}.csv", marker="{date:%d}.done").ready.marker == "{date:%d}.done"
