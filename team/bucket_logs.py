"""The logs of tasks in a bucket: put there when a task has ended, and again later if S3 was away then.

A change here violates the promise of the team set-up when the memory for a log grows with its length: a stage may print
for hours, and what puts its log there is the process of a task, the triggerer, or a small service.
"""

import logging
import os
import shutil
import tempfile
from collections.abc import Generator
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

_UNSENT = ".unsent"
"""The folder of marks: a file for each log that is not in the bucket as it is here, with its path."""
_ANSWERS_S = 10
_SILENT = 3
"""Logs for which S3 may not answer before the others are left: it is away, and not one log that it cannot take."""
_PIECE = 1 << 20
_log = logging.getLogger(__name__)


def logs_client() -> "S3Client":
    """A client of S3 that does not wait long for an answer: logs can wait."""
    import boto3
    from botocore.config import Config

    settings = Config(
        s3={"addressing_style": "path"} if os.environ.get("AWS_ENDPOINT_URL") else None,
        connect_timeout=_ANSWERS_S,
        read_timeout=_ANSWERS_S,
        retries={"total_max_attempts": 2},
    )
    client: S3Client = boto3.client("s3", region_name=os.environ.get("AWS_REGION"), config=settings)
    return client


class BucketLogs:
    """The logs of tasks below a place in S3. It is a `RemoteLogIO` of Airflow's."""

    processors: tuple[Any, ...] = ()
    """Of each line while it is written: none."""

    def __init__(self, place: str, folder: Path) -> None:
        """place: s3://bucket, or a prefix in it. folder: Airflow's folder of logs on this host."""
        parts = urlsplit(place)
        self._bucket, self._prefix, self._folder = parts.netloc, parts.path.strip("/"), folder

    def upload(self, path: os.PathLike[str] | str, _task: Any = None) -> None:
        """Put a log there, after what another host has put there of the same attempt. What fails is marked."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            self._send(os.fspath(path))
        except (BotoCoreError, ClientError, OSError) as error:
            _log.warning("the log %s stays on this host: %s", path, error)
            if (self._folder / path).is_file():
                mark = self._mark(os.fspath(path))
                mark.parent.mkdir(exist_ok=True)
                mark.write_text(os.fspath(path), encoding="utf-8")

    def send_again(self) -> int:
        """Put the marked logs of this host there; the number. Raises what S3 says, after every log that it takes.

        Where it does not answer at all, the rest waits for the next time: each of them would cost its time limit.
        """
        from botocore.exceptions import BotoCoreError, ClientError

        sent, failed, silent = 0, list[Exception](), 0
        for mark in (self._folder / _UNSENT).glob("*"):
            try:
                sent += self._send_marked(mark)
            except (ClientError, OSError) as error:
                failed.append(error)
            except BotoCoreError as error:
                failed.append(error)
                silent += 1
                if silent >= _SILENT:
                    break
        if failed:
            raise failed[0]
        return sent

    def _send_marked(self, mark: Path) -> bool:
        """Put the log of a mark there. Whether there was one."""
        path = mark.read_text(encoding="utf-8")
        if path and (self._folder / path).is_file():
            self._send(path)
            return True
        mark.unlink(missing_ok=True)  # it is deleted, or the mark was half written
        return False

    def _send(self, path: str) -> None:
        key = self._key(path)
        with (self._folder / path).open("rb") as ours:
            earlier = self._body(key)
            if earlier is None or _begins_with(ours, earlier):
                self._put(key, ours)
            else:
                with tempfile.TemporaryFile(dir=self._folder) as whole:
                    if (there := self._body(key)) is not None:
                        shutil.copyfileobj(there, whole, _PIECE)
                    ours.seek(0)
                    shutil.copyfileobj(ours, whole, _PIECE)
                    self._put(key, whole)
        self._mark(path).unlink(missing_ok=True)

    def _put(self, key: str, content: IO[bytes]) -> None:
        from boto3.s3.transfer import TransferConfig

        content.seek(0)
        one_part_at_a_time = TransferConfig(use_threads=False)
        self._client.upload_fileobj(content, self._bucket, key, Config=one_part_at_a_time)

    def stream(self, relative_path: str, _task: Any) -> tuple[list[str], list[Generator[str, None, None]]]:
        """The places of the logs of an attempt, that of the triggerer too, and their lines."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            listed = self._client.list_objects_v2(Bucket=self._bucket, Prefix=self._key(relative_path))
        except (BotoCoreError, ClientError) as error:
            return [f"{self._bucket} does not answer: {error}"], []
        keys = [each["Key"] for each in listed.get("Contents", [])]
        return [f"s3://{self._bucket}/{key}" for key in keys], [self._lines(key) for key in keys]

    def read(self, relative_path: str, task: Any) -> tuple[list[str], list[str]]:
        """See `stream`."""
        places, streams = self.stream(relative_path, task)
        return places, ["\n".join(lines) for lines in streams]

    def _lines(self, key: str) -> Generator[str, None, None]:
        body = self._client.get_object(Bucket=self._bucket, Key=key)["Body"]
        for line in body.iter_lines():
            yield line.decode(errors="replace")

    def _body(self, key: str) -> Any:
        """What is there of a log, to be read; None if there is nothing."""
        from botocore.exceptions import ClientError

        try:
            return self._client.get_object(Bucket=self._bucket, Key=key)["Body"]
        except ClientError as error:
            if error.response["Error"]["Code"] in {"NoSuchKey", "404"}:
                return None
            raise

    def _key(self, path: str) -> str:
        return f"{self._prefix}/{path}".lstrip("/")

    def _mark(self, path: str) -> Path:
        return self._folder / _UNSENT / sha256(path.encode()).hexdigest()

    @cached_property
    def _client(self) -> "S3Client":
        return logs_client()


def _begins_with(file: IO[bytes], earlier: Any) -> bool:
    """Whether a file begins with what is read from another one."""
    return all(piece == file.read(len(piece)) for piece in iter(lambda: earlier.read(_PIECE), b""))
