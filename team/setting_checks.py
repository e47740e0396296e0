"""Checks of single settings whose mistakes deserve more than the pattern that they miss."""

import re
from collections.abc import Iterable
from pathlib import Path

_GIT = re.compile(r"https?://[^\s/@?#]+/[^\s@?#]+")
_FOLDER = re.compile(r"[/~][^:]*")


def check_pipelines(place: str) -> None:
    """Raise ValueError unless pipelines can come from there. It does not show the text, which may hold a token."""
    if _GIT.fullmatch(place):
        return
    if re.match(r"https?://[^/]*@", place):
        raise ValueError(
            "an address with a log-in; remove that, and name a file with USER:TOKEN in RATCHET_PIPELINES_CREDENTIALS"
        )
    if re.match(r"ssh://|git://|[^/\s]+@", place):
        raise ValueError("git is asked over https alone; keep a clone on this host, and name its folder")
    if not _FOLDER.fullmatch(place):
        raise ValueError(
            "neither the https:// address of a git repository nor a folder of this host, with its whole path, no colon"
        )
    try:
        Path(place).expanduser()
    except RuntimeError as error:
        raise ValueError(f"{Path(place).parts[0]} is no user of this host; write the whole path") from error


def check_logs(logs: str | None, others: Iterable[str]) -> None:
    """Raise ValueError unless logs have a place of their own in S3: what is old there is deleted. others: places."""
    if logs is None:
        return
    ours = f"{logs.rstrip('/')}/"
    for place in others:
        other = f"{place.strip().rstrip('/')}/"
        if ours.startswith(other) or other.startswith(ours):
            raise ValueError(
                f"RATCHET_LOGS: {logs} and {place.strip()} are in one another, and old .log files are deleted "
                "there; name a bucket or a prefix that has nothing else"
            )
