"""The service `logs`: it deletes logs of Airflow that are older than RATCHET_LOGS_KEEP_DAYS, here and in the bucket."""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

_FOLDER = Path("/opt/airflow/logs")
_MARK = Path(tempfile.gettempdir()) / "expired"
"""Its time is that of the last deletion."""
_EVERY_S = 3600
_AGAIN_S = 30
"""After a failure, as at the start of the stack, when S3 and the bucket are not there yet."""
_LATE_S = 3 * _EVERY_S
_DAY_S = 24 * 3600
_ANSWERS_S = 10
_AT_ONCE = 1000
"""S3 deletes so many objects with one request."""


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


def expire_files(folder: Path, before: float) -> int:
    """Delete the logs that nobody has written to since; the number."""
    gone = 0
    for place, folders, files in os.walk(folder, topdown=False):
        for name in files:
            file = Path(place, name)
            with suppress(FileNotFoundError):  # another service may delete it, too
                if name.endswith(".log") and not file.is_symlink() and file.stat().st_mtime < before:
                    file.unlink()
                    gone += 1
        for name in folders:
            with suppress(OSError):  # it is not empty
                if Path(place, name).stat().st_mtime < before:
                    Path(place, name).rmdir()
    return gone


def expire_objects(client: "S3Client", place: str, before: float) -> int:
    """Delete the logs below a place in S3 that were written before; the number."""
    parts = urlsplit(place)
    gone = 0
    for keys in _old_keys(client, parts.netloc, parts.path.strip("/"), before):
        client.delete_objects(Bucket=parts.netloc, Delete={"Objects": [{"Key": key} for key in keys], "Quiet": True})
        gone += len(keys)
    return gone


def _old_keys(client: "S3Client", bucket: str, prefix: str, before: float) -> Iterator[list[str]]:
    pages = client.get_paginator("list_objects_v2").paginate(
        Bucket=bucket, Prefix=f"{prefix}/".lstrip("/"), PaginationConfig={"PageSize": _AT_ONCE}
    )
    for page in pages:
        old = [each["Key"] for each in page.get("Contents", []) if each["LastModified"].timestamp() < before]
        if found := [key for key in old if key.endswith(".log")]:
            yield found


def main() -> int:
    """Delete old logs each hour; with the word `healthy`, say whether that goes well."""
    if sys.argv[1:] == ["healthy"]:
        return 0 if _MARK.exists() and time.time() - _MARK.stat().st_mtime < _LATE_S else 1
    from botocore.exceptions import BotoCoreError, ClientError

    place, days = os.environ.get("RATCHET_LOGS"), int(os.environ["RATCHET_LOGS_KEEP_DAYS"])
    client, said = logs_client(), ""
    while True:
        before = time.time() - days * _DAY_S
        try:
            gone = (expire_files(_FOLDER, before), expire_objects(client, place, before) if place else 0)
        except (BotoCoreError, ClientError, OSError) as error:
            if said != (said := f"logs: old logs stay: {error}"):
                print(said, flush=True)
            time.sleep(_AGAIN_S)
            continue
        _MARK.touch()
        said = ""
        if any(gone):
            print(f"logs: deleted {gone[0]} files and {gone[1]} objects of more than {days} days", flush=True)
        time.sleep(_EVERY_S)


if __name__ == "__main__":
    sys.exit(main())
