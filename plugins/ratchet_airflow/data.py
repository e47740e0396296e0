"""`ratchet data` as a DAG with a form: shows the days of a pipeline's data, lets a refused one in, or keeps one out.

A change here violates the promise of the project when a day is let in or kept out by a run that nobody triggered.
"""

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

from airflow.sdk import DAG, BaseOperator, Param

from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.gate import NAME
from ratchet_airflow import settings
from ratchet_airflow.person import person
from ratchet_airflow.retries import of_a_form

DAG_ID = "ratchet_data"
_TASK = "data"
_PAGE = """\
Prints the days of a pipeline's data into the log: the state of each, its rows, and the versions that trained on them.
With a day, lets that day into later runs although its own run refused it: for the rows that were refused, and no
others. Later plans, validations, reports and ledger records name it, with your name and why. The run of the date itself
stays refused. Or keeps the day out of later runs, until a person lets it in.
"""
_LET_IN, _KEEP_OUT = "let it in", "keep it out"


class DataOperator(BaseOperator):
    """Decides about a day, if the form names one, and prints all days. Its value is what it says, as text."""

    ui_color = "#e8f5e9"

    def execute(self, context: Mapping[str, Any]) -> str:
        """Raises ConfigurationError for an unknown pipeline, a day that was not refused, and a form with half of it."""
        from ratchet.cli.data import said, table
        from ratchet.runs.data_days import data_days, refuse_day
        from ratchet.runs.day_records import admit
        from ratchet.store.opening import open_store

        asked, store = context["params"], open_store(settings.read().store)
        pipeline, because = str(asked["pipeline"]), str(asked.get("because") or "").strip()
        lines = []
        if day := asked.get("day"):
            if not because:
                raise ConfigurationError("because is empty", remedy="say why; plans, reports and the ledger keep it")
            decide = refuse_day if asked.get("decision") == _KEEP_OUT else admit
            by = person(context, "decide about a day")
            lines.append(said(decide(store, pipeline, date.fromisoformat(str(day)), by=by, because=because)))
        elif because:
            raise ConfigurationError("because is set, and day is not", remedy="name the day, or leave both")
        lines += table(data_days(store, pipeline))
        for line in lines:
            self.log.info("%s", line)
        return "\n".join(lines)


def build() -> DAG:
    """The DAG. It is active from the start."""
    dag = DAG(
        dag_id=DAG_ID,
        description="Shows the days of a pipeline's data, lets in one that was refused, or keeps one out",
        doc_md=_PAGE,
        schedule=None,
        catchup=False,
        is_paused_upon_creation=False,
        dagrun_timeout=timedelta(hours=1),
        params={
            "pipeline": Param(None, type="string", pattern=NAME, title="Pipeline"),
            "day": Param(
                None,
                type=["null", "string"],
                format="date",
                title="Day",
                description_md="A day to let in or to keep out. Empty: only show the days.",
            ),
            "decision": Param(
                _LET_IN,
                type="string",
                enum=[_LET_IN, _KEEP_OUT],
                title="Decision",
                description_md="With a day: let it in although it was refused, or keep it out of later runs.",
            ),
            "because": Param(
                None,
                type=["null", "string"],
                maxLength=2000,
                title="Because",
                description_md="With a day: why. Plans, reports and the ledger keep it, with your name.",
            ),
        },
    )
    dag.add_task(DataOperator(task_id=_TASK, execution_timeout=timedelta(minutes=15), **of_a_form()))
    return dag
