"""The service `logs`: it deletes logs of Airflow that are older than RATCHET_LOGS_KEEP_DAYS, here and in the bucket.

It also puts logs of this host into the bucket that S3 did not take when their tasks ended.
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ratchet.collection import deletions
from ratchet.collection.log_files import delete_old_logs
from team.bucket_logs import BucketLogs, logs_client

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

_FOLDER = Path("/opt/airflow/logs")
_MARK = Path(tempfile.gettempdir()) / "expired"
"""Its time is that of the last deletion."""
_EVERY_S = 3600
_AGAIN_S = 30
"""Until it looks for logs to send, and after a failure, as at the start of the stack, when there is no bucket yet."""
_LATE_S = 3 * _EVERY_S
_DAY_S = 24 * 3600
_AT_ONCE = 1000
"""S3 deletes so many objects with one request."""


def expire_objects(client: "S3Client", place: str, before: float) -> int:
    """Delete the logs below a place in S3 that were written before; the number. Raises OSError if some stay."""
    parts = urlsplit(place)
    gone = 0
    for keys in _old_keys(client, parts.netloc, parts.path.strip("/"), before):
        answer = client.delete_objects(
            Bucket=parts.netloc, Delete={"Objects": [{"Key": key} for key in keys], "Quiet": True}
        )
        if refused := answer.get("Errors", []):  # of each that stays; the answer itself is well
            raise OSError(f"S3 does not delete {len(refused)} of them: {refused[0].get('Code')}")
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
    client, said, due = logs_client(), "", 0.0
    deletions.expect(_FOLDER, "logs")
    while True:
        before = time.time() - days * _DAY_S
        files, failed = 0, ""
        try:
            files = delete_old_logs(_FOLDER, before) if time.monotonic() >= due else 0
        except OSError as error:
            failed = f"old logs stay here: {error}"
        try:
            if place and (sent := BucketLogs(place, _FOLDER).send_again()):
                print(f"logs: put {sent} logs into {place} that could not go there before", flush=True)
            if time.monotonic() >= due:
                objects = expire_objects(client, place, before) if place else 0
                due = time.monotonic() + _EVERY_S
                if not failed:
                    _MARK.touch()
                    deletions.mark(_FOLDER, "logs")
                if files or objects:
                    print(f"logs: deleted {files} files and {objects} objects of more than {days} days", flush=True)
        except (BotoCoreError, ClientError, OSError) as error:
            failed = f"old logs stay in the bucket, and new ones here: {error}"
        if failed and said != failed:
            print(f"logs: {failed}", flush=True)
        said = failed
        time.sleep(_AGAIN_S)


if __name__ == "__main__":
    sys.exit(main())
