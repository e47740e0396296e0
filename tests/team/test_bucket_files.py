"""Buckets come back as they were, and what a backup does not have is set aside."""

import io
import tarfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ratchet.contracts.errors import ConfigurationError, Unavailable
from team.bucket_files import one_line, restore_bucket, save_bucket, set_aside
from tests.team.buckets import contents, stored

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client


@pytest.fixture
def bucket(client: "S3Client") -> str:
    name = f"saved-{uuid.uuid4().hex[:12]}"
    client.create_bucket(Bucket=name)
    return name


def test_a_bucket_comes_back_as_it_was(client: "S3Client", bucket: str, tmp_path: Path) -> None:
    long = "/".join(["published", "a" * 90, "b" * 90, "part.parquet"])
    folders = {"folder/": b"", "Übung/": b"", f"{'c' * 120}/": b""}  # as consoles mark them
    objects = {"a": b"1", "empty": b"", **folders, "tables/ü, é/ñ.txt": b"\0\xff" * 5000, long: b"long"}
    stored(client, bucket, objects)
    save_bucket(client, bucket, tmp_path / "b.tar")

    stored(client, bucket, {"a": b"changed since", "new": b"made since"})
    restore_bucket(client, bucket, tmp_path / "b.tar")
    assert contents(client, bucket) == {**objects, "new": b"made since"}

    for key in contents(client, bucket):
        client.delete_object(Bucket=bucket, Key=key)
    client.delete_bucket(Bucket=bucket)
    restore_bucket(client, bucket, tmp_path / "b.tar")
    assert contents(client, bucket) == objects


