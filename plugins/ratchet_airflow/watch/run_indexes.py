"""The documents with a line for each run, for pages: the watch makes again what is lost or of a release before.

A page reads and writes nothing. So without the watch a pipeline that has no more runs, such as a paused one, would make
its document again for each view. And a run whose line the store refused, when it was planned and when it ended, would
never be shown.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from contextlib import suppress
from threading import Thread

from ratchet.runs.run_index import add_lines, index_etags, renew_index
from ratchet.runs.standstill import RowsHeld
from ratchet.store.base import Entry, Store
from ratchet_airflow import folders
from ratchet_airflow.alerts.by_hand import root
from ratchet_airflow.watch.guard import Guard

_PIPELINES = 8
_RUNS = 8
"""At most so many pipelines, and runs without a line, are looked at in one look: about a hundred requests."""


class RunIndexes:
    """Looks at each document that has changed, and at a few for lines that they lack; the next look goes on.

    In a thread of its own: 10,000 runs take longer than a round may.
    """

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}
        """The etag with which each was looked at last; empty for one that was not there."""
        self._next: list[str] = []
        """The pipelines that are still to be looked at for lines that they lack; then all again."""
        self._no_line: dict[str, set[Entry]] = defaultdict(set)
        self._thread: Thread | None = None

    def look(self, store: Store) -> Thread | None:
        """Begin with it; None if there are no pipelines, or the look before is still at work."""
        if self._thread is not None and self._thread.is_alive():
            return None
        there = index_etags(store)
        names = {*there, *(found.spec.name for found in folders.read(root())[0])}
        if not names:
            return None
        self._thread = Thread(target=self._work, args=(store, names, there), name="ratchet-run-index", daemon=True)
        self._thread.start()
        return self._thread

    def _work(self, store: Store, names: Collection[str], there: Mapping[str, str]) -> None:
        for name in sorted(names):
            if self._seen.get(name) != there.get(name, ""):
                # A purge of hours is no fault of the watch, which goes on with its heartbeat: a later look writes it.
                with Guard(f"cannot write the index of the runs of {name}"), suppress(RowsHeld):
                    renew_index(store, name)
                    self._seen[name] = there.get(name, "")
        self._next = [name for name in self._next if name in names] or sorted(names)
        left, turn = _RUNS, self._next[:_PIPELINES]
        for name in turn:
            if left > 0:
                self._next.remove(name)
                with Guard(f"cannot look for runs of {name} that have no line"):
                    left -= add_lines(store, name, self._no_line[name], left)
