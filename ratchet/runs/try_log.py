"""The log of one try of a stage: what its container or its process printed, in the store.

A change here violates the promise of the project when a log that cannot be stored fails a run, or when a secret of the
stage is in a log.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from threading import Lock
from types import TracebackType
from typing import Self

from ratchet.contracts import paths
from ratchet.contracts.errors import RatchetError
from ratchet.contracts.joins import sources
from ratchet.contracts.masking import Mask
from ratchet.runners.following import JobEnd, LeftRunning
from ratchet.runners.log.lines import Line
from ratchet.runs.events import Event, parse
from ratchet.runs.excerpt import Excerpt
from ratchet.runs.known_secrets import secrets_of
from ratchet.runs.work import Work

PART_BYTES = 256 << 10
"""Bytes of the first lines that are stored, and of the last ones."""
_log = logging.getLogger(__name__)


class TryLog:
    """The lines of one try. They are stored at the end of the block, whether it raises or not, unless the job is left.

    resumed: whether an earlier follower has read the first lines of the try. stored: where an earlier one has stored
    all of them, if it has; they are not stored again.
    """

    def __init__(self, work: Work, *, resumed: bool = False, stored: str | None = None) -> None:
        self.key = stored
        """Where the log is, once it is stored."""
        self._work = work
        self._mask: Mask | None = None
        self._learnt: set[str] = set()
        self._learning = Lock()  # new keys are learnt in another thread than the one that masks
        self._lines = Excerpt(PART_BYTES)
        request = work.request
        self._lines.add(f"# {request.spec.name} {request.run_id}: {request.stage}, attempt {request.attempt}")
        if resumed:
            self._lines.add("# an earlier follower of the same try has read the lines before these")

    def mask(self, line: Line) -> Line:
        """A line without the secrets of the stage."""
        masked = self._masked(line.text)
        return line if masked == line.text else replace(line, text=masked)

    def _masked(self, text: str) -> str:
        with self._learning:
            if self._mask is None:
                self._mask = Mask(self._secrets_in(self._work.job.secrets) | self._learnt)
            mask = self._mask
        return mask.line(text)

    def learn(self, files: Mapping[str, bytes]) -> None:
        """Mask these secrets from now on, too."""
        with self._learning:
            self._learnt |= self._secrets_in(files)
            self._mask = None

    def _secrets_in(self, files: Mapping[str, bytes]) -> set[str]:
        return secrets_of([source for _, source in sources(self._work.request.spec)], files)

    def hear(self, line: Line) -> Line:
        """Take a line into the log. Returns it without secrets."""
        masked = self.mask(line)
        self.take(masked)
        return masked

    def take(self, line: Line) -> None:
        """Take a line into the log that nobody else reads: of a long log, what is stored alone is masked."""
        if len(line.text) > PART_BYTES // 4:  # it may be cut, and with it a secret
            line = self.mask(line)
        for text in _text(parse(line)).splitlines() or [""]:
            self._lines.add(text)

    def end(self, ended: JobEnd) -> None:
        """Take into the log how the try ended."""
        why = "timed out" if ended.timed_out else "out of memory" if ended.out_of_memory else ended.cause
        self._lines.add(f"# ended with exit code {ended.exit_code}{f' ({why})' if why else ''}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, LeftRunning) or self.key is not None:
            return
        try:
            self.key = self._store()
        except (RatchetError, OSError) as failure:
            _log.warning("the log of %s is not stored: %s", self._work.request.stage, failure)

    def _store(self) -> str:
        """Store the log under the first number that is free."""
        store, request = self._work.store, self._work.request
        data = "".join(f"{self._masked(line)}\n" for line in self._lines.lines()).encode("utf-8", "replace")
        for number in count(1):
            key = paths.log(request.spec.name, request.run_id, request.work_name, number)
            if store.head(key) is None and store.create(key, data):
                return key
        raise AssertionError("unreachable")


def _text(event: Event) -> str:
    """An event as a person reads it: its time, its level and its message; below them the traceback, if it has one."""
    if event.name == "text":
        return event.message
    traceback = event.fields.get("traceback")
    line = f"{event.time} {event.level}: {event.message}".lstrip()
    return f"{line}\n{traceback}" if traceback else line
