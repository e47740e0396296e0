"""The documents with a line for each run, for pages: the watch makes again what is lost or of a release before.

A page reads and writes nothing. So without the watch a pipeline that has no more runs, such as a paused one, would make
its document again for each view.
"""

from collections.abc import Sequence
from threading import Thread

from ratchet.runs.run_index import index_etags, renew_index
from ratchet.store.base import Store
from ratchet_airflow import folders
from ratchet_airflow.alerts.by_hand import root
from ratchet_airflow.watch.guard import Guard


class RunIndexes:
    """Looks at each document that has changed, in a thread of its own: 10,000 runs take longer than a round may."""

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}
        """The etag with which each was looked at last; empty for one that was not there."""
        self._thread: Thread | None = None

    def look(self, store: Store) -> Thread | None:
        """Begin to renew those that need it, one after the other; None if there are none, or it is still at work."""
        if self._thread is not None and self._thread.is_alive():
            return None
        there = index_etags(store)
        names = {*there, *(found.spec.name for found in folders.read(root())[0])}
        changed = [name for name in sorted(names) if self._seen.get(name) != there.get(name, "")]
        if not changed:
            return None
        self._thread = Thread(target=self._renew, args=(store, changed, there), name="ratchet-run-index", daemon=True)
        self._thread.start()
        return self._thread

    def _renew(self, store: Store, names: Sequence[str], there: dict[str, str]) -> None:
        for name in names:
            with Guard(f"cannot write the index of the runs of {name}"):
                renew_index(store, name)
                self._seen[name] = there.get(name, "")
