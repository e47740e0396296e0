"""One request of a client, parsed so that it has one meaning only. No part of it reaches the engine unparsed."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from team.engine_filter.refusal import Refusal

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

BODY_LIMIT = 16 << 20
"""Bytes of a body: an archive has a request and a few secrets."""
_BODY_S = 60.0
_TARGET_LIMIT = 4096
_PATH = re.compile(rb"(?:/[A-Za-z0-9_][A-Za-z0-9_.:-]*)+")
_VERSIONED = re.compile(r"(/v1\.(?:4[1-9]|[5-9][0-9]))?(/.+)")
_ODD_HEADERS = frozenset({b"transfer-encoding", b"upgrade", b"te", b"trailer", b"content-encoding", b"http2-settings"})


class ClientGone(Exception):
    """The client has closed its connection; there is nobody to answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """version: `/v1.41`, or empty. path: what follows it. body: empty, or as long as its length said.

    client: the address of who sent it.
    """

    method: str
    version: str
    path: str
    query: Mapping[str, str]
    body: bytes
    client: str


def client_of(scope: Scope) -> str:
    """The address that a request came from."""
    return str((scope.get("client") or ("?",))[0])


def shown(scope: Scope) -> str:
    """A request's method and path for the log: short, printable, without the query."""
    path = bytes(scope["raw_path"])[:200].decode("ascii", "backslashreplace")
    return f"{scope['method']} {path}"


async def read(scope: Scope, receive: Receive) -> Call:
    """The whole request. Raises Refusal if two programs could read it differently, ClientGone if it ends early."""
    headers: list[tuple[bytes, bytes]] = list(scope["headers"])
    names = [name.lower() for name, _ in headers]
    if odd := sorted(_ODD_HEADERS.intersection(names)):
        raise Refusal(f"the header {odd[0].decode()}", "plain requests with a Content-Length")
    if b"connection" in names and any(
        b"upgrade" in value.lower() for name, value in headers if name.lower() == b"connection"
    ):
        raise Refusal("an upgrade of the connection", "plain requests")
    raw_path, query = bytes(scope["raw_path"]), bytes(scope["query_string"])
    if not _PATH.fullmatch(raw_path) or len(raw_path) + len(query) > _TARGET_LIMIT:
        raise Refusal("the path", "plain paths: no host, no escapes, no dots or slashes in a row, nothing at its end")
    found = _VERSIONED.fullmatch(raw_path.decode("ascii"))
    if not found:
        raise Refusal("the path", "/_ping, or a path below the API's version")
    return Call(
        method=scope["method"],
        version=found.group(1) or "",
        path=found.group(2),
        query=_query(query),
        body=await _body(headers, receive),
        client=client_of(scope),
    )


def _query(query: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(query),
            errors="strict",
            max_num_fields=16,
        )
    except ValueError:
        raise Refusal("the query", "name=value pairs") from None
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise Refusal("a query that names a key twice", "each key once")
    return dict(pairs)


async def _body(headers: list[tuple[bytes, bytes]], receive: Receive) -> bytes:
    lengths = [value for name, value in headers if name.lower() == b"content-length"]
    if len(lengths) > 1 or not all(value.isdigit() for value in lengths):
        raise Refusal("the Content-Length", "one number")
    length = int(lengths[0]) if lengths else 0
    if length > BODY_LIMIT:
        raise Refusal(f"a body of {length} bytes", f"at most {BODY_LIMIT}")
    content = bytearray()
    try:
        async with asyncio.timeout(_BODY_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                content += message.get("body", b"")
                if len(content) > length:
                    raise Refusal("a body that is longer than its Content-Length", "one of that length")
                if not message.get("more_body", False):
                    break
    except TimeoutError:
        raise Refusal("a body that does not come", f"all of it within {_BODY_S:.0f} s") from None
    return bytes(content)
