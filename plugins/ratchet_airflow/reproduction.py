"""`ratchet reproduce MODEL@VERSION` as a DAG with a form. It moves nothing, so all who may trigger it may run it."""

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, BaseOperator, Param

from ratchet.contracts.environment import environment
from ratchet.contracts.errors import RatchetError
from ratchet.contracts.reproduction import TOLERANCE
from ratchet_airflow import settings
from ratchet_airflow.outages import USUAL, waits_for_outages
from ratchet_airflow.pools import BACKFILL
from ratchet_airflow.production import Verb, form
from ratchet_airflow.progress import fields_of, level_of, line_of
from ratchet_airflow.retries import LOST_DELAY, UnavailableRetryPolicy

if TYPE_CHECKING:
    from ratchet.contracts.request import Outcome
    from ratchet.contracts.stages import Stage
    from ratchet.contracts.version_record import VersionRecord
    from ratchet.runs.events import Event
    from ratchet.runs.rebuild import Rebuild

DAG_ID = "ratchet_reproduce"
_TASK = "reproduce"
_FORM = Verb(name=_TASK, version="required", says="")
_ENOUGH = frozenset({"bit-equal", "within-tolerance"})
_PAGE = """\
Builds a registered version again from its record alone, with the runner that this Airflow's stages have, and compares
weights and held-out scores. Nothing is registered or promoted. It succeeds if the rebuild has the same bits, or is
within the tolerance; it fails if it has diverged, or if an ingredient is gone. The log says which, and what differs.
What does not answer is waited for, and then the rebuild begins again. There is no alert: look here at how it ended.
"""


class ReproduceOperator(BaseOperator):
    """Rebuilds a version. Its value is what it says, as text. After an outage it begins again, as another run."""

    ui_color = "#f3e5f5"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.handling, self.on_outage, self.has_waited = USUAL, None, False
        self._rebuild: Rebuild | None = None

    @waits_for_outages
    def execute(self, context: Mapping[str, Any]) -> str:
        """Raises RatchetError where the rebuild is another model, or cannot be made."""
        from ratchet.runners.choice import choose_image, choose_runner
        from ratchet.runs.reproduction import in_words, reproduce
        from ratchet.store.opening import open_store
        from ratchet.store.version_records import read_record

        asked, store = context["params"], open_store(settings.read().store)
        record = read_record(store, str(asked["model"]), str(asked["version"]))
        runner, how = choose_runner(environment().runner, patient=True)
        image, named = choose_image(runner, gpu=record.spec.resources["train"].gpus > 0)
        self.log.info("%s version %s, data of %s; %s%s", record.model, record.version, record.data_date, how, named)
        said = reproduce(
            store,
            record,
            runner,
            image=image,
            started_by=getattr(context["dag_run"], "triggering_user_name", None) or "",
            on_begin=self._begin,
            on_stage=self._log_stage,
            on_event=self._log_event,
            on_version=self._log_version,
            tolerance=float(asked["tolerance"]),
            chain=bool(asked.get("chain", False)),
        )
        lines = in_words(said)
        for line in lines:
            self.log.info("%s", line)
        if said.likeness not in _ENOUGH:
            raise RatchetError("\n".join(lines), remedy="docs/reproduce.md says what each line means")
        return "\n".join(lines)

    def on_kill(self) -> None:
        """Give the stage that runs its grace, as with a stage of a night."""
        if self._rebuild is not None:
            self._rebuild.interrupt()

    def _begin(self, rebuild: "Rebuild") -> None:
        self._rebuild = rebuild

    def _log_version(self, record: "VersionRecord") -> None:
        self.log.info("version %s, data of %s", record.version, record.data_date)

    def _log_stage(self, stage: "Stage", outcome: "Outcome | None") -> None:
        self.log.info("%s %s", stage, "begins" if outcome is None else f"ended after {outcome.seconds:.1f} s")

    def _log_event(self, stage: "Stage", event: "Event") -> None:
        self.log.log(level_of(event), line_of(event), stage=stage, **fields_of(event))


def build() -> DAG:
    """The DAG. It is active from the start, and its stages come after those of nights, as those of a backfill."""
    dag = DAG(
        dag_id=DAG_ID,
        description="Builds a registered version again, and says how like it is",
        doc_md=_PAGE,
        schedule=None,
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=False,
        dagrun_timeout=timedelta(days=7),
        tags=["ratchet-upkeep"],  # not the tag of pipelines, whose runs the watch scans
        params={
            **form(_FORM),
            "tolerance": Param(
                TOLERANCE,
                type="number",
                minimum=0,
                maximum=1,
                title="Tolerance",
                description_md="The largest relative difference of weights, scores and metric that is no failure.",
            ),
            "chain": Param(
                default=False,
                type="boolean",
                title="Whole chain",
                description_md="Build the versions that it began with too, not only those whose weights are gone.",
            ),
        },
    )
    handling: dict[str, Any] = {
        "retries": USUAL.retries,
        "retry_delay": LOST_DELAY,
        "retry_policy": UnavailableRetryPolicy(USUAL.retry_delay),
        "pool": BACKFILL,
        "priority_weight": 1,
    }
    dag.add_task(ReproduceOperator(task_id=_TASK, **handling))
    return dag
