"""Tries of a task in processes of their own, each frozen at a request to the store until it is woken up.

A try is frozen with all that it started, as by a host that is suspended. Its request arrives when it wakes up.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.message import Message
from multiprocessing import get_context
from multiprocessing.process import BaseProcess

import psutil

from tests.s3_proxy import Refusal
from tests.waiting import until

Moment = Callable[[str, str], bool]
"""Whether a request is of this moment, by its method and path."""
_DENIED: Refusal = (403, b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>")
_FORK = get_context("fork")  # with all that is imported here


def never(_method: str, _path: str) -> bool:
    """No request."""
    return False


@dataclass(frozen=True)
class Frozen:
    """When a try is frozen: at the first request of a moment. denied: requests that the store refuses before that."""

    at: Moment
    denied: Moment = never


@dataclass(eq=False, kw_only=True)
class LateTry:
    """A try. others: processes that were there before it."""

    process: BaseProcess
    when: Frozen
    others: set[int]
    frozen: threading.Event = field(default_factory=threading.Event)
    awake: threading.Event = field(default_factory=threading.Event)
    _stopped: list[psutil.Process] = field(default_factory=list)

    def freeze(self) -> None:
        """Stop it, and what it has started."""
        self._stopped = [each for each in psutil.Process().children(recursive=True) if each.pid not in self.others]
        for each in self._stopped:
            with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
                each.suspend()
        self.frozen.set()

    def wake(self) -> None:
        """Let it go on, and wait until it has ended."""
        for each in self._stopped:
            with suppress(psutil.NoSuchProcess):
                each.resume()
        self.awake.set()
        self.process.join(240)
        assert self.process.exitcode is not None, "it does not end"

    def kill(self) -> None:
        """End it, if it is still there."""
        self.awake.set()
        for each in self._stopped:
            if each.is_running():
                each.kill()
        self.process.kill()


class LateTries:
    """Begins them. `refuse` is for a proxy before the store."""

    def __init__(self) -> None:
        self._frozen: list[LateTry] = []
        self._newest: LateTry | None = None
        self._looking = threading.Lock()

    def refuse(self, method: str, path: str, _headers: "Message[str, str]") -> Refusal | None:
        """The answer to a request that is not passed on. That of a try's moment is, when the try is woken up."""
        with self._looking:
            late = self._newest
            if late is None or late.frozen.is_set():
                return None
            if late.when.denied(method, path):
                return _DENIED
            if not late.when.at(method, path):
                return None
            late.freeze()
        late.awake.wait(240)
        return None

    def begin(self, work: Callable[[], object], when: Frozen) -> None:
        """Do some work in another process until it is frozen."""
        process = _FORK.Process(target=work, daemon=True)
        others = {each.pid for each in psutil.Process().children(recursive=True)}
        late = self._newest = LateTry(process=process, when=when, others=others)
        self._frozen.append(late)
        process.start()
        until(lambda: late.frozen.is_set() or not process.is_alive(), seconds=120, every=0.01)
        assert late.frozen.is_set(), "it ended before its moment"

    def wake_newest(self) -> bool:
        """Wake the newest one up, and wait for its end. False if none is frozen."""
        if self._frozen:
            self._frozen.pop().wake()
            return True
        return False

    @classmethod
    @contextmanager
    def open(cls) -> "Iterator[LateTries]":
        """None is left after the block."""
        made = cls()
        try:
            yield made
        finally:
            for late in made._frozen:
                late.kill()
