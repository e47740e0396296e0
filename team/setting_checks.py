"""Checks of single settings whose mistakes deserve more than the pattern that they miss."""

import re
from collections.abc import Iterable, Sequence
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path
from urllib.parse import urlsplit

_GIT = re.compile(r"https?://[^\s/@?#]+/[^\s@?#]+")
_FOLDER = re.compile(r"[/~][^:]*")


def check_server(url: str, schemes: Sequence[str]) -> None:
    """Raise ValueError unless it is the URL of a server, with one of these schemes."""
    parts = urlsplit(url)
    if parts.scheme not in schemes or not parts.hostname:
        raise ValueError(f"not a URL with a host; write {schemes[0]}://HOST")
    if parts.port is not None and not parts.port:  # reading it raises for an invalid port
        raise ValueError("port 0 is not allowed")


def check_root(url: str | None) -> None:
    """Raise ValueError if the public address of Airflow has a path: log-in would go to the root of its host."""
    parts = urlsplit(url or "")
    if parts.path.strip("/"):
        raise ValueError(
            f"the path {parts.path} is not allowed, since Airflow answers at the root of its address, where people "
            f"log in; allowed: {parts.scheme}://HOST or {parts.scheme}://HOST:PORT; give Airflow a name or a port of "
            "its own in the proxy"
        )


def check_reachable(address: str | None) -> None:
    """Raise ValueError unless other hosts can use the address."""
    if address is None:
        return
    try:
        found = IPv4Address(address)
    except AddressValueError as error:
        raise ValueError("not an IPv4 address, such as 10.0.0.1") from error
    if found.is_loopback or found.is_unspecified:
        raise ValueError("no other host can use this address; name one of a private network")


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
