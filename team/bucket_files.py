"""Buckets as tar files: saved, restored, and what is not in a backup set aside."""

import io
import json
import os
import tarfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ratchet.contracts.errors import ConfigurationError, Unavailable
from team.durable import rename

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

_METADATA, _ETAG, _KEY = "RATCHET.metadata", "RATCHET.etag", "RATCHET.key"
"""What an entry of a tar says of its object. The key, where a tar would take the slash at its end away."""
_LARGEST_PUT = 5 << 30
"""S3's own limit."""
_READERS = 8
_BLOCK = 1 << 20
_SMALL = 8 << 20
"""Objects up to this size are read ahead, as many as there are readers, and one more: so memory is bounded."""
_SETTINGS = frozenset({"NoSuchBucket", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "403", "404"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """An object as a list names it."""

    key: str
    etag: str
    size: int
    modified: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """An object as it was read."""

    etag: str
    size: int
    metadata: dict[str, str]
    body: IO[bytes]


def listed(client: "S3Client", bucket: str, prefix: str = "") -> list[Listed]:
    """The objects of a bucket in the order of their writing, which some readers rely on."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    found = [
        Listed(key=each["Key"], etag=each["ETag"], size=each["Size"], modified=each["LastModified"])
        for page in pages
        for each in page.get("Contents", [])
    ]
    return sorted(found, key=lambda each: each.modified)


def get(client: "S3Client", bucket: str, key: str) -> Read | None:
    """An object whose body is still to be read; None if it was deleted."""
    try:
        answer = client.get_object(Bucket=bucket, Key=key)
    except client.exceptions.NoSuchKey:
        return None
    body: IO[bytes] = answer["Body"]  # type: ignore[assignment]  # it reads as one
    return Read(etag=answer["ETag"], size=answer["ContentLength"], metadata=answer["Metadata"], body=body)


def get_whole(client: "S3Client", bucket: str, key: str) -> Read | None:
    """An object in memory; None if it was deleted."""
    from ratchet.store.s3_client import retry_unavailable

    def once() -> Read | None:
        found = get(client, bucket, key)
        if found is None:
            return None
        return Read(etag=found.etag, size=found.size, metadata=found.metadata, body=io.BytesIO(found.body.read()))

    return retry_unavailable(once)


def save(
    client: "S3Client",
    bucket: str,
    objects: Iterable[Listed],
    tar: tarfile.TarFile,
    *,
    known: Mapping[str, Read] | None = None,
) -> list[str]:
    """Put objects into a tar, in this order; the keys of those that were deleted since.

    known: objects that were read before, which go in as they were then.
    """
    gone: list[str] = []
    for found, read in _contents(client, bucket, objects, known or {}):
        if read is None:
            gone.append(found.key)
            continue
        entry = tarfile.TarInfo(found.key)
        entry.size, entry.mtime = read.size, int(found.modified.timestamp())
        entry.pax_headers = {_METADATA: json.dumps(read.metadata), _ETAG: read.etag}
        if found.key.endswith("/"):  # as consoles mark folders
            entry.pax_headers[_KEY] = found.key
        tar.addfile(entry, read.body)
    return gone


def _contents(
    client: "S3Client", bucket: str, objects: Iterable[Listed], known: Mapping[str, Read]
) -> Iterator[tuple[Listed, Read | None]]:
    """Objects with their content: small ones are read ahead by a few threads, large ones as they are wanted."""
    ahead: deque[tuple[Listed, Future[Read | None] | None]] = deque()

    def first() -> tuple[Listed, Read | None]:
        found, coming = ahead.popleft()
        if coming is not None:
            return found, coming.result()
        return found, known[found.key] if found.key in known else get(client, bucket, found.key)

    with ThreadPoolExecutor(_READERS) as pool:
        for found in objects:
            soon = found.size <= _SMALL and found.key not in known
            ahead.append((found, pool.submit(get_whole, client, bucket, found.key) if soon else None))
            if len(ahead) > _READERS:
                yield first()
        while ahead:
            yield first()


def save_bucket(client: "S3Client", bucket: str, file: Path) -> None:
    """Save all of a bucket in a new file."""
    with new_tar(file) as tar:
        save(client, bucket, listed(client, bucket), tar)


@contextmanager
def new_tar(file: Path) -> Iterator[tarfile.TarFile]:
    """A new tar file, on the disk when it is closed."""
    with file.open("xb") as out:
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
            yield tar
        out.flush()
        os.fsync(out.fileno())


def restore_bucket(client: "S3Client", bucket: str, file: Path) -> None:
    """Write the objects of a backup, in the order in which they were saved."""
    from boto3.s3.transfer import TransferConfig

    # One request for each object that fits in one, so that its ETag is the digest of its content, as before.
    one = TransferConfig(multipart_threshold=_LARGEST_PUT)
    make_bucket(client, bucket)
    with tarfile.open(file) as tar:
        for entry in tar:
            content = tar.extractfile(entry)
            if content is not None:
                metadata = json.loads(entry.pax_headers.get(_METADATA, "{}"))
                client.upload_fileobj(content, bucket, _key(entry), ExtraArgs={"Metadata": metadata}, Config=one)


def make_bucket(client: "S3Client", bucket: str) -> None:
    """Create a bucket if it is not there."""
    if bucket not in {found["Name"] for found in client.list_buckets()["Buckets"]}:
        client.create_bucket(Bucket=bucket)


def set_aside(
    client: "S3Client", bucket: str, file: Path, place: Path, *, belongs: Callable[[str], bool] = lambda _: True
) -> tuple[int, int]:
    """Save what a backup does not have, or has otherwise, in a new file; then delete what it does not have.

    belongs: the keys of which only those of the backup may be there; others stay. (how many were saved, how many of
    them deleted.) After a kill it can be called again, with another place: nothing is deleted before it is on the disk.
    """
    make_bucket(client, bucket)
    kept = _entries(file)
    found = listed(client, bucket)
    wanted = [each for each in found if belongs(each.key) or each.key in kept]
    with tarfile.open(file) as tar:
        other = [each for each in wanted if not _same(client, bucket, each, kept, tar)]
    if not other:
        return 0, 0
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    unfinished = place.with_name(f".{place.name}")
    with new_tar(unfinished) as tar:
        save(client, bucket, other, tar)
    rename(unfinished, place)
    gone = [each.key for each in other if each.key not in kept]
    with ThreadPoolExecutor(_READERS) as pool:
        for _ in pool.map(lambda key: client.delete_object(Bucket=bucket, Key=key), gone):
            pass
    return len(other), len(gone)


def _entries(file: Path) -> dict[str, tarfile.TarInfo]:
    """The entry of each object of a backup."""
    with tarfile.open(file) as tar:
        return {_key(entry): entry for entry in tar}


def _key(entry: tarfile.TarInfo) -> str:
    return entry.pax_headers.get(_KEY, entry.name)


def _same(
    client: "S3Client", bucket: str, found: Listed, kept: Mapping[str, tarfile.TarInfo], tar: tarfile.TarFile
) -> bool:
    """Whether the backup has an object as it is.

    The ETag of an object in several parts changes with a restore, so both are read. So they are for a backup of before,
    which has no ETags.
    """
    if (entry := kept.get(found.key)) is None:
        return False
    etag = entry.pax_headers.get(_ETAG, "")
    if found.size != entry.size or (etag != found.etag and etag and "-" not in etag + found.etag):
        return False
    return etag == found.etag or _same_content(client, bucket, found.key, tar.extractfile(entry))


def _same_content(client: "S3Client", bucket: str, key: str, one: IO[bytes] | None) -> bool:
    other = get(client, bucket, key)
    if one is None or other is None:
        return False
    while block := one.read(_BLOCK):
        if other.body.read(len(block)) != block:
            return False
    return True


@contextmanager
def one_line(where: str, disk: str = "") -> Iterator[None]:
    """Turn errors of S3 and of the disk into ours: one line each. disk: the place on it, if that is another one."""
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        said = error.response.get("Error", {})
        code, message = str(said.get("Code", "")), said.get("Message", "")
        if code in _SETTINGS:
            raise ConfigurationError(
                f"{where}: refused with {code}: {message}", remedy="check its address, its bucket and the credentials"
            ) from error
        raise Unavailable(
            f"{where}: answered {code}: {message}", remedy="free space if it is full; run again"
        ) from error
    except (BotoCoreError, Boto3Error) as error:
        raise Unavailable(f"{where}: {error}", remedy="check its address and the credentials; run again") from error
    except OSError as error:
        raise Unavailable(
            f"{error.filename or disk or where}: {(error.strerror or str(error)).lower()}",
            remedy="free space, or lower RATCHET_BACKUPS_KEEP, if it is full; run again",
        ) from error
