"""A proxy before an S3 server that loses, cuts, delays or spoils the answers that a test asks it to."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar


class _Proxy(BaseHTTPRequestHandler):
    """Passes requests on to the server, and loses, cuts or spoils the answers that a test asks it to."""

    upstream: ClassVar[str]
    faults: ClassVar[list[str]]
    stopped: ClassVar[threading.Event]

    def _pass_on(self) -> None:
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "503":
            self._say(503, b"<Error><Code>SlowDown</Code><Message>slow</Message></Error>")
            return
        if fault == "stall":
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.stopped.wait(30)
            self.close_connection = True
            return
        if fault == "429":
            self._say(429, b"")
            return
        if fault == "conflict":
            self._say(409, b"<Error><Code>ConditionalRequestConflict</Code><Message>again</Message></Error>")
            return
        if fault == "expired":
            self._say(400, b"<Error><Code>ExpiredToken</Code><Message>the token has expired</Message></Error>")
            return
        if fault == "skewed":
            self._say(403, b"<Error><Code>RequestTimeTooSkewed</Code><Message>the clocks differ</Message></Error>")
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        host, port = self.upstream.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=20) as server:
            lines = [f"{self.command} {self.path} HTTP/1.1", *(f"{k}: {v}" for k, v in self.headers.items())]
            lines = [line for line in lines if not line.lower().startswith(("connection:", "expect:"))]
            server.sendall(("\r\n".join([*lines, "Connection: close"]) + "\r\n\r\n").encode() + body)
            answer = b"".join(iter(lambda: server.recv(1 << 16), b""))
        if fault == "cut":
            answer = answer[: answer.index(b"\r\n\r\n") + 5]
        if fault != "lose":
            self.wfile.write(answer)
        self.close_connection = True

    def _say(self, status: int, body: bytes) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":  # such an answer has a status alone
            self.wfile.write(body)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _pass_on

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def faulty(upstream: str) -> Iterator[tuple[str, list[str]]]:
    """The proxy's address, and the faults of the next requests, one each.

    503, 429, conflict, expired, skewed, cut, lose, stall, or none. upstream: the server's address.
    """
    stopped = threading.Event()
    handler = type("Proxy", (_Proxy,), {"upstream": upstream, "faults": [], "stopped": stopped})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", handler.faults
        finally:
            stopped.set()
            server.shutdown()
            thread.join()
