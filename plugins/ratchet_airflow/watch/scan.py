"""A scan of the watch: it finds in Airflow and in the store what no callback reports, and sends it once.

It reports failed tasks whose process was killed, runs that are late or stuck, nights that never started, the end of
each backfill, changes of production by hand, which it finds in the ledgers, decisions about days, and a night of
`ratchet run` that asks for a person. Once a day it makes the digest of each receiver. Before all that it delivers what
waits in the outbox.
"""

import os
import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

from ratchet.contracts.environment import environment
from ratchet.contracts.errors import ConfigurationError, RatchetError
from ratchet.contracts.masking import masked_logger
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.outbox.deadline import Deadline
from ratchet.runs.settling import settle
from ratchet.store.base import Store
from ratchet.store.opening import open_store
from ratchet_airflow import folders, settings
from ratchet_airflow.alerts.by_hand import root
from ratchet_airflow.alerts.deduplication import AlertHistory
from ratchet_airflow.alerts.delivery import log_file, outbox_of, send_once
from ratchet_airflow.plans import find_plan
from ratchet_airflow.timetable import DayBeforeTimetable
from ratchet_airflow.watch import presence, waiting
from ratchet_airflow.watch.airflow_runs import ENDED, Backfill, Run
from ratchet_airflow.watch.airflow_server import AirflowServer, ServerAway
from ratchet_airflow.watch.backfill_summary import summarise
from ratchet_airflow.watch.decided_days import scan_decided_days
from ratchet_airflow.watch.digest import scan_digest
from ratchet_airflow.watch.guard import Guard, failures
from ratchet_airflow.watch.heartbeat import beat
from ratchet_airflow.watch.local_nights import scan_local_nights
from ratchet_airflow.watch.look import Look
from ratchet_airflow.watch.missing_nights import scan_missing_nights
from ratchet_airflow.watch.parts import Parts
from ratchet_airflow.watch.production import scan_ledgers
from ratchet_airflow.watch.run_alerts import scan_run, spec_of, worth_a_look
from ratchet_airflow.watch.run_indexes import RunIndexes
from ratchet_airflow.watch.seen_runs import SeenRuns
from ratchet_airflow.watch.unseen import Unseen
from ratchet_airflow.watch.upkeep import Upkeep

_log = masked_logger("ratchet.alerts")
_KEEP = timedelta(hours=1)
"""How long after its end a run is scanned, beside the time since the last scan that looked at all runs."""
_FIRST = timedelta(days=1)
"""The least for the first scan: the store, Airflow's server, or the watch itself may have been away."""
_OPEN_S, _DELIVER_S = 40.0, 40.0
"""Seconds to post what this host has kept, and to send what waits; together less than a round may take."""
_RUNS_S = 120.0
"""Seconds to look at runs; the rest of a round has to fit into its limit, too."""
_AWAY_S = 300.0
"""A restart of Airflow's server takes less; after that, nights that are due are missing for want of it."""
_IDLE = 12
"""One scan of so many looks for what documents of pages lack, and while no run is active for what people did."""


