"""The documents that pages read: the watch makes again what is lost or of a release before.

A page believes a document, and writes nothing. So without the watch a run that was killed between a record and its line
would be shown as it was before; a pipeline that has no more runs, such as a paused one, would make its document again
for each view; and a run whose line the store refused, when it was planned and when it ended, would never be shown.
"""

import math
import random
import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from contextlib import suppress
from itertools import groupby
from threading import Thread

from ratchet.runs.index_mending import add_lines, check_lines, index_etags, renew_index, renew_lines
from ratchet.runs.standstill import RowsHeld
from ratchet.store.base import Entry, Store
from ratchet_airflow import folders
from ratchet_airflow.alerts.by_hand import root
from ratchet_airflow.run_id import store_run_id
from ratchet_airflow.watch.airflow_runs import ENDED, Run
from ratchet_airflow.watch.guard import Guard
from ratchet_airflow.watch.lost_letters import LostLetterDocuments

_PIPELINES = 8
_RUNS = 8
"""At most so many pipelines, and about so many runs without a line, are looked at in one look: some 130 requests. One
run of each, so that no pipeline with many runs that newer ones hide keeps the others waiting."""
_EVERY_S = 240.0
"""Looks for runs under way are no closer, since there is one after each end of a run: three requests for a pipeline."""


class RunIndexes:
    """Looks at each document that has changed or has runs under way, and at a few for lines that they lack.

    The next look goes on with those. Of runs that have ended it compares the line once: the store may have refused it.

    In a thread of its own: 10,000 runs take longer than a round may. So do the lists of alerts that reached nobody.
    """

    def __init__(self) -> None:
        self._lost_letters = LostLetterDocuments()
        self._seen: dict[str, str] = {}
        """The etag with which each was looked at last; empty for one that was not there."""
        self._next: list[str] = []
        """The pipelines that are still to be looked at for lines that they lack; then all again."""
        self._no_line: dict[str, set[Entry]] = defaultdict(set)
        self._thread: Thread | None = None
        self._looked = -math.inf
        self._compared: set[Run] = set()

    def look(self, store: Store, runs: Collection[Run], *, for_lacking: bool) -> Thread | None:
        """Begin with it; None if it is not due, there are no pipelines, or the look before is still at work.

        runs: of Airflow, those that are active or ended a while ago. for_lacking: whether to look for lines that
        documents lack, which is due then.
        """
        is_due = for_lacking or time.monotonic() - self._looked >= _EVERY_S
        if not is_due or (self._thread is not None and self._thread.is_alive()):
            return None
        self._looked = time.monotonic()
        there = index_etags(store)
        names = {*there, *(found.spec.name for found in folders.read(root())[0])}
        if not names:
            return None
        work = (store, names, there, names if for_lacking else (), {run for run in runs if run.state in ENDED})
        self._thread = Thread(target=self._work, args=work, name="ratchet-run-index", daemon=True)
        self._thread.start()
        return self._thread

    def _work(
        self,
        store: Store,
        names: Collection[str],
        there: Mapping[str, str],
        lacking: Collection[str],
        ended: set[Run],
    ) -> None:
        self._compare(store, ended)
        for name in sorted(names):
            if self._seen.get(name) != there.get(name, ""):
                # A purge of hours is no fault of the watch, which goes on with its heartbeat: a later look writes it.
                with Guard(f"cannot write the index of the runs of {name}"), suppress(RowsHeld):
                    if not renew_index(store, name) and not renew_lines(store, name):
                        self._seen[name] = there.get(name, "")
        if lacking:
            with Guard("cannot look for alerts that reached nobody"):
                self._lost_letters.look(store)
            self._add_lines(store, lacking)

    def _compare(self, store: Store, ended: set[Run]) -> None:
        if ended:  # Airflow's server may be away
            self._compared &= ended
        for name, runs in groupby(sorted(ended - self._compared, key=_pipeline), key=_pipeline):
            new = {*runs}
            with Guard(f"cannot compare the lines of runs of {name} that have ended"):
                check_lines(store, name, {store_run_id(run.run_id) for run in new})
                self._compared |= new

    def _add_lines(self, store: Store, names: Collection[str]) -> None:
        # In any order: a watch that is started again each day would never come to the last ones.
        self._next = [name for name in self._next if name in names] or random.sample(sorted(names), len(names))
        left, turn = _RUNS, self._next[:_PIPELINES]
        for name in turn:
            self._next.remove(name)
            with Guard(f"cannot look for runs of {name} that have no line"):
                left -= add_lines(store, name, self._no_line[name], max(1, left))


def _pipeline(run: Run) -> str:
    return run.dag_id
