"""The morning digest: once a day, each receiver of alerts is told what ran, how it ended, and what waits for a person.

It goes out also where nothing ran, so that silence means trouble. What it knew of each run is its event's content, by
which the next one finds what has changed.

A change here violates the promise of the project when two watches send one digest, when a receiver gets none while a
watch runs, or when a run has ended within a week of its start and no digest says how.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import chain
from zoneinfo import ZoneInfo

from ratchet.contracts import outbox_paths
from ratchet.contracts.digest_time import DigestDay, DigestTime
from ratchet.contracts.environment import environment
from ratchet.contracts.errors import CorruptArtifact, OtherRelease, RatchetError, Unavailable
from ratchet.outbox.deadline import Deadline
from ratchet.outbox.letter import TAKEN, Letter
from ratchet.outbox.outbox import utc
from ratchet.runs.digest_runs import MEMORY, Runs, Told, in_one_line, recent_runs, what_ran
from ratchet.runs.digest_text import Digest
from ratchet.store.base import Store
from ratchet.store.documents import read_document
from ratchet_airflow.alerts.deduplication import AlertHistory
from ratchet_airflow.alerts.delivery import post_message
from ratchet_airflow.public_links import airflow_url
from ratchet_airflow.run_id import installation
from ratchet_airflow.watch import waits
from ratchet_airflow.watch.airflow_runs import AirflowDag, Run
from ratchet_airflow.watch.missing_nights import ReadDags, awaited_since
from ratchet_airflow.watch.watched import Watched, watched

_OCCASION = "digest"
_LIMIT_S = 30.0
"""Seconds to make all digests; a store that is slower is asked again at the next scan."""
_READERS = 8
_sent: dict[str, date] = {}
"""The day whose digests are all in a store, so that the next scans ask nothing."""
Dags = Mapping[str, AirflowDag]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pipeline:
    """A pipeline, its recent runs, and lines of what waits for a person, by kind, the most urgent kind first."""

    name: str
    to: tuple[str, ...]
    runs: Runs
    waits: tuple[Sequence[str], ...]
    is_read: bool = True


def scan_digest(store: Store, read_dags: ReadDags, runs: Sequence[Run], now: datetime | None = None) -> int:
    """Send the digests that are due and were not sent. How many. runs: those of Airflow that are active."""
    time, moment = environment().digest, now or datetime.now(UTC)
    due = time.due(moment) if time is not None else None
    if time is None or due is None or _sent.get(store.uri) == due.day:
        return 0
    sent = Deadline(_LIMIT_S).call(lambda: _send(store, time, due, read_dags, runs, moment))
    _sent[store.uri] = due.day
    return sent


def _send(
    store: Store, time: DigestTime, due: DigestDay, read_dags: ReadDags, runs: Sequence[Run], now: datetime
) -> int:
    everything = list(watched(store))
    to = sorted({name for one in everything for name in one.spec.alerts.to})
    to = [name for name in to if store.head(outbox_paths.digest(installation(), name, due.day)) is None]
    if not to:
        return 0
    dags = read_dags(awaited_since(store, everything, now))
    with ThreadPoolExecutor(_READERS) as pool:
        found = list(pool.map(partial(_look, store, dags, runs, now), everything))
    return sum(_post(store, receiver, time, due, found, now) for receiver in to)


def _look(store: Store, dags: Dags, runs: Sequence[Run], now: datetime, one: Watched) -> _Pipeline:
    """What there is to say of a pipeline. One that cannot be read must not hide the others."""
    spec = one.spec
    asked = list(waits.questions(spec, runs))
    try:
        recent = recent_runs(store, spec.name, now)
        days = list(waits.refused_days(store, spec, now))
        nights = list(waits.missing_nights(store, one, dags, runs, now))
    except (RatchetError, OSError, ValueError) as error:
        if isinstance(error, Unavailable) and not isinstance(error, OtherRelease):
            raise  # the next scan tries again
        unread = f"{spec.name}: cannot be read: {in_one_line(str(error))}"
        return _Pipeline(name=spec.name, to=spec.alerts.to, runs=(), waits=(asked, [unread], []), is_read=False)
    return _Pipeline(name=spec.name, to=spec.alerts.to, runs=recent, waits=(asked, days, nights))


def _post(
    store: Store, receiver: str, time: DigestTime, due: DigestDay, found: Sequence[_Pipeline], now: datetime
) -> bool:
    before, told = _last(store, receiver, time, due)
    team = [one for one in found if receiver in one.to]
    ran = [
        what_ran(
            store,
            one.name,
            one.runs,
            since=before if one.name in told.runs or not told.runs else now - MEMORY,  # the last could not read it
            told=told.runs.get(one.name, {}),
        )
        for one in team
    ]
    names = {one.name for one in team}
    lost = [text for name, to, text in waits.lost_alerts(store, before) if name in names or to == receiver]
    made = Digest(
        since=before.astimezone(ZoneInfo(time.timezone)),
        pipelines=len(team),
        ran=[one for one in ran if one is not None],
        waits=[*(line for kind in zip(*(one.waits for one in team), strict=True) for line in chain(*kind)), *lost],
        nights=f"{airflow_url()}/ratchet/nights",
    )
    start = utc()
    letter = Letter(
        event=outbox_paths.digest(installation(), receiver, due.day),
        receiver=receiver,
        pipeline=_OCCASION,
        occasion=_OCCASION,
        title=made.title,
        body=made.body,
        kind="info" if made.is_well else "warning",
        made=start,
        due=start + TAKEN,
    )
    known = Told(runs={one.name: {run.run_id: state for run, state in one.runs} for one in team if one.is_read})
    return post_message(letter, known.model_dump_json().encode(), AlertHistory())


def _last(store: Store, receiver: str, time: DigestTime, due: DigestDay) -> tuple[datetime, Told]:
    """When the last digest was due, and what it knew. Without one in the last days: a day before, and nothing."""
    for back in range(1, MEMORY.days + 1):
        day = due.day - timedelta(days=back)
        with suppress(FileNotFoundError, CorruptArtifact, OtherRelease):
            told = read_document(store, outbox_paths.digest(installation(), receiver, day), Told)
            return time.of(day).until, told
    return due.since, Told()
