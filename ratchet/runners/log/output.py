"""The output of a child process, read by a thread as it comes: the child never blocks on a log that nobody reads."""

import os
import selectors
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import IO

from ratchet.runners.log.lines import Line, Splitter, Stream

MOST_LINES = 4096
"""Lines kept for a follower that is slower than the child. More lines push out the oldest; a line says how many."""

_PIECE = 64 << 10


class Output:
    """The lines of a child's two streams, in the order in which they were read.

    A signal's handler may raise at any moment in the thread that follows. So nothing here has a lock that this thread
    could leave taken: the reader would wait for it, and who waits for the reader.
    """

    def __init__(self) -> None:
        self._lines: SimpleQueue[Line | None] = SimpleQueue()  # None: the child has ended
        self._lost = self._said = 0

    def follow(self) -> Iterator[Line]:
        """Every line until the child has ended. Each line goes to one follower."""
        while (line := self._lines.get()) is not None:
            if lost := self._lost - self._said:
                self._said += lost
                yield Line("stderr", f"[{lost} lines were not read in time and are lost]")
            yield line
        self._lines.put(None)  # for the next follower

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
        self._lines.put(None)

    def _add(self, lines: Iterator[Line]) -> None:
        for line in lines:
            if self._lines.qsize() >= MOST_LINES:
                with suppress(Empty):  # it was read just now
                    self._lines.get_nowait()
                    self._lost += 1
            self._lines.put(line)
