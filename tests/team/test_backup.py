"""A backup is checked before anything is changed, and buckets come back as they were."""

import io
import json
import os
import tarfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pytest
from rich.console import Console

from ratchet.contracts.errors import ConfigurationError, CorruptArtifact
from team import backup
from team.settings import Settings
from team.stack import Stack
from tests.s3 import S3Server

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

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
    (folder / "manifest.json").write_text(json.dumps(backup._digests(folder)))


@pytest.fixture
def client(s3_server: S3Server) -> "S3Client":
    made: S3Client = boto3.client(
        "s3",
        endpoint_url=s3_server.endpoint,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test-secret",
    )
    return made


def test_every_file_of_a_backup_has_its_digest(folder: Path) -> None:
    noted = json.loads((folder / "manifest.json").read_text())
    assert sorted(noted) == sorted([*NEEDED, "secrets/made.json", "secrets/s3-admin"])


def test_a_whole_backup_is_accepted(folder: Path) -> None:
    backup.check(folder, NEEDED)


@pytest.mark.parametrize("name", ["airflow.dump", "ratchet.tar", "secrets/made.json", "secrets/s3-admin"])
def test_a_damaged_file_is_reported(folder: Path, name: str) -> None:
    with (folder / name).open("r+b") as file:
        file.write(b"\0")
    with pytest.raises(CorruptArtifact, match=rf"{name} is missing or damaged; to do: restore another backup"):
        backup.check(folder)


@pytest.mark.parametrize("name", ["airflow.dump", "ratchet.tar", "secrets/made.json"])
def test_a_missing_file_is_reported(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(CorruptArtifact, match=f"{name} is missing or damaged"):
        backup.check(folder)


@pytest.mark.parametrize("text", ["", '{"airflow.dump": "'])
def test_a_damaged_manifest_is_reported(folder: Path, text: str) -> None:
    (folder / "manifest.json").write_text(text)
    with pytest.raises(CorruptArtifact, match=r"manifest\.json is damaged"):
        backup.check(folder)


def test_a_folder_that_is_no_backup_is_reported(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "absent"):
        with pytest.raises(
            ConfigurationError, match=r"is not a backup: it has no manifest\.json; to do: name a folder"
        ):
            backup.check(place)


def test_a_backup_of_other_buckets_is_reported(folder: Path) -> None:
    (folder / "ratchet.tar").unlink()
    note(folder)
    with pytest.raises(ConfigurationError, match=r"has no ratchet\.tar; to do: restore it with the \.env"):
        backup.check(folder, NEEDED)


@pytest.mark.parametrize("gone", ["ratchet.tar", "secrets/made.json", "manifest.json"])
def test_a_restore_of_a_damaged_backup_changes_nothing(
    folder: Path, stack: Stack, gone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.devnull)  # no Compose could be asked for anything
    stack.secrets.mkdir(parents=True)
    (stack.secrets / "made.json").write_text("ours")
    (folder / gone).unlink()
    with pytest.raises((CorruptArtifact, ConfigurationError), match=Path(gone).name):
        backup.restore(stack, folder, Console(file=io.StringIO()))
    assert (stack.secrets / "made.json").read_text() == "ours"


@pytest.mark.parametrize(
    "elsewhere", [{"database_url": "postgresql://db"}, {"s3_endpoint": "https://s3", "s3_credentials": "credentials"}]
)
def test_what_is_elsewhere_is_backed_up_there(checkout: Path, folder: Path, elsewhere: dict[str, str]) -> None:
    stack = Stack(checkout, Settings.model_validate(elsewhere), {})
    console = Console(file=io.StringIO())
    with pytest.raises(ConfigurationError, match="the database or S3 of this set-up is elsewhere; to do: back it up"):
        backup.save(stack, console)
    with pytest.raises(ConfigurationError, match="is elsewhere"):
        backup.restore(stack, folder, console)
    assert not stack.home.parent.exists()


def test_the_buckets_are_those_of_the_settings_each_once(checkout: Path) -> None:
    settings = Settings(store="s3://shop", data="s3://lake/raw", artifacts="s3://lake/models")
    assert backup._buckets(Stack(checkout, settings, {})) == ["lake", "shop"]
    assert backup._buckets(Stack(checkout, Settings(), {})) == ["mlflow", "ratchet", "sources"]


def test_a_bucket_comes_back_as_it_was(client: "S3Client", tmp_path: Path) -> None:
    bucket = f"saved-{uuid.uuid4().hex[:12]}"
    long = "/".join(["published", "a" * 90, "b" * 90, "part.parquet"])
    objects = {"a": b"1", "empty": b"", "folder/": b"", "tables/ü, é/ñ.txt": b"\0\xff" * 5000, long: b"long"}
    client.create_bucket(Bucket=bucket)
    for key, content in objects.items():
        client.put_object(Bucket=bucket, Key=key, Body=content)
    backup._save_bucket(client, bucket, tmp_path / "b.tar")

    client.put_object(Bucket=bucket, Key="a", Body=b"changed since")
    client.put_object(Bucket=bucket, Key="new", Body=b"made since")
    backup._restore_bucket(client, bucket, tmp_path / "b.tar")
    assert contents(client, bucket) == {**objects, "new": b"made since"}

    for key in contents(client, bucket):
        client.delete_object(Bucket=bucket, Key=key)
    client.delete_bucket(Bucket=bucket)
    backup._restore_bucket(client, bucket, tmp_path / "b.tar")
    assert contents(client, bucket) == objects


def contents(client: "S3Client", bucket: str) -> dict[str, bytes]:
    listed = client.list_objects_v2(Bucket=bucket).get("Contents", [])
    return {each["Key"]: client.get_object(Bucket=bucket, Key=each["Key"])["Body"].read() for each in listed}


def test_a_bucket_is_never_saved_over_another_backup(client: "S3Client", tmp_path: Path) -> None:
    bucket = f"saved-{uuid.uuid4().hex[:12]}"
    client.create_bucket(Bucket=bucket)
    backup._save_bucket(client, bucket, tmp_path / "b.tar")
    with tarfile.open(tmp_path / "b.tar") as tar:
        assert tar.getnames() == []
    with pytest.raises(FileExistsError):
        backup._save_bucket(client, bucket, tmp_path / "b.tar")
