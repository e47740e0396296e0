"""The store in an S3 bucket, or on another server with the S3 protocol and conditional writes."""

import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path

from boto3.s3.transfer import TransferConfig
from botocore.exceptions import BotoCoreError, ClientError
from typing_extensions import override

from ratchet.store.base import Entry, Store, check_key, check_prefix
from ratchet.store.disk import store_errors as disk_errors
from ratchet.store.s3_client import ABSENT, TRIES, Connection, error_code, pause, retry_unavailable

_MIB = 1 << 20
_TRANSFER = TransferConfig(
    multipart_threshold=16 * _MIB, multipart_chunksize=16 * _MIB, max_concurrency=8, num_download_attempts=5
)
_WRITER = "ratchet-writer"  # metadata: the call that wrote the object
_BUSY = frozenset({"ConditionalRequestConflict", "409", "OperationAborted"})
_CHANGED = frozenset({"PreconditionFailed", "412"})


class S3Store(Store):
    """Objects below a prefix of a bucket. Region, endpoint and credentials come from the standard AWS settings."""

    def __init__(self, bucket: str, prefix: str = "") -> None:
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self._connection = Connection(bucket)
        self._client = self._connection.client
        self._store_errors = self._connection.store_errors

    @property
    def uri(self) -> str:
        """`s3://bucket/prefix`."""
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    def prepare(self) -> None:
        """Check that the bucket exists and allows access. Never creates a bucket."""
        with self._store_errors():
            self._client.head_bucket(Bucket=self._bucket)

    @override
    def read(self, key: str) -> bytes:

        def once() -> bytes:
            return self._client.get_object(Bucket=self._bucket, Key=self._name(key))["Body"].read()

        with self._store_errors(key):
            return retry_unavailable(once)

    @override
    def create(self, key: str, data: bytes) -> bool:
        return self.replace(key, data, expected=None)

    @override
    def replace(self, key: str, data: bytes, *, expected: str | None) -> bool:
        return self._put(key, data, expected) is not None

    @override
    def swap(self, key: str, data: bytes, *, expected: str) -> str | None:
        return self._put(key, data, expected)

    def _put(self, key: str, data: bytes, expected: str | None) -> str | None:
        writer = secrets.token_hex(16)
        put = partial(
            self._client.put_object, Bucket=self._bucket, Key=self._name(key), Body=data, Metadata={_WRITER: writer}
        )
        with self._store_errors(key):
            for attempt in range(1, TRIES + 1):
                try:
                    answer = put(IfNoneMatch="*") if expected is None else put(IfMatch=expected)
                except ClientError as error:
                    code = error_code(error)
                    if code in _CHANGED or (code in ABSENT and expected is not None):
                        # An earlier try of the client may have succeeded, with a lost answer.
                        return self._etag_by(writer, key)
                    if code not in _BUSY or attempt == TRIES:
                        raise
                    pause(attempt)
                else:
                    return str(answer["ETag"])
        raise AssertionError("unreachable")

    @override
    def upload(self, path: Path, key: str) -> None:
        """Uploads parts of 16 MiB in parallel."""
        name = self._name(key)
        path.stat()
        with self._store_errors(key):
            self._client.upload_file(str(path), self._bucket, name, Config=_TRANSFER)

    @override
    def download(self, key: str, path: Path) -> None:
        """Downloads ranges of 16 MiB in parallel."""
        name = self._name(key)
        with self._store_errors(key):
            try:
                self._client.download_file(self._bucket, name, str(path), Config=_TRANSFER)
            except BotoCoreError:  # some of these are an OSError, too: a timeout is no error of the disk
                raise
            except OSError:
                with disk_errors(path, writing=True):
                    raise

    @override
    def list(self, prefix: str = "") -> Iterator[Entry]:
        folder = self._prefix + check_prefix(prefix)
        with self._store_errors():
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=folder)
            for page in pages:
                for found in page.get("Contents", []):
                    key = found["Key"].removeprefix(self._prefix)
                    if key and not key.endswith("/"):  # consoles mark folders with empty objects
                        yield Entry(key, found["Size"], found["ETag"], _nanoseconds(found["LastModified"]))

    @override
    def head(self, key: str) -> Entry | None:
        try:
            with self._store_errors(key):
                found = self._client.head_object(Bucket=self._bucket, Key=self._name(key))
        except FileNotFoundError:
            return None
        return Entry(key, found["ContentLength"], found["ETag"], _nanoseconds(found["LastModified"]))

    @override
    def delete(self, key: str, *, expected: str | None = None, written_ns: int | None = None) -> bool:
        found = self.head(key)
        if found is None or expected not in {None, found.etag} or written_ns not in {None, found.modified_ns}:
            return False
        delete = partial(self._client.delete_object, Bucket=self._bucket, Key=self._name(key))
        with self._store_errors(key):
            try:
                # Some servers ignore this condition; the check above serves them.
                delete() if expected is None else delete(IfMatch=expected)
            except ClientError as error:
                if error_code(error) in _CHANGED | ABSENT:
                    return False
                raise
        return True

    @override
    def now_ns(self) -> int:
        """In whole seconds: the date of an answer."""
        with self._store_errors():
            answer = self._client.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix, MaxKeys=1)
        return _nanoseconds(parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"]))

    @override
    def sweep(self, prefix: str = "", *, older_than_s: float) -> int:
        """Aborts unfinished multipart uploads."""
        folder = self._prefix + check_prefix(prefix)
        over = datetime.fromtimestamp(self.now_ns() // 10**9 + 1, UTC)  # of the second that the clock shows
        before = over - timedelta(seconds=older_than_s)
        swept = 0
        with self._store_errors():
            pages = self._client.get_paginator("list_multipart_uploads").paginate(Bucket=self._bucket, Prefix=folder)
            for upload in (upload for page in pages for upload in page.get("Uploads", [])):
                if upload["Initiated"] <= before:
                    self._client.abort_multipart_upload(
                        Bucket=self._bucket, Key=upload["Key"], UploadId=upload["UploadId"]
                    )
                    swept += 1
        return swept

    def local(self, key: str) -> Path | None:
        """Returns None: objects have to be downloaded."""
        check_key(key)
        return None

    def table(self, key: str) -> tuple[str, dict[str, str]]:
        """The URI and options; commits are conditional puts. The options contain credentials: never log them."""
        return f"{self.uri}/{check_key(key)}", self._connection.delta_options()

    def adopt(self, prefix: str) -> None:
        """Does nothing: objects have no owner on a disk."""
        check_prefix(prefix)

    def _etag_by(self, writer: str, key: str) -> str | None:
        """The etag of the object of a key, if this call wrote it."""
        try:
            with self._store_errors(key):
                found = self._client.head_object(Bucket=self._bucket, Key=self._name(key))
        except FileNotFoundError:
            return None
        return str(found["ETag"]) if found["Metadata"].get(_WRITER) == writer else None

    def _name(self, key: str) -> str:
        return self._prefix + check_key(key)


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000) * 1000
