"""A backup is checked, or fetched, before anything is changed."""

import errno
import io
import json
import os
from pathlib import Path

import pytest
from rich.console import Console

from ratchet.contracts.errors import ConfigurationError, CorruptArtifact, Unavailable
from team import backup
from team.__main__ import _up
from team.backup_copies import copy
from team.backup_folder import backups_of, check, digests, whole
from team.copy_places import copy_place
from team.settings import Settings
from team.stack import Stack
from team.stack_buckets import buckets, further_sources, owner
from tests.s3 import S3Server

CONSOLE = Console(file=io.StringIO())
KEY = bytes(range(32))
NAME = "2026-11-27T120000Z"
NEEDED = ["airflow.dump", "mlflow.dump", "mlflow.tar", "ratchet.tar", "sources.tar"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A whole backup, as far as its files go."""
    made = tmp_path / "backup"
    (made / "secrets").mkdir(parents=True)
    for name in (*NEEDED, "secrets/made.json", "secrets/s3-admin"):
        (made / name).write_text(name)
    note(made)
    return made


def note(folder: Path) -> None:
    (folder / "manifest.json").unlink(missing_ok=True)
    (folder / "manifest.json").write_text(json.dumps(digests(folder)))


def test_every_file_of_a_backup_has_its_digest(folder: Path) -> None:
    noted = json.loads((folder / "manifest.json").read_text())
    assert sorted(noted) == sorted([*NEEDED, "secrets/made.json", "secrets/s3-admin"])


def test_a_whole_backup_is_accepted(folder: Path) -> None:
    check(folder, NEEDED)


@pytest.mark.parametrize("name", ["airflow.dump", "ratchet.tar", "secrets/made.json", "secrets/s3-admin"])
def test_a_damaged_file_is_reported(folder: Path, name: str) -> None:
    with (folder / name).open("r+b") as file:
        file.write(b"\0")
    with pytest.raises(CorruptArtifact, match=rf"{name} is missing or damaged; to do: restore another backup"):
        check(folder)


@pytest.mark.parametrize("name", ["airflow.dump", "ratchet.tar", "secrets/made.json"])
def test_a_missing_file_is_reported(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(CorruptArtifact, match=f"{name} is missing or damaged"):
        check(folder)


@pytest.mark.parametrize("text", ["", '{"airflow.dump": "'])
def test_a_damaged_manifest_is_reported(folder: Path, text: str) -> None:
    (folder / "manifest.json").write_text(text)
    with pytest.raises(CorruptArtifact, match=r"manifest\.json is damaged"):
        check(folder)


def test_a_folder_that_is_no_backup_is_reported(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "absent"):
        with pytest.raises(
            ConfigurationError, match=r"is not a backup: it has no manifest\.json; to do: name a folder"
        ):
            check(place)


def test_a_backup_of_other_buckets_is_reported(folder: Path) -> None:
    (folder / "ratchet.tar").unlink()
    note(folder)
    with pytest.raises(ConfigurationError, match=r"has no ratchet\.tar; to do: restore it with the \.env"):
        check(folder, NEEDED)


@pytest.mark.parametrize("gone", ["ratchet.tar", "secrets/made.json", "manifest.json"])
def test_a_restore_of_a_damaged_backup_changes_nothing(
    folder: Path, stack: Stack, gone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.devnull)  # no Compose could be asked for anything
    stack.secrets.mkdir(parents=True)
    (stack.secrets / "made.json").write_text("ours")
    (folder / gone).unlink()
    with pytest.raises((CorruptArtifact, ConfigurationError), match=Path(gone).name):
        backup.find(stack, str(folder), CONSOLE)
    assert (stack.secrets / "made.json").read_text() == "ours"


@pytest.mark.parametrize(
    "elsewhere", [{"database_url": "postgresql://db"}, {"s3_endpoint": "https://s3", "s3_credentials": "credentials"}]
)
def test_what_is_elsewhere_is_backed_up_there(checkout: Path, folder: Path, elsewhere: dict[str, str]) -> None:
    stack = Stack(checkout, Settings.model_validate(elsewhere), {})
    with pytest.raises(ConfigurationError, match="the database or S3 of this set-up is elsewhere; to do: back it up"):
        backup.back_up(stack, CONSOLE)
    with pytest.raises(ConfigurationError, match="is elsewhere"):
        backup.find(stack, str(folder), CONSOLE)
    with pytest.raises(ConfigurationError, match="is elsewhere"):
        backup.restore(stack, folder, CONSOLE)
    assert not stack.home.parent.exists()


def test_the_buckets_are_those_of_the_settings_each_once_and_the_stores_first(checkout: Path) -> None:
    settings = Settings(store="s3://shop", data="s3://lake/raw", artifacts="s3://lake/models")
    assert buckets(Stack(checkout, settings, {})) == ["shop", "lake"]
    assert buckets(Stack(checkout, Settings(), {})) == ["ratchet", "mlflow", "sources"]


@pytest.mark.parametrize(
    ("bucket", "key", "whose"),
    [
        ("lake", "ledger/m/head.json", "store"),
        ("lake", "raw/day=1", "data"),
        ("lake", "rawer/day=1", "store"),
        ("lake", "raw/models/1/model.bin", "artifacts"),
        ("pond", "raw/day=1", "data"),
    ],
)
def test_an_object_belongs_to_the_longest_prefix_of_the_settings(
    checkout: Path, bucket: str, key: str, whose: str
) -> None:
    settings = Settings(store="s3://lake", data="s3://lake/raw/", artifacts="s3://lake/raw/models")
    assert owner(Stack(checkout, settings, {}), bucket, key) == whose


def test_a_place_for_copies_that_is_not_there_ends_a_backup_before_anything_is_saved(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.devnull)  # no Compose could be asked for anything
    (tmp_path / "key").write_text(KEY.hex())
    settings = Settings(backups_to=str(tmp_path / "disk"), backups_key=tmp_path / "key")
    stack = Stack(checkout, settings, {})
    with pytest.raises(ConfigurationError, match="disk is not there; to do: mount the disk"):
        backup.back_up(stack, CONSOLE)
    assert whole(backups_of(stack)) == []


def old_backups(stack: Stack, *names: str) -> None:
    for name in names:
        (backups_of(stack) / name).mkdir(parents=True)
        (backups_of(stack) / name / "manifest.json").write_text("{}")


def test_a_smaller_number_of_backups_frees_a_full_disk_before_anything_is_saved(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.devnull)  # no Compose could be asked for anything
    stack = Stack(checkout, Settings(backups_keep=1), {})
    old_backups(stack, "2026-11-25T120000Z", "2026-11-26T120000Z", NAME)
    with pytest.raises(ConfigurationError, match="Compose is not installed"):
        backup.back_up(stack, CONSOLE)
    assert whole(backups_of(stack)) == [NAME]


def test_a_disk_that_takes_no_folder_is_one_line(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, **_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    stack = Stack(checkout, Settings(), {})
    backups_of(stack).mkdir(parents=True)
    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(Unavailable, match="no space left on device; to do: free space, or lower RATCHET_BACKUPS_KEEP"):
        backup.back_up(stack, CONSOLE)
    with pytest.raises(Unavailable, match="no space left on device"):
        backup.restore(stack, checkout, CONSOLE)


def test_a_copy_on_the_disk_of_the_backups_ends_a_backup_with_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"is lost with it.*are whole; to do: mount another disk") as caught:
        backup._refuse_same_disk(str(tmp_path), tmp_path, tmp_path / NAME)
    assert caught.value.code == 64
    backup._refuse_same_disk("/dev/shm", tmp_path, tmp_path / NAME)


def test_further_sources_are_restored_if_the_backup_has_them(checkout: Path, tmp_path: Path) -> None:
    stack = Stack(checkout, Settings(source_roots="s3://lake/raw, s3://sources, s3://erp"), {})
    assert further_sources(stack) == ["lake", "erp"]
    assert backup._buckets_of(stack, tmp_path) == buckets(stack)
    (tmp_path / "erp.tar").touch()
    assert backup._buckets_of(stack, tmp_path) == [*buckets(stack), "erp"]


@pytest.mark.parametrize("form", ["folder", "bucket"])
def test_a_copy_is_fetched_before_a_restore(
    checkout: Path, tmp_path: Path, folder: Path, s3_server: S3Server, form: str
) -> None:
    made = folder.rename(folder.with_name(NAME))
    (tmp_path / "key").write_text(KEY.hex())
    keys = tmp_path / "keys"
    keys.write_text("[default]\naws_access_key_id = test\naws_secret_access_key = test-secret\n")
    settings = Settings(backups_key=tmp_path / "key", backups_credentials=keys, backups_endpoint=s3_server.endpoint)
    to = str(tmp_path / "disk") if form == "folder" else f"s3://{s3_server.bucket}/{tmp_path.name}"
    copy(copy_place(to, settings), made, KEY)
    stack = Stack(checkout, settings, {})
    found = backup.find(stack, f"{to}/{NAME}/", CONSOLE)
    assert found == backups_of(stack) / NAME
    assert digests(found) == digests(made)


def test_a_stack_that_is_half_restored_is_neither_backed_up_nor_started(stack: Stack) -> None:
    stack.home.mkdir(parents=True)
    (stack.home / "restoring").write_text("/backups/a")
    said = "the restore of /backups/a has not ended; to do: run `make restore FROM=/backups/a` again"
    with pytest.raises(ConfigurationError, match=said):
        backup.back_up(stack, CONSOLE)
    with pytest.raises(ConfigurationError, match=said):
        backup.refuse_half_restored(stack)


def test_nothing_starts_in_a_restore_that_has_begun_while_images_were_built(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.devnull)  # no Compose could start anything
    stack.home.mkdir(parents=True)
    (stack.home / "restoring").write_text("/backups/a")
    with pytest.raises(ConfigurationError, match="the restore of /backups/a has not ended"):
        _up(stack, CONSOLE)
    assert not stack.secrets.exists()
