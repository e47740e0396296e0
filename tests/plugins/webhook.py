"""A real HTTP server on loopback that keeps what is posted to it. The benchmark of alerts sends to it too."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

THERE, AWAY = 200, 503
"""What it answers."""


class Webhook:
    """url: where to post, as Apprise writes it. status: its answer; AWAY is away. received: the JSON bodies so far.

    titles: of those that it took. asked: the paths that were read.
    """

    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []
        self.titles: Counter[str] = Counter()
        self.asked: list[str] = []
        self.status = THERE
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"json://127.0.0.1:{self._server.server_port}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                hook.received.append(message)
                if hook.status == THERE:
                    hook.titles[str(message.get("title"))] += 1
                self.send_response(hook.status)
                self.end_headers()

            def do_GET(self) -> None:
                hook.asked.append(self.path)
                self.send_response(hook.status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    @contextmanager
    def listening(self) -> Iterator["Webhook"]:
        """Serve until the block ends."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()
