"""The output of a child process, read by a thread as it comes: the child never blocks on a log that nobody reads."""

import os
import selectors
import subprocess
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from ratchet.runners.log.lines import Line, Splitter, Stream

MOST_LINES = 4096
"""Lines kept for a follower that is slower than the child. More lines push out the oldest; a line says how many."""

_PIECE = 64 << 10


class Output:
    """The lines of a child's two streams, in the order in which they were read."""

    def __init__(self) -> None:
        self._lines: deque[Line] = deque()
        self._lost = 0
        self._closed = False
        self._changed = threading.Condition()

    def follow(self) -> Iterator[Line]:
        """Every line until the child has ended. Each line goes to one follower."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines or self._closed)
                lines, lost = tuple(self._lines), self._lost
                self._lines.clear()
                self._lost = 0
            if lost:
                yield Line("stderr", f"[{lost} lines were not read in time and are lost]")
            yield from lines
            if not lines:
                return

    @contextmanager
    def reading(self, child: "subprocess.Popen[bytes]") -> Iterator[None]:
        """Read the child's pipes in a thread until they end, or the block does: then read what is there, and stop."""
        assert child.stdout is not None
        assert child.stderr is not None
        ended, end = os.pipe()
        reader = threading.Thread(target=self._read, args=(child.stdout, child.stderr, ended), daemon=True)
        reader.start()
        try:
            yield
        finally:
            os.close(end)
            reader.join()
            os.close(ended)

    def _read(self, stdout: IO[bytes], stderr: IO[bytes], ended: int) -> None:
        with selectors.DefaultSelector() as selector, stdout, stderr:
            pipes: list[tuple[IO[bytes], Stream]] = [(stdout, "stdout"), (stderr, "stderr")]
            for pipe, stream in pipes:
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe, selectors.EVENT_READ, Splitter(stream))
            selector.register(ended, selectors.EVENT_READ, None)
            over = False
            while len(selector.get_map()) > 1:
                ready = [key for key, _ in selector.select(0 if over else None) if key.data is not None]
                if over and not ready:
                    break  # a grandchild that left the group may hold the pipe open for ever
                if not ready:
                    over = True
                for key in ready:
                    if piece := os.read(key.fd, _PIECE):
                        self._add(key.data.feed(piece))
                    else:
                        selector.unregister(key.fileobj)
                        self._add(key.data.close())
            for key in list(selector.get_map().values()):
                if key.data is not None:
                    self._add(key.data.close())
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _add(self, lines: Iterator[Line]) -> None:
        with self._changed:
            for line in lines:
                if len(self._lines) == MOST_LINES:
                    self._lines.popleft()
                    self._lost += 1
                self._lines.append(line)
            self._changed.notify_all()
