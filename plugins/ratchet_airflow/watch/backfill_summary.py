"""The summary of a backfill: one line for each date, with the verdict or the cause of the failure."""

from collections import Counter

import pendulum

from ratchet.contracts.errors import RatchetError
from ratchet.contracts.request import Outcome
from ratchet.contracts.stages import Stage
from ratchet.contracts.summaries import judgement
from ratchet.runs.outcomes import outcomes
from ratchet.store.base import Store
from ratchet_airflow.alerts.alert import Alert
from ratchet_airflow.alerts.deduplication import FAILURE, AlertHistory, event_key
from ratchet_airflow.alerts.message import NO_CAUSE, make_alert
from ratchet_airflow.alerts.situation import Situation
from ratchet_airflow.plans import find_plan
from ratchet_airflow.run_id import store_run_id
from ratchet_airflow.shares import is_share
from ratchet_airflow.watch.airflow_runs import Backfill, Run

_STAGE = "backfill"
_MOST_ROWS = 100


def summarise(backfill: Backfill, store: Store, history: AlertHistory) -> tuple[Situation, str, Alert]:
    """Where it belongs, its key, and the alert. After a rerun of some dates the key is another one."""
    dates = [run.partition for run in backfill.runs if run.partition]
    where = Situation(
        pipeline=backfill.dag_id,
        run_id=f"backfill-{backfill.number}",
        stage=_STAGE,
        date=f"{dates[0]} to {dates[-1]}" if dates else "",
        link=backfill.link,
    )
    rows = [(run.partition or run.run_id, *_result(run, store, history)) for run in backfill.runs]
    counts = Counter(verdict for _, verdict, _ in rows)
    details = [f"{date}  {verdict}{': ' if why else ''}{why}" for date, verdict, why in rows[:_MOST_ROWS]]
    if len(rows) > _MOST_ROWS:
        details.append(f"and {len(rows) - _MOST_ROWS} more")
    if backfill.left_out:
        details.append(f"{backfill.left_out} more already had a run and were skipped")
    what = ", ".join(f"{number} {verdict}" for verdict, number in sorted(counts.items()))
    alert = make_alert(
        "backfill",
        where,
        cause=f"{len(rows)} {'date' if len(rows) == 1 else 'dates'}: {what}",
        remedy="fix the causes, then create the same backfill again with --reprocess-behavior failed (in the UI: "
        "missing and errored runs); it runs the failed dates only"
        if counts["failed"]
        else "nothing",
        details=tuple(details),
    )
    # As releases that read Airflow's database spelled the moments: else an upgrade repeats the summaries of a day.
    ends = sorted((run.run_id, run.ended and run.ended.astimezone(pendulum.UTC)) for run in backfill.runs)
    return where, event_key(where, _STAGE, *ends), alert


def _result(run: Run, store: Store, history: AlertHistory) -> tuple[str, str]:
    """The verdict or `failed`, and the reason."""
    found = _outcomes(run, store)
    if run.state != "failed":
        judged = found.get("evaluate")
        if judged is None or judged.result is None:
            return "done", ""
        said = judgement(judged.result)
        return said.verdict, f"{said.reason}, {said.metric} {100 * said.gain.value:+.2f} %"
    failed = (task.task_id for task in run.tasks if task.state == "failed" and not is_share(task.task_id))
    stage = next(failed, "run")
    alerts = history.alerts(Situation(pipeline=run.dag_id, run_id=run.run_id, stage=stage), (FAILURE,))
    recorded = next((outcome.because for outcome in found.values() if outcome.state == "failed"), NO_CAUSE)
    cause = alerts[-1]["cause"] if alerts else recorded
    return "failed", f"{stage}: {cause.removeprefix(f'{stage}: ')}"


def _outcomes(run: Run, store: Store) -> dict[Stage, Outcome]:
    """How the stages of a run ended."""
    if found := outcomes(store, run.dag_id, store_run_id(run.run_id)):
        return found
    try:  # a release before ids of installations may have planned it
        plan = find_plan(run.dag_id, run.run_id)
    except RatchetError:
        return {}
    return outcomes(store, run.dag_id, plan.run_id)
