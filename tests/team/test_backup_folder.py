"""Which backups stay, what a killed one leaves, and what `make ps` says of the last."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ratchet.contracts.errors import Unavailable
from team.backup_folder import alone, describe_last, is_name, last_made, note_copy, now, prune, whole, write_manifest


def made(backups: Path, hours: float) -> str:
    name = (datetime.now(UTC) - timedelta(hours=hours)).strftime("%Y-%m-%dT%H%M%SZ")
    (backups / name).mkdir()
    write_manifest(backups / name)
    return name


def test_a_backup_is_named_by_its_time() -> None:
    assert is_name(now())
    assert not any(map(is_name, ("aside-2026-11-27T120000Z", ".2026-11-27T120000Z", "ratchet")))


def test_the_newest_backups_stay_and_nothing_else_is_deleted(tmp_path: Path) -> None:
    names = [made(tmp_path, hours) for hours in (30, 20, 10)]
    (tmp_path / f"aside-{names[0]}").mkdir()
    (tmp_path / "2020-01-01T000000Z").mkdir()  # without a manifest: somebody else's
    assert prune(tmp_path, 2, but=names[2]) == [names[0]]
    assert prune(tmp_path, 2, but=names[2]) == []
    assert whole(tmp_path) == [names[2], names[1]]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["2020-01-01T000000Z", names[1], names[2], f"aside-{names[0]}"]
    )


def test_one_that_was_just_made_stays_though_the_clock_was_set_back(tmp_path: Path) -> None:
    older, newer = made(tmp_path, 20), made(tmp_path, 10)
    assert prune(tmp_path, 1, but=older) == []
    assert whole(tmp_path) == [newer, older]
    write_manifest(tmp_path / older)
    assert last_made(tmp_path) == older
    assert last_made(tmp_path / older) is None


def test_only_one_works_at_a_time_and_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    backups = tmp_path / "backups"
    half = backups / ".2026-11-27T120000Z" / "secrets"
    half.mkdir(parents=True)
    (half / "made.json").write_text("{}")
    aside = backups / "aside-2026-11-27T120000Z"
    aside.mkdir()
    for name in ("ratchet.tar", ".mlflow.tar"):
        (aside / name).touch()
    with alone(backups):
        assert not half.parent.exists()
        assert [path.name for path in aside.iterdir()] == ["ratchet.tar"]
        with (
            pytest.raises(Unavailable, match=f"another backup or restore works in {backups}; to do: wait"),
            alone(backups),
        ):
            pass
    with alone(tmp_path / "new"):
        pass
    with alone(backups):
        pass
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_the_last_backup_is_told_and_an_old_one_or_one_without_a_copy_only_where_copies_are_wanted(
    tmp_path: Path,
) -> None:
    assert describe_last(tmp_path, None) == ("no backup was made yet; `make backup` makes one", True)
    assert describe_last(tmp_path, "/disk")[1] is False
    old = made(tmp_path, 30)
    assert describe_last(tmp_path, None) == (f"last backup: {old}, 30 h ago", True)
    note_copy(tmp_path, old, "/disk")
    said, fine = describe_last(tmp_path, "/disk")
    assert said.startswith(f"last backup: {old}, 30 h ago, copied to /disk; it is older than 26 h: run `make backup`")
    assert not fine
    new = made(tmp_path, 3)
    assert describe_last(tmp_path, "/disk") == (f"last backup: {new}, 3 h ago, not copied to /disk", False)
    note_copy(tmp_path, new, "/disk")
    assert describe_last(tmp_path, "/disk") == (f"last backup: {new}, 3 h ago, copied to /disk", True)
    assert describe_last(tmp_path, "s3://b") == (f"last backup: {new}, 3 h ago, not copied to s3://b", False)
