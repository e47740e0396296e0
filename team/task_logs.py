"""Where Airflow keeps the logs of tasks: a bucket, so that those of every host are in one place and outlive it.

Airflow reads `LOGGING_CONFIG` and `REMOTE_TASK_LOG` here (`[logging] logging_config_class`). Workers and the
triggerer put a log there when a task has ended; until then, and while S3 is away, the file on that host is shown.
"""

import logging
import os
from collections.abc import Generator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.config_templates.airflow_local_settings import DEFAULT_LOGGING_CONFIG

from team.log_retention import logs_client

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

LOGGING_CONFIG = DEFAULT_LOGGING_CONFIG
"""As Airflow's own."""
_log = logging.getLogger(__name__)


class BucketLogs:
    """The logs of tasks below a place in S3. It is a `RemoteLogIO` of Airflow's."""

    processors: tuple[Any, ...] = ()
    """Of each line while it is written: none."""

    def __init__(self, place: str, folder: Path) -> None:
        """place: s3://bucket, or a prefix in it. folder: Airflow's folder of logs on this host."""
        parts = urlsplit(place)
        self._bucket, self._prefix, self._folder = parts.netloc, parts.path.strip("/"), folder

    def upload(self, path: os.PathLike[str] | str, _task: Any = None) -> None:
        """Put a log there, after what another host has put there of the same attempt."""
        from botocore.exceptions import BotoCoreError, ClientError

        key = self._key(os.fspath(path))
        try:
            content = (self._folder / path).read_bytes()
            earlier = self._content(key)
            if not content.startswith(earlier):
                content = earlier + content
            self._client.put_object(Bucket=self._bucket, Key=key, Body=content)
        except (BotoCoreError, ClientError, OSError) as error:
            _log.warning("the log %s stays on this host: %s", path, error)

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

    def _content(self, key: str) -> bytes:
        from botocore.exceptions import ClientError

        try:
            return self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read()
        except ClientError as error:
            if error.response["Error"]["Code"] in {"NoSuchKey", "404"}:
                return b""
            raise

    def _key(self, path: str) -> str:
        return f"{self._prefix}/{path}".lstrip("/")

    @cached_property
    def _client(self) -> "S3Client":
        return logs_client()


def _configured() -> BucketLogs | None:
    place = os.environ.get("RATCHET_LOGS")
    return BucketLogs(place, Path(os.environ["AIRFLOW__LOGGING__BASE_LOG_FOLDER"])) if place else None


REMOTE_TASK_LOG = _configured()
