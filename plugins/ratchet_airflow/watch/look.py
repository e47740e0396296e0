"""One look of the watch at Airflow, over the public REST API: a few requests, however many pipelines there are.

Tasks are read run by run, and only for runs that may be late, stuck or failed: Airflow's list of the tasks of many runs
writes a line into the audit log for each request.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from itertools import groupby
from typing import Any
from urllib.parse import quote

from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.masking import masked_logger
from ratchet_airflow.watch.airflow_runs import APPROVAL, ENDED, TAG, AirflowDag, Backfill, Run, Task
from ratchet_airflow.watch.airflow_server import AirflowServer, Row, as_expected

_RUNS = "/dags/~/dagRuns/list"
_TASKS = "/dags/~/dagRuns/~/taskInstances"
_PAUSES = ("patch_dag", "patch_dags", "cli_dag_pause", "cli_pause")
"""How the audit log calls a change of a pause."""
_SLACK = timedelta(days=1)
"""Between a day of data and the moment from which on a backfill was asked for, in any time zone."""
_RECENT = timedelta(minutes=6)
"""More than a round of the watch may take, and than clocks may differ, so that no end is between two questions."""
_log = masked_logger("ratchet.alerts")
_pauses: dict[tuple[str, str], dict[str, Any]] = {}
"""When and by whom each DAG was paused that is paused, by server, so that it is asked once."""


class Look:
    """What Airflow says now. Raises Unavailable while its server is away."""

    def __init__(self, server: AirflowServer) -> None:
        self._server = server

    @cached_property
    def _dags(self) -> dict[str, Row]:
        """Every pipeline's DAG, also one that Airflow can no longer load."""
        rows = self._server.pages("/dags", "dags", tags=TAG, exclude_stale=False, order_by="dag_id")
        found = {row["dag_id"]: row for row in rows}
        for name, row in found.items():
            if not row["is_paused"]:
                _pauses.pop((self._server.url, name), None)  # here, since each look asks for this: the next is another
        return found

    @property
    def names(self) -> frozenset[str]:
        """The names of the pipelines' DAGs that Airflow shows."""
        return frozenset(self._dags)

    def dags(self, since: Mapping[str, datetime]) -> dict[str, AirflowDag]:
        """Every pipeline's DAG. since: for which of them runs count as started, and from which moment on."""
        started = self._started({name: moment for name, moment in since.items() if name in self._dags})
        return {
            name: AirflowDag(
                dag_id=name,
                paused=row["is_paused"],
                stale=row["is_stale"],
                import_errors=row["has_import_errors"],
                **self._pause(name, paused=row["is_paused"]),
                started=frozenset(started.get(name, ())),
            )
            for name, row in self._dags.items()
        }

    @as_expected()
    def runs(self, *, ended_within: timedelta) -> tuple[list[Run], list[Backfill]]:
        """Every run that is active or ended within this time, and the backfills of these runs."""
        rows = list(self._active())
        since = datetime.now(UTC) - ended_within
        if self._dags:
            rows += self._server.find(
                _RUNS, "dag_runs", dag_ids=[*self._dags], states=sorted(ENDED), end_date_gte=since, order_by="end_date"
            )
        backfilled = {row["dag_id"] for row in rows if row["run_type"] == "backfill"}
        known = {name: self._backfills(name) for name in sorted(backfilled)}
        waits = self._questions()
        runs = [self._run(row, known, waits) for row in rows]
        numbers: dict[str, set[int]] = {}
        for run in runs:
            if run.backfill:
                numbers.setdefault(run.dag_id, set()).add(run.backfill)
        return runs, [found for name in numbers for found in self._whole(name, known[name], numbers[name])]

    def tasks(self, run: Run) -> tuple[Task, ...]:
        """Every task of a run."""
        path = f"/dags/{run.dag_id}/dagRuns/{quote(run.run_id, safe='')}/taskInstances"
        return tuple(_task(row) for row in self._server.pages(path, "task_instances", order_by="id"))

    def parts_away(self) -> dict[str, str]:
        """What has sent no heartbeat in time, each in words. The triggerer is one only while tasks wait for it."""
        health, found = self._server.get("/monitor/health"), dict[str, str]()
        if health["scheduler"]["status"] != "healthy":
            found["scheduler"] = "the scheduler has no heartbeat"
        if health["dag_processor"]["status"] != "healthy":
            found["DAG processor"] = "the DAG processor has no heartbeat, so no change of a pipeline arrives"
        if (health.get("triggerer") or {}).get("status") != "healthy":
            waiting = self._server.get(_TASKS, state=["deferred"], limit=1)["total_entries"]
            if waiting:
                found["triggerer"] = f"the triggerer has no heartbeat, and deferred tasks wait for it: {waiting}"
        return found

    def _active(self) -> Iterator[Row]:
        if self._dags:
            active = ["queued", "running"]
            yield from self._server.find(_RUNS, "dag_runs", dag_ids=[*self._dags], states=active, order_by="id")

    def _started(self, since: Mapping[str, datetime]) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        states = ["running", *sorted(ENDED)]
        for moment, names in groupby(sorted(since, key=since.__getitem__), key=since.__getitem__):
            wanted = [*names]
            for row in self._server.find(_RUNS, "dag_runs", dag_ids=wanted, states=states, run_after_gte=moment):
                found.setdefault(row["dag_id"], set()).add(str(row["partition_key"]))
        return found

    def _pause(self, name: str, *, paused: bool) -> dict[str, Any]:
        """When and by whom a DAG was paused, by the audit log; nothing if that does not say."""
        place = (self._server.url, name)
        if not paused:
            return {}
        if place not in _pauses:
            rows = self._changes_of_pause(name)
            _pauses[place] = (
                {"paused_at": _moment(rows[0]["when"]), "paused_by": rows[0]["owner"] or ""} if rows else {}
            )
        return _pauses[place]

    def _changes_of_pause(self, name: str) -> list[Row]:
        """The last one, if the audit log has it."""
        asked = {"dag_id": name, "included_events": _PAUSES, "order_by": "-when", "limit": 1}
        try:
            found: list[Row] = self._server.get("/eventLogs", **asked)["event_logs"]
        except ConfigurationError as error:  # who may not read it hears of the pause all the same
            _log.warning("cannot tell who paused %s: %s", name, error)
            return []
        return found

    def _questions(self) -> dict[tuple[str, str], list[Row]]:
        """The approvals that wait for a person, by DAG and run."""
        found: dict[tuple[str, str], list[Row]] = {}
        states = ["awaiting_input", "deferred"]
        for row in self._server.pages(_TASKS, "task_instances", task_id=APPROVAL, state=states, order_by="id"):
            found.setdefault((row["dag_id"], row["dag_run_id"]), []).append(row)
        return found

    def _backfills(self, dag_id: str) -> list[Row]:
        """The backfills of a DAG, newest first."""
        return list(self._server.get("/backfills", dag_id=dag_id, order_by="-id", limit=100)["backfills"])

    def _whole(self, dag_id: str, known: list[Row], numbers: set[int]) -> Iterator[Backfill]:
        """These backfills of a DAG, with all their runs."""
        wanted = [row for row in known if row["id"] in numbers]
        since = min(row["created_at"] for row in wanted)
        rows = self._server.pages(
            f"/dags/{dag_id}/dagRuns", "dag_runs", run_type="backfill", updated_at_gte=since, order_by="id"
        )
        runs = sorted(
            (self._run(row, {dag_id: known}, {}) for row in rows), key=lambda one: (one.partition, one.run_id)
        )
        for row in reversed(wanted):
            yield Backfill(
                number=row["id"],
                dag_id=dag_id,
                runs=tuple(run for run in runs if run.backfill == row["id"]),
                first=_moment(row["from_date"]),
                last=_moment(row["to_date"]),
            )

    def _run(self, row: Row, backfills: Mapping[str, list[Row]], waits: Mapping[tuple[str, str], Iterable[Row]]) -> Run:
        name = row["dag_id"]
        queued = _moment(row["queued_at"] or row["start_date"] or row["run_after"])
        partition = row["partition_key"] or ""
        ours = _number(backfills.get(name, []), queued, partition) if row["run_type"] == "backfill" else None
        return Run(
            dag_id=name,
            file=self._dags[name]["fileloc"] or "",
            run_id=row["dag_run_id"],
            state=row["state"],
            partition=partition,
            queued=queued,
            started=_maybe(row["start_date"]),
            ended=_maybe(row["end_date"]),
            backfill=ours,
            tasks=tuple(_task(one) for one in waits.get((name, row["dag_run_id"]), ())),
        )


