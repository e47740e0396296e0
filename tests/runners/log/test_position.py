import os
from pathlib import Path

import pytest

from ratchet.contracts.errors import ConfigurationError
from ratchet.runners.log.position import Mark, Position, PositionFile, discard

TIME = b"2026-11-21T10:46:00.000000001Z"
EARLIER = b"2026-11-21T10:45:00.000000000Z"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path / f"ratchet-positions-{os.getuid()}"


def test_the_begin_of_a_log_is_asked_for_without_a_time() -> None:
    assert Position().since == {}


@pytest.mark.parametrize(
    ("stderr", "since"), [(Mark(EARLIER), "1795257959.000000"), (Mark(EARLIER, held=True), "1795257900.000000")]
)
def test_a_log_is_asked_for_from_a_second_before_the_newest_line_or_from_an_unfinished_one(
    stderr: Mark, since: str
) -> None:
    assert Position((Mark(TIME, 1), stderr)).since == {"since": since}


def test_what_is_packed_comes_back_and_anything_else_counts_as_nothing() -> None:
    position = Position((Mark(TIME, 2, held=True), Mark()))
    assert Position.unpack(position.pack()) == position
    for damaged in (b"", b"x" * len(position.pack()), position.pack()[:-1]):
        assert Position.unpack(damaged) is None


def test_what_is_kept_is_for_this_user_alone_and_comes_back(folder: Path) -> None:
    position = Position((Mark(TIME, 2, held=True), Mark()))
    with PositionFile("a") as kept:
        assert kept.read() == Position()
        kept.write(position)
    with PositionFile("a") as kept:
        assert kept.read() == position
    assert [oct(path.stat().st_mode & 0o777) for path in (folder, folder / "a")] == ["0o700", "0o600"]
    discard("a")
    discard("a")
    assert list(folder.iterdir()) == []


def test_a_folder_that_others_may_write_to_is_refused(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(ConfigurationError, match="not a private folder"):
        PositionFile("a")