class Scanner:
    """Scans, and what it remembers between two scans."""

    def __init__(self, server: AirflowServer) -> None:
        self._server = server
        self._rounds = count()
        self._scanned: datetime | None = None
        self._before = _last_scan()
        self._away_since: float | None = None
        self._unread: RatchetError | None = None
        self._summarised: set[str] = set()
        self._settled: set[str] = set()
        self._seen = SeenRuns(log_file().with_name("watch-seen"))
        self._indexes = RunIndexes()
        self._unseen = Unseen()
        self._parts = Parts()
        self._upkeep = Upkeep()
        self._heartbeat = datetime.now(UTC) if environment().heartbeat_url else None

    def scan(self, now: datetime | None = None) -> bool:
        """Report all that is due. Whether a run is active. now: in UTC; the clock's by default."""
        store = waiting.open_outbox(Deadline(_OPEN_S))
        if store is None:
            return True  # nothing can be claimed until it answers, and people hear of that if it goes on
        waiting.deliver(store, Deadline(_DELIVER_S))  # first, so that no number of runs and no fault holds it
        with Guard("cannot mark that the watch is there"):
            presence.mark(store, "watch", heartbeat=self._heartbeat)
        with Guard("cannot see whether a reaper is running"):
            presence.report(store, "reaper")
        with Guard("cannot see whether old rows of Airflow are deleted"):
            self._upkeep.report_rows()
        with Guard("cannot see whether git answers"):
            self._upkeep.report_git()
        with Guard("cannot see whether the store is collected"):
            self._upkeep.report_collection(store)
        with Guard("cannot see whether backups are copied off the host"):
            self._upkeep.report_backup(store)
        moment = now or datetime.now(UTC)
        look = Look(self._server)
        read = self._read(look, moment)
        if read is None:
            active = True
            if self._away_since is not None and time.monotonic() - self._away_since > _AWAY_S:
                with Guard("cannot look for missing nights"):
                    unread = None if isinstance(self._unread, ServerAway) else self._unread
                    scan_missing_nights(store, None, [], now, unread)
                with Guard("cannot say that Airflow may not be read"):
                    waiting.say_refused(self._unread, moment)
            if self._unread is not None and not isinstance(self._unread, ConfigurationError):
                with Guard("cannot say that Airflow's server is away"):
                    self._parts.look({"server": self._unread.cause}, moment)
        else:
            active = self._report(store, look, *read, moment)
        is_rare = next(self._rounds) % _IDLE == 0
        if active or is_rare:
            _scan_what_people_did(store)
        with Guard("cannot look for indexes of runs to mend"):
            self._indexes.look(store, read[0] if read else (), for_lacking=is_rare)
        return active

    def _read(self, look: Look, now: datetime) -> tuple[list[Run], list[Backfill]] | None:
        """The runs; None while Airflow's server does not answer, which is said once."""
        last = self._scanned or self._before
        within = timedelta(0) if last is None else _KEEP + max(now - last, timedelta(0))
        try:
            found = look.runs(ended_within=within if self._scanned else max(_FIRST, within))
        except RatchetError as error:
            if self._away_since is None:
                _log.warning("cannot read the runs from Airflow; it is asked again until it answers: %s", error)
                self._away_since = time.monotonic()
            self._unread = error
            return None
        if self._away_since is not None:
            _log.warning("Airflow answers again")
        self._away_since = None
        return found

    def _scan_runs(self, look: Look, runs: list[Run], now: datetime) -> bool:
        """Report what these runs give reason for. False if there was no time for all: the next scan goes on."""
        deadline, free = Deadline(_RUNS_S), set[str]()
        with Guard("cannot read the folder of the pipelines"):
            specs = [found.spec for found in folders.read(root())[0]]
            free = {spec.name for spec in specs if spec.schedule is None or spec.schedule.finish_by is None}
        for run in worth_a_look(runs, free):
            if run in self._seen:
                continue
            if deadline.over:
                _log.warning("there are many runs to look at; the next look goes on with the rest")
                return False
            with Guard(f"cannot make the alerts of {run.dag_id} {run.run_id}") as guard:
                scan_run(run, now, look.tasks)
            ends = f"{run.dag_id} {run.run_id} {run.ended}"
            if run.state == "failed" and ends not in self._settled:
                with Guard(f"cannot record the end of {run.dag_id} {run.run_id}"):
                    _settle(run)
                    self._settled.add(ends)
            if not guard.failed and (run.state != "failed" or ends in self._settled):
                self._seen.add(run, now)
        self._seen.keep(runs)
        return True

    def _report(self, store: Store, look: Look, runs: list[Run], backfills: list[Backfill], now: datetime) -> bool:
        """Report all that these runs, and the nights that have none, give reason for. Whether a run is active."""
        if self._scan_runs(look, runs, now):
            self._scanned = now
            _keep_scan(now)
        for backfill in backfills:
            with Guard(f"cannot make the summary of backfill {backfill.number} of {backfill.dag_id}"):
                self._scan_backfill(backfill, look)
        with Guard("cannot look for missing nights"):
            scan_missing_nights(store, look.dags, runs, now)
        with Guard("cannot make the digest"):
            scan_digest(store, look.dags, runs, now)
        unseen: list[str] = []
        with Guard("cannot tell whether Airflow shows each pipeline"):
            unseen = self._unseen.look(store, look.names, now)
        away: dict[str, str] = {}
        with Guard("cannot see whether Airflow's parts live"):
            away = look.parts_away()
            self._parts.look(away, now)
        with Guard("cannot send the heartbeat"):
            faults = [*failures(), *(f"Airflow does not show {name}" for name in unseen)]
            if beat(outbox_of(store), datetime.now(UTC), away=[*away.values()], faults=faults):
                self._heartbeat = datetime.now(UTC)
        return any(run.state not in ENDED for run in runs)

    def _scan_backfill(self, backfill: Backfill, look: Look) -> None:
        ends = f"{backfill.dag_id} {backfill.number} {[(run.run_id, run.ended) for run in backfill.runs]}"
        if not backfill.ended or ends in self._summarised:
            return
        spec, _ = spec_of(backfill.runs[-1])
        runs = tuple(replace(run, tasks=look.tasks(run)) if run.state == "failed" else run for run in backfill.runs)
        whole = replace(backfill, runs=runs, left_out=_left_out(backfill, spec))
        history = AlertHistory()
        where, key, alert = summarise(whole, open_store(settings.read().store), history)
        send_once(alert, where, key, spec.alerts, history)
        self._summarised.add(ends)


def _mark() -> Path:
    return log_file().with_name("watch-looked")


def _last_scan() -> datetime | None:
    """When the last scan of an earlier watch began that looked at all runs, if this host knows."""
    try:
        return datetime.fromtimestamp(_mark().stat().st_mtime, UTC)
    except OSError:
        return None


def _keep_scan(moment: datetime) -> None:
    """So that a watch that was away for days looks at all of them."""
    with suppress(OSError):
        _mark().touch()
        os.utime(_mark(), (moment.timestamp(), moment.timestamp()))


def _scan_what_people_did(store: Store) -> None:
    """Each costs a few lists of names for every pipeline."""
    with Guard("cannot look for what was done at a command line"):
        scan_ledgers(store)
        scan_decided_days(store)
        scan_local_nights(store)


def _settle(run: Run) -> None:
    """As where it exceeded its time limit while a stage waited: else its night is shown as unfinished for ever."""
    with suppress(ConfigurationError):  # it was never planned
        plan = find_plan(run.dag_id, run.run_id)
        settle(open_store(plan.store), plan)


def _left_out(backfill: Backfill, spec: PipelineSpec) -> int:
    """The dates for which it made no run, since they had one."""
    if spec.schedule is None or backfill.first is None or backfill.last is None:
        return 0
    timetable = DayBeforeTimetable(spec.schedule.cron, spec.schedule.timezone)
    return max(0, timetable.count_days(backfill.first, backfill.last) - len(backfill.runs))