@as_expected()
def ended_runs(server: AirflowServer) -> frozenset[tuple[str, str, str]]:
    """The runs that failed, and those of backfills that ended, in the last minutes: one request."""
    since = datetime.now(UTC) - _RECENT
    said = server.get("/dags/~/dagRuns", end_date_gte=since, state=sorted(ENDED), order_by="-end_date", limit=100)[
        "dag_runs"
    ]
    return frozenset(
        (row["dag_id"], row["dag_run_id"], row["end_date"])
        for row in said
        if row["state"] == "failed" or row["run_type"] == "backfill"
    )


def _number(backfills: Iterable[Row], queued: datetime, partition: str) -> int:
    """The backfill of a run, which Airflow's API does not give; 0 if none fits.

    A pipeline has one backfill at a time. So it is the newest that was created before the run was queued, and has its
    date.
    """
    for row in backfills:
        if _moment(row["created_at"]) <= queued and _covers(row, partition):
            return int(row["id"])
    return 0


def _covers(row: Row, partition: str) -> bool:
    try:
        day = date.fromisoformat(partition)
    except ValueError:
        return True  # none, or that of a DAG which is no pipeline and has the tag
    first, last = _moment(row["from_date"]).date(), _moment(row["to_date"]).date()
    return first - _SLACK <= day <= last + _SLACK


def _task(row: Row) -> Task:
    moments = [_maybe(row[name]) for name in ("queued_when", "start_date", "end_date")]
    return Task(
        task_id=row["task_id"],
        state=row["state"],
        try_number=row["try_number"],
        max_tries=row["max_tries"],
        changed=max((moment for moment in moments if moment), default=None),
    )


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _maybe(text: str | None) -> datetime | None:
    return _moment(text) if text else None
