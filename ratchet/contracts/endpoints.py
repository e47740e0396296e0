"""The network that a stage needs, by the addresses that it has to reach."""

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Literal
from urllib.parse import urlsplit

Network = Literal["none", "bridge", "host"]


def network_for(urls: Iterable[str]) -> Network:
    """`none` without an address; `host` if one is a loopback address, which only the host can reach; else `bridge`."""
    hosts = [_host(url) for url in urls if url]
    if not hosts:
        return "none"
    return "host" if any(map(_is_loopback, hosts)) else "bridge"


def _host(url: str) -> str:
    """The host of a URL; empty for what is none. An error of the parser would show the login in it."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