def test_many_small_and_large_objects_keep_their_order_and_their_metadata(
    client: "S3Client", bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("team.bucket_files._SMALL", 2)
    for number in range(20):
        body = b"large" if number % 7 == 0 else b"s"
        client.put_object(Bucket=bucket, Key=f"{number * 17 % 20:02d}", Body=body, Metadata={"number": str(number)})
    save_bucket(client, bucket, tmp_path / "b.tar")
    with tarfile.open(tmp_path / "b.tar") as tar:
        assert [entry.size for entry in tar] == [
            client.head_object(Bucket=bucket, Key=entry.name)["ContentLength"] for entry in tar
        ]
        assert [entry.mtime for entry in tar] == sorted(entry.mtime for entry in tar)
    before = contents(client, bucket)
    for key in before:
        client.delete_object(Bucket=bucket, Key=key)
    restore_bucket(client, bucket, tmp_path / "b.tar")
    assert contents(client, bucket) == before
    assert client.head_object(Bucket=bucket, Key="17")["Metadata"] == {"number": "1"}


def test_a_bucket_is_never_saved_over_another_backup(client: "S3Client", bucket: str, tmp_path: Path) -> None:
    save_bucket(client, bucket, tmp_path / "b.tar")
    with tarfile.open(tmp_path / "b.tar") as tar:
        assert tar.getnames() == []
    with pytest.raises(FileExistsError):
        save_bucket(client, bucket, tmp_path / "b.tar")


def test_what_a_backup_lacks_is_saved_and_then_deleted_and_what_it_has_otherwise_is_saved(
    client: "S3Client", bucket: str, tmp_path: Path
) -> None:
    stored(client, bucket, {"ledger/m/1": b"1", "ledger/m/head": b"at 1", "data/a": b"a"})
    save_bucket(client, bucket, tmp_path / "b.tar")
    newer = {"ledger/m/2": b"2", "ledger/m/head": b"at 2"}
    stored(client, bucket, {**newer, "data/b": b"b"})

    aside = tmp_path / "aside" / "b.tar"
    done = set_aside(client, bucket, tmp_path / "b.tar", aside, belongs=lambda key: key.startswith("ledger/"))
    assert done == (2, 1)
    restore_bucket(client, bucket, tmp_path / "b.tar")
    assert contents(client, bucket) == {"ledger/m/1": b"1", "ledger/m/head": b"at 1", "data/a": b"a", "data/b": b"b"}

    restore_bucket(client, "another-" + bucket, aside)
    assert contents(client, "another-" + bucket) == newer


def test_a_bucket_that_is_as_in_the_backup_is_left(client: "S3Client", bucket: str, tmp_path: Path) -> None:
    stored(client, bucket, {"a": b"a"})
    save_bucket(client, bucket, tmp_path / "b.tar")
    restore_bucket(client, bucket, tmp_path / "b.tar")
    assert set_aside(client, bucket, tmp_path / "b.tar", tmp_path / "aside" / "b.tar") == (0, 0)
    assert not (tmp_path / "aside").exists()


def test_objects_in_several_parts_are_compared_by_their_content(
    client: "S3Client", bucket: str, tmp_path: Path
) -> None:
    size = 9 << 20
    for key in ("same", "other"):
        client.upload_fileobj(io.BytesIO(b"a" * size), bucket, key)
    assert "-" in client.head_object(Bucket=bucket, Key="same")["ETag"]
    save_bucket(client, bucket, tmp_path / "b.tar")
    restore_bucket(client, bucket, tmp_path / "b.tar")  # in one part each, so with another ETag
    client.upload_fileobj(io.BytesIO(b"a" * (size - 1) + b"b"), bucket, "other")
    assert set_aside(client, bucket, tmp_path / "b.tar", tmp_path / "aside" / "b.tar") == (1, 0)
    with tarfile.open(tmp_path / "aside" / "b.tar") as tar:
        assert tar.getnames() == ["other"]


def test_folders_that_consoles_mark_are_found_in_a_backup_of_before(
    client: "S3Client", bucket: str, tmp_path: Path
) -> None:
    """It has no ETags, so contents are compared."""
    stored(client, bucket, {"raw/": b"", "raw/a": b"a"})
    with tarfile.open(tmp_path / "b.tar", "w") as tar:
        for key, body in contents(client, bucket).items():
            entry = tarfile.TarInfo(key)
            entry.size = len(body)
            tar.addfile(entry, io.BytesIO(body))
    assert set_aside(client, bucket, tmp_path / "b.tar", tmp_path / "aside" / "b.tar") == (0, 0)


@pytest.mark.parametrize("killed_at", ["saving", "deleting", "restoring"])
def test_a_restore_that_is_killed_at_any_point_ends_the_same_when_it_is_run_again(
    client: "S3Client", bucket: str, tmp_path: Path, killed_at: str
) -> None:
    """The kill is an error of the client at its second request of that kind."""
    kept = {f"old/{number}": b"as it was" for number in range(3)}
    stored(client, bucket, kept)
    save_bucket(client, bucket, tmp_path / "b.tar")
    newer = {"old/0": b"changed", "new/1": b"1", "new/2": b"2"}
    stored(client, bucket, newer)
    call = {"saving": "GetObject", "deleting": "DeleteObject", "restoring": "PutObject"}[killed_at]
    asked: list[object] = []

    def kill(**_: object) -> None:
        asked.append(_)
        if len(asked) > 1:
            raise RuntimeError("killed")

    def restore(number: int) -> None:
        set_aside(client, bucket, tmp_path / "b.tar", tmp_path / f"aside-{number}" / "b.tar")
        restore_bucket(client, bucket, tmp_path / "b.tar")

    client.meta.events.register(f"before-call.s3.{call}", kill)
    with pytest.raises(RuntimeError, match="killed"):
        restore(1)
    client.meta.events.unregister(f"before-call.s3.{call}", kill)
    restore(2)
    assert contents(client, bucket) == kept
    saved: set[tuple[str, bytes]] = set()
    for place in tmp_path.glob("aside-*/b.tar"):
        with tarfile.open(place) as tar:
            saved |= {(entry.name, tar.extractfile(entry).read()) for entry in tar}  # type: ignore[union-attr]
    assert saved >= set(newer.items())


def test_an_error_of_s3_is_one_line(client: "S3Client", tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigurationError, match=r"place: refused with NoSuchBucket: .*; to do: check"),
        one_line("place"),
    ):
        save_bucket(client, "absent-bucket", tmp_path / "b.tar")


def test_a_full_disk_is_one_line() -> None:
    said = "place: no space left on device; to do: free space, or lower RATCHET_BACKUPS_KEEP"
    with (
        pytest.raises(Unavailable, match=said),
        one_line("S3", "place"),
        Path("/dev/full").open("wb", buffering=0) as out,
    ):
        out.write(b"x")
