"""A way to a server, such as a Docker engine or S3, that a test may close: the server itself goes on."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.ports import hold, number

_Address = str | tuple[str, int]


class Forwarder:
    """Listens at an address and passes bytes on, unless it is away. Then it refuses and every connection breaks."""

    def __init__(self, here: _Address, there: _Address) -> None:
        self.here = here
        self._there = there
        self._held = hold(here[1]) if isinstance(here, tuple) else None
        if self._held is not None:  # while it is away, no other process listens there
            self.here = ("127.0.0.1", number(self._held))
        self._listener: socket.socket | None = None
        self._open: set[socket.socket] = set()
        self._changing = threading.Lock()

    def back(self) -> None:
        """Listen."""
        listener = _made(self.here)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if isinstance(self.here, str):
            Path(self.here).unlink(missing_ok=True)
        listener.bind(self.here)
        listener.listen(64)
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def away(self) -> None:
        """Refuse, and break what is open."""
        with self._changing:
            ended, self._listener = {*self._open, *filter(None, [self._listener])}, None
            self._open.clear()
        for one in ended:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def close(self) -> None:
        """Give its port back."""
        if self._held is not None:
            self._held.close()

    def away_for(self, seconds: float) -> threading.Thread:
        """Be away from now on for some seconds."""
        self.away()

        def later() -> None:
            threading.Event().wait(seconds)
            self.back()

        waiting = threading.Thread(target=later)
        waiting.start()
        return waiting

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = _made(self._there)
                server.connect(self._there)
                with self._changing:
                    if self._listener is not listener:
                        client.close(), server.close()
                        return
                    self._open |= {client, server}
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=self._copy, args=(source, target), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)


def _made(address: _Address) -> socket.socket:
    return socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)


@contextmanager
def forwarded(here: _Address, there: _Address) -> Iterator[Forwarder]:
    """A forwarder that listens, until the end of the block."""
    made = Forwarder(here, there)
    made.back()
    try:
        yield made
    finally:
        made.away()
        made.close()
