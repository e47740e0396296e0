"""Requests that two programs could read differently, and bodies that are too long or cut: what the filter hears of them."""

import contextlib
import itertools
import re
import socket

import docker
import pytest

from tests.team.engine_filter.running import Running, ask

pytestmark = pytest.mark.docker


def _raw(running: Running, sent: bytes, *, ends: bool = False) -> bytes:
    """All that comes back for these bytes on one connection until the filter closes it, or hears that it `ends` here."""
    answer = b""
    with (
        socket.create_connection((running.host, running.port), timeout=60) as connection,
        contextlib.suppress(ConnectionError),  # cut off
    ):
        connection.sendall(sent)
        if ends:
            connection.shutdown(socket.SHUT_WR)
        while piece := connection.recv(65536):
            answer += piece
    return answer


SMUGGLED = b"POST /v1.41/containers/create?name=ratchet-a-00000000 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
PING = b"GET /_ping HTTP/1.1\r\nHost: x\r\n"
LAST = b"Connection: close\r\n"


@pytest.mark.parametrize(
    "request_bytes",
    [
        PING + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + SMUGGLED,
        PING + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        PING + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        PING + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
        PING + b"Content-Length: 0\r\nContent-Length: 5\r\n\r\n" + SMUGGLED,
        PING + b"Content-Length: +5\r\n\r\n" + SMUGGLED,
        PING + b"Content-Length: 99999999999999999999\r\n\r\n",
        PING + b"Upgrade: tcp\r\nConnection: Upgrade\r\n\r\n",
        PING + b"Connection: keep-alive, Upgrade\r\n\r\n",
        PING + b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nConnection: Upgrade, HTTP2-Settings\r\n\r\n",
        PING + b"Content-Encoding: gzip\r\nContent-Length: 0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /_ping\r\n\r\n",
        b"GET  /_ping HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /_ping HTTP/1.1\nX : y\n\n",
        b"GET /_ping HTTP/1.1\r\n\r\n",
        b"GET /_ping HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
        PING + b"X: y\n\tTransfer-Encoding: chunked\n\n0\r\n\r\n" + SMUGGLED,
        b"GET /v1.41/\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT docker:80 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x00\xa5\x01\x00\x00",
        PING + b"X: " + b"a" * 200_000 + b"\r\n\r\n",
    ],
    ids=itertools.count(),
)
def test_a_request_that_two_programs_could_read_differently_is_refused_and_its_rest_never_read(
    running: Running, request_bytes: bytes
) -> None:
    answer = _raw(running, request_bytes)
    cut_off = not answer and len(request_bytes) > 64 << 10  # by what it had not read when it closed
    assert answer.startswith((b"HTTP/1.1 403", b"HTTP/1.1 400")) or cut_off
    assert answer.count(b"HTTP/1.1 ") <= 1
    assert ask(running, "GET", "/_ping") == (200, b"OK")


def test_a_body_without_need_is_a_body_and_not_a_second_request(running: Running) -> None:
    answer = _raw(running, PING + LAST + b"Content-Length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED)
    assert answer.startswith(b"HTTP/1.1 403")
    assert answer.count(b"HTTP/1.1 ") == 1


def test_requests_in_a_row_are_each_looked_into(running: Running) -> None:
    events = b"GET /v1.41/events HTTP/1.1\r\nHost: x\r\n\r\n"
    answer = _raw(running, PING + b"\r\n" + events + PING + LAST + b"\r\n")
    assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"200", b"403", b"200"]


def test_a_body_that_is_too_long_is_refused_before_it_comes(running: Running) -> None:
    head = (
        b"POST /v1.41/containers/create?name=ratchet-a-00000000 HTTP/1.1\r\nHost: x\r\nContent-Length: 16777217\r\n\r\n"
    )
    assert b"a body of 16777217 bytes is refused; allowed: at most 16777216" in _raw(running, head)


def test_a_body_that_ends_early_makes_nothing(running: Running, api: docker.APIClient) -> None:
    head = b"POST /v1.41/containers/create?name=ratchet-a-00000000 HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"
    assert not _raw(running, head, ends=True).startswith(b"HTTP/1.1 2")
    assert api.containers(all=True, filters={"name": ["ratchet-a-00000000"]}) == []
