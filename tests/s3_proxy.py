"""A proxy before an S3 server, at any address of this machine, that remembers what was asked for."""

import http.client
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import unquote, urlsplit

_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "expect"})


class Requests:
    """What came through. endpoint: where the proxy is."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._requests: list[tuple[str, str]] = []

    def note(self, method: str, path: str) -> None:
        """Remember a request."""
        self._requests.append((method, unquote(urlsplit(path).path)))

    def read(self, key: str) -> int:
        """How often an object with a key that ends so was downloaded, in whole or in part."""
        return sum(method == "GET" and path.endswith(key) for method, path in list(self._requests))


@contextmanager
def s3_proxy(
    upstream: str,
    address: str = "127.0.0.1",
    *,
    drops: Collection[str] = (),
    refusal: Callable[[Message], bytes] = lambda _: b"",
) -> Iterator[Requests]:
    """The proxy, at a free port of an address, before the server at `upstream`.

    drops: headers that it leaves out. refusal: by the headers of a request, what it answers with status 400; empty for
    a request that it passes on.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        asked: ClassVar[Requests]

        def _pass_on(self) -> None:
            self.asked.note(self.command, self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if refused := refusal(self.headers):
                self.send_response_only(400)
                self.send_header("Content-Length", str(len(refused)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(refused)
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
