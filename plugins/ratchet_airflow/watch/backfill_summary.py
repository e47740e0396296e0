"""A backfill in one message: a line for each date, with its verdict or the cause of its failure."""

from collections import Counter

from ratchet.contracts.summaries import judgement
from ratchet.runs.outcomes import outcomes
from ratchet.store.base import Store
from ratchet_airflow.alerts.alert import Alert
from ratchet_airflow.alerts.deduplication import FAILURE, Claims, event
from ratchet_airflow.alerts.message import SILENT, describe
from ratchet_airflow.watch.airflow_runs import Backfill, Run
from ratchet_airflow.alerts.situation import Situation
from ratchet_airflow.run_id import store_run_id

_STAGE = "backfill"
_MOST_ROWS = 100


def summarise(backfill: Backfill, store: Store, claims: Claims) -> tuple[Situation, str, Alert]:
    """Where it belongs, its identity, and the alert. A backfill of which runs were run again has another summary."""
    dates = [run.partition for run in backfill.runs if run.partition]
    where = Situation(
        pipeline=backfill.dag_id,
        run_id=f"backfill-{backfill.number}",
        stage=_STAGE,
        date=f"{dates[0]} to {dates[-1]}" if dates else "",
        link=backfill.link,
    )
    rows = [(run.partition or run.run_id, *_result(run, store, claims)) for run in backfill.runs]
    counts = Counter(verdict for _, verdict, _ in rows)
    details = [f"{date}  {verdict}{': ' if why else ''}{why}" for date, verdict, why in rows[:_MOST_ROWS]]
    if len(rows) > _MOST_ROWS:
        details.append(f"and {len(rows) - _MOST_ROWS} more")
    if backfill.left_out:
        details.append(f"{backfill.left_out} more were run before and left as they are")
    what = ", ".join(f"{number} {verdict}" for verdict, number in sorted(counts.items()))
    alert = describe(
        "backfill",
        where,
        cause=f"{len(rows)} {'date' if len(rows) == 1 else 'dates'}: {what}",
        remedy="mend what failed and give the same backfill again with --reprocess-behavior failed (in the UI: missing "
        "and errored runs): only the dates that failed are run"
        if counts["failed"]
        else "nothing",
        details=tuple(details),
    )
    name = event(where, _STAGE, *sorted((run.run_id, run.ended) for run in backfill.runs))
    return where, name, alert


def _result(run: Run, store: Store, claims: Claims) -> tuple[str, str]:
    """A verdict, or failed, and why."""
    found = outcomes(store, run.dag_id, store_run_id(run.run_id))
    if run.state != "failed":
        judged = found.get("evaluate")
        if judged is None or judged.result is None:
            return "done", ""
        said = judgement(judged.result)
        return said.verdict, f"{said.reason}, {said.metric} {100 * said.gain.value:+.2f} %"
    stage = next((task.task_id for task in run.tasks if task.state == "failed"), "run")
    told = claims.told(Situation(pipeline=run.dag_id, run_id=run.run_id, stage=stage), (FAILURE,))
    recorded = next((outcome.because for outcome in found.values() if outcome.state == "failed"), SILENT)
    cause = told[-1]["cause"] if told else recorded
    return "failed", f"{stage}: {cause.removeprefix(f'{stage}: ')}"
