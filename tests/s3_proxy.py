"""A proxy before an S3 server, at any address of this machine, that remembers what was asked for, and may not pass it on."""

import http.client
import socket
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import unquote, urlsplit

_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "expect"})
Refusal = tuple[int, bytes]
"""The status and the body of an answer; status 0: the connection breaks instead."""
Refuse = Callable[[str, str, "Message[str, str]"], Refusal | None]
"""Gets the method, the path and the headers of a request. None: it is passed on."""


class Requests:
    """What came through. endpoint: where the proxy is."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._requests: list[tuple[str, str]] = []

    def note(self, method: str, path: str) -> None:
        """Remember a request."""
        self._requests.append((method, path))

    def read(self, key: str) -> int:
        """How often an object with a key that ends so was downloaded, in whole or in part."""
        return sum(method == "GET" and path.endswith(key) for method, path in list(self._requests))


@contextmanager
def s3_proxy(
    upstream: str, address: str = "127.0.0.1", *, drops: Collection[str] = (), refuse: Refuse = lambda *_: None
) -> Iterator[Requests]:
    """The proxy, at a free port of an address, before the server at `upstream`. drops: headers that it leaves out."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        asked: ClassVar[Requests]

        def _pass_on(self) -> None:
            path = unquote(urlsplit(self.path).path)
            self.asked.note(self.command, path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            refused = refuse(self.command, path, self.headers)
            if refused is not None:
                self._refuse(*refused)
                return
            server = http.client.HTTPConnection(urlsplit(upstream).netloc, timeout=60)
            try:
                sent = {name: value for name, value in self.headers.items() if name.lower() not in {*_HOP, *drops}}
                server.request(self.command, self.path, body=body, headers=sent)
                answer = server.getresponse()
                content = answer.read()
                self.send_response_only(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in {*_HOP, "content-length"}:
                        self.send_header(name, value)
                length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
                self.send_header("Content-Length", length or "0")
                self.end_headers()
                self.wfile.write(content)
            finally:
                server.close()

        def _refuse(self, status: int, body: bytes) -> None:
            if not status:
                with suppress(OSError):
                    self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":  # such an answer has a status alone
                self.wfile.write(body)

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _pass_on

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer((address, 0), Handler) as server:
        Handler.asked = Requests(f"http://{address}:{server.server_port}")
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            yield Handler.asked
        finally:
            server.shutdown()
            serving.join()
