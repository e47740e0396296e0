"""The mark in the store that a backup was copied off this host: the watch alerts people once it is old.

Cron runs the backups, and the watch cannot see cron. Where no copies are wanted there is no mark.

A change here violates the promise of the project when no backup is copied for days and nobody is alerted.
"""

from datetime import UTC, datetime

from ratchet.contracts import outbox_paths
from ratchet.contracts.presence import Presence
from team.bucket_files import one_line
from team.stack import Stack
from team.stack_buckets import in_store, s3_address, s3_client


def mark_copied(stack: Stack) -> None:
    """Mark that a backup was copied now, and verified."""
    content = Presence(at=datetime.now(UTC)).model_dump_json(exclude_none=True).encode()
    with one_line(s3_address(stack), str(stack.secrets)):
        bucket, key = _place(stack)
        s3_client(stack).put_object(Bucket=bucket, Key=key, Body=content)


def forget_copied(stack: Stack) -> None:
    """Delete the mark, if there is one: no copies are wanted, so none is missed."""
    with one_line(s3_address(stack), str(stack.secrets)):
        bucket, key = _place(stack)
        s3_client(stack).delete_object(Bucket=bucket, Key=key)


def _place(stack: Stack) -> tuple[str, str]:
    installation = (stack.secrets / "RATCHET_INSTALLATION").read_text(encoding="utf-8")
    return in_store(stack, outbox_paths.presence(installation, outbox_paths.BACKUP))
