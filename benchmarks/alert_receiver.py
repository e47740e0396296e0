"""What the benchmark of alerts sends to, and what kills a process at one of its calls."""

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ratchet.store.base import Store

THERE, AWAY = 200, 503
"""What a receiver answers."""
_CALLS = frozenset({"read", "create", "replace", "list", "head", "delete"})


class Receiver:
    """A server that counts what is posted to it. status: what it answers; AWAY is away."""

    def __init__(self) -> None:
        self.titles: Counter[str] = Counter()
        self.status = THERE
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:  # the name that http.server looks for
                message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if receiver.status != AWAY:
                    receiver.titles[message["title"]] += 1
                self.send_response(receiver.status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"json://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def listening(self) -> Iterator["Receiver"]:
        """Serve until the block ends."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()


class Kill:
    """Kills this process at one of its calls: `left` calls from now, by SIGKILL."""

    def __init__(self, left: int) -> None:
        self.left = left

    def count(self) -> None:
        """One call more."""
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1


class CountedStore:
    """A store whose every call is one at which the process may be killed: before it, and after it."""

    def __init__(self, store: Store, killed: Kill) -> None:
        self._store, self._killed = store, killed

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._store, name)
        if name not in _CALLS:
            return real

        def call(*given: Any, **named: Any) -> Any:
            self._killed.count()
            found = real(*given, **named)
            return list(found) if name == "list" else found

        return call
