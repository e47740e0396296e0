"""What waits for a person at a pipeline, a line each: questions, refused days, missing nights, lost alerts."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from ratchet.contracts import dates, outbox_paths
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.pages.words import count
from ratchet.runs.day_records import day_states
from ratchet.runs.digest_runs import in_one_line
from ratchet.store.base import Store
from ratchet_airflow.run_id import installation
from ratchet_airflow.watch.airflow_runs import AirflowDag, Run
from ratchet_airflow.watch.missing_nights import missing_night
from ratchet_airflow.watch.watched import Watched


def questions(spec: PipelineSpec, runs: Sequence[Run]) -> Iterator[str]:
    """The runs that ask whether their candidate goes into production."""
    for run in runs:
        if run.dag_id == spec.name and run.question:
            date = run.partition or run.run_id
            yield f"{spec.name} {date}: a better candidate waits for approval; approve or reject at {run.question}"


def refused_days(store: Store, spec: PipelineSpec, now: datetime) -> Iterator[str]:
    """The days which the next window would have, that their own run refused and nobody has decided about."""
    states = day_states(store, spec.name, dates.window(now.date(), spec.source.window_days + 1))
    let_in = {(one.day, one.source) for one in states.admitted}
    for one in states.refused:
        if not one.by and (one.day, one.source) not in let_in:
            yield (
                f"{spec.name} {one.day}: refused: {in_one_line(one.reason)}; deliver it again, or "
                f'ratchet data accept (or refuse) {spec.name} {one.day} --by NAME --because "..."'
            )


def missing_nights(
    store: Store, one: Watched, dags: Mapping[str, AirflowDag], runs: Sequence[Run], now: datetime
) -> Iterator[str]:
    """The newest due night, if it has not started."""
    missing = missing_night(store, one, dags, runs, now)
    if missing is not None:
        reason = missing.reason
        yield f"{one.spec.name} {missing.day}: not started: {in_one_line(reason.cause)}; {in_one_line(reason.remedy)}"


def lost_alerts(store: Store, since: datetime) -> Iterator[tuple[str, str, str]]:
    """The pipelines and receivers with alerts that were given up since, each with its line."""
    start = since.timestamp() * 1e9
    there = store.list(outbox_paths.undelivered(installation()))
    found = Counter(outbox_paths.given_up_of(entry.key) for entry in there if entry.modified_ns >= start)
    for (pipeline, receiver), number in sorted(found.items()):
        lost = f"{count(number, 'alert')} never reached {receiver}"
        yield pipeline, receiver, f"{pipeline}: {lost} (NOT DELIVERED in the log of alerts); check the address"
