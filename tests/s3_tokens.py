"""A proxy before an S3 server that refuses every session token but the newest, as S3 refuses those that have expired."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

_REFUSED = b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"


class Tokens:
    """endpoint: of the proxy. refused: how many requests had an old token."""

    def __init__(self, endpoint: str, file: Path) -> None:
        self.endpoint, self.refused = endpoint, 0
        self._file, self._number, self._valid = file, 0, set[str]()
        self.renew()

    def renew(self, *, overlap: bool = False) -> str:
        """Write a new token into the file, as the program of a role does. overlap: whether the one before stays valid."""
        self._number += 1
        token = f"session-token-{self._number}"
        kept = {f"session-token-{self._number - 1}"} if overlap else set[str]()
        self._valid = {token, *kept}
        new = self._file.with_suffix(".new")
        new.write_text(
            f"[default]\naws_access_key_id = AKID\naws_secret_access_key = secret-key\naws_session_token = {token}\n"
        )
        new.replace(self._file)
        return token

    def is_valid(self, token: str | None) -> bool:
        """Whether a request with this token is served."""
        valid = token in self._valid
        self.refused += not valid
        return valid


@contextmanager
def s3_with_tokens(upstream: str, file: Path) -> Iterator[Tokens]:
    """The proxy before the server at `upstream`; `file` has the valid token."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        tokens: ClassVar[Tokens]

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if not self.tokens.is_valid(self.headers.get("x-amz-security-token")):
                self.send_response(400)
                self.send_header("Content-Length", str(len(_REFUSED)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(_REFUSED)
                return
            server = http.client.HTTPConnection(urlsplit(upstream).netloc, timeout=60)
            try:
                sent = {
                    name: value for name, value in self.headers.items() if name.lower() not in {"connection", "expect"}
                }
                server.request(self.command, self.path, body=body, headers=sent)
                answer = server.getresponse()
                content = answer.read()
                self.send_response_only(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in {"connection", "transfer-encoding", "content-length"}:
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

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Handler.tokens = Tokens(f"http://127.0.0.1:{server.server_port}", file)
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            yield Handler.tokens
        finally:
            server.shutdown()
            serving.join()
