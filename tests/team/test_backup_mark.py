"""A backup that was copied leaves a mark in the store, and one without a copy takes it away."""

import io
import tempfile
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from rich.console import Console

from ratchet.contracts.errors import ConfigurationError, Unavailable
from ratchet.contracts.presence import Presence
from team import backup
from team.backup_folder import backups_of, whole, write_manifest
from team.backup_mark import forget_copied, mark_copied
from team.bucket_files import restore_bucket, save_bucket, set_aside
from team.copy_places import Folder
from team.settings import Settings
from team.stack import Stack
from tests.ports import hold, number
from tests.s3 import S3Server
from tests.team.buckets import contents

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

CONSOLE = Console(file=io.StringIO())
MARK = "outbox/here/backup.json"


@pytest.fixture
def bucket(client: "S3Client") -> str:
    name = f"store-{uuid.uuid4().hex[:12]}"
    client.create_bucket(Bucket=name)
    return name


@pytest.fixture
def disk() -> Iterator[Path]:
    """A disk that is not that of the backups."""
    with tempfile.TemporaryDirectory(prefix="ratchet-test-", dir="/dev/shm") as name:
        yield Path(name)


@pytest.fixture(autouse=True)
def saved(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stack whose databases and buckets need no saving."""

    def save(_: Stack, backups: Path, *__: object, **___: object) -> Path:
        folder = backups / backup.now()
        folder.mkdir(exist_ok=True)
        (folder / "airflow.dump").write_bytes(b"saved")
        write_manifest(folder)
        return folder

    monkeypatch.setattr(backup, "_save", save)


def stack_of(checkout: Path, port: int | None, bucket: str, to: Path | None) -> Stack:
    """A stack whose S3 is at a port, and whose copies go to a folder."""
    (checkout / "key").write_text("ab" * 32)
    copies = {} if to is None else {"backups_to": str(to), "backups_key": checkout / "key"}
    settings = Settings.model_validate({"s3_port": port, "store": f"s3://{bucket}", **copies})
    stack = Stack(checkout, settings, {})
    stack.secrets.mkdir(parents=True, exist_ok=True)
    (stack.secrets / "RATCHET_INSTALLATION").write_text("here")
    (stack.secrets / "s3-admin").write_text(
        "[default]\naws_access_key_id = test\naws_secret_access_key = test-secret\n"
    )
    return stack


def test_a_mark_is_there_from_the_first_copy_until_no_copies_are_wanted(
    checkout: Path, client: "S3Client", s3_server: S3Server, bucket: str, disk: Path
) -> None:
    port = urlsplit(s3_server.endpoint).port
    wanted, unwanted = (stack_of(checkout, port, bucket, to) for to in (disk, None))
    backup.back_up(unwanted, CONSOLE)  # none is there to be deleted
    assert contents(client, bucket) == {}
    for _ in range(2):
        backup.back_up(wanted, CONSOLE)
        (found,) = contents(client, bucket).items()
        assert found[0] == MARK
        age = datetime.now(UTC) - Presence.model_validate_json(found[1]).at
        assert timedelta(0) <= age < timedelta(minutes=5)
    backup.back_up(unwanted, CONSOLE)
    assert contents(client, bucket) == {}


def test_a_backup_whose_copy_fails_leaves_the_mark_as_it_is(
    checkout: Path, client: "S3Client", s3_server: S3Server, bucket: str, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise Unavailable("the disk is full", remedy="free space")

    stack = stack_of(checkout, urlsplit(s3_server.endpoint).port, bucket, disk)
    monkeypatch.setattr(Folder, "put", full)
    with pytest.raises(Unavailable, match="the disk is full"):
        backup.back_up(stack, CONSOLE)
    assert contents(client, bucket) == {}
    assert len(whole(backups_of(stack))) == 1


def test_a_mark_that_is_restored_is_as_old_as_the_restore_and_a_newer_one_goes_aside(
    checkout: Path, client: "S3Client", s3_server: S3Server, bucket: str, tmp_path: Path
) -> None:
    stack = stack_of(checkout, urlsplit(s3_server.endpoint).port, bucket, None)
    mark_copied(stack)
    before = contents(client, bucket)
    save_bucket(client, bucket, tmp_path / "store.tar")
    mark_copied(stack)
    assert contents(client, bucket) != before
    assert set_aside(client, bucket, tmp_path / "store.tar", tmp_path / "aside.tar", belongs=lambda _: True) == (1, 0)
    restore_bucket(client, bucket, tmp_path / "store.tar")
    assert contents(client, bucket) == before
    forget_copied(stack)
    restore_bucket(client, bucket, tmp_path / "store.tar")
    written = client.head_object(Bucket=bucket, Key=MARK)["LastModified"]
    assert datetime.now(UTC) - written < timedelta(minutes=5)


def test_a_store_that_does_not_answer_or_has_no_bucket_is_one_line(
    checkout: Path, s3_server: S3Server, disk: Path
) -> None:
    absent = stack_of(checkout, urlsplit(s3_server.endpoint).port, "absent", disk)
    with pytest.raises(ConfigurationError, match=r"refused with NoSuchBucket.*to do: check its address, its bucket"):
        backup.back_up(absent, CONSOLE)
    assert len([*disk.glob("*/*/manifest.json.sealed")]) == 1  # the copy is whole
    with hold() as nothing, pytest.raises(Unavailable, match=r"http://127\.0\.0\.1:\d+: .*; to do: check its address"):
        mark_copied(stack_of(checkout, number(nothing), "absent", disk))
