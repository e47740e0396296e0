"""A place where no store can be: the message names it, and what to do."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ratchet.cli.main import main
from ratchet.contracts.errors import ConfigurationError, Unavailable
from ratchet.store.file import FileStore

FOLDER = Path(__file__).resolve().parents[2] / "dags" / "pipelines" / "search-ranking"
REMEDY = "to do: name a folder: --store, or RATCHET_STORE"


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A store on a disk that is mounted for reading alone."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "ratchet-test", str(place)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    try:
        FileStore(place / "store").create("a", b"1")
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        yield place / "store"
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("below", ["", "/below", "/far/below"])
def test_a_file_in_the_stores_place_is_named(tmp_path: Path, below: str) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ConfigurationError) as raised:
        FileStore(Path(f"{file}{below}")).prepare()
    assert str(raised.value) == f"the store {file}{below} cannot be made: it is at {file}, which is a file; {REMEDY}"


def test_a_folder_that_takes_no_folders_is_named() -> None:
    with pytest.raises(ConfigurationError) as raised:
        FileStore(Path("/proc/nope")).prepare()
    assert (
        str(raised.value)
        == f"the store /proc/nope cannot be made: it is in /proc, where no folder can be made; {REMEDY}"
    )


def test_a_disk_that_is_mounted_for_reading_alone_is_no_matter_of_its_owner(read_only: Path) -> None:
    store = FileStore(read_only)
    store.prepare()
    assert store.read("a") == b"1"
    with pytest.raises(Unavailable, match=r"Read-only file system; to do: mount the store's disk for writing"):
        store.create("b", b"2")
    with pytest.raises(Unavailable, match=r"Read-only file system; to do: mount the store's disk for writing"):
        FileStore(read_only / "new").prepare()


def test_a_run_says_so_in_one_line_and_runs_no_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RATCHET_DATA", str(tmp_path))
    (tmp_path / "clicks").mkdir()
    file = tmp_path / "file"
    file.touch()
    assert main(["run", str(FOLDER), "--date", "2026-03-20", "--runner", "process", "--store", str(file)]) == 64
    assert capsys.readouterr().err.splitlines()[1:] == [
        f"ratchet run: the store {file} cannot be made: it is at {file}, which is a file; {REMEDY}"
    ]
