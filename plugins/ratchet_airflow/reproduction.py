"""`ratchet reproduce MODEL@VERSION` as a DAG with a form. It moves nothing, so all who may trigger it may run it."""

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Param

from ratchet.contracts.environment import environment
from ratchet.contracts.errors import RatchetError
from ratchet.contracts.reproduction import TOLERANCE
from ratchet_airflow import settings
from ratchet_airflow.deferring import LeavesContainer, left_before
from ratchet_airflow.leaving import take_back_left
from ratchet_airflow.outages import USUAL, OnOutage, goes_on, waits_for_outages
from ratchet_airflow.pools import BACKFILL
from ratchet_airflow.production import Verb, form
from ratchet_airflow.progress import fields_of, level_of, line_of
from ratchet_airflow.retries import LOST_DELAY, UnavailableRetryPolicy
from ratchet_airflow.run_id import installation
from ratchet_airflow.task_of import REPRODUCE_DAG, REPRODUCE_TASK

if TYPE_CHECKING:
    from ratchet.contracts.request import Outcome
    from ratchet.contracts.stages import Stage
    from ratchet.contracts.version_record import VersionRecord
    from ratchet.runners.runner import Runner
    from ratchet.runs.attempt import Attempt
    from ratchet.runs.events import Event
    from ratchet.runs.rebuild import Rebuild
    from ratchet.store.base import Store

DAG_ID = REPRODUCE_DAG
_NAME = "ratchet_rebuild"
"""The key of the rebuild's name, after max_tries, which a clear raises."""
_FORM = Verb(name=REPRODUCE_TASK, version="required", says="")
_ENOUGH = frozenset({"bit-equal", "within-tolerance"})
_PAGE = """\
Builds a registered version again from its record alone, with the runner that this Airflow's stages have, and compares
weights and held-out scores. Nothing is registered or promoted. It succeeds if the rebuild has the same bits, or is
within the tolerance; it fails if it has diverged, or if an ingredient is gone. The log says which, and what differs.
After an outage, and after a worker that was stopped, it goes on where it was; a task that you clear begins from the
first stage. There is no alert: look here at how it ended.
"""


class ReproduceOperator(LeavesContainer):
    """Rebuilds a version. Its value is what it says, as text.

    The rebuild's name is in Airflow's task state store, so each process of the task goes on where the last one was:
    after an outage, after a worker that died, and after a container was left (RATCHET_DEFER_SECONDS). A clear drops the
    name: then another rebuild begins, after the end of what the earlier one still runs.
    """

    ui_color = "#f3e5f5"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.handling, self.has_waited = USUAL, False
        self.on_outage: OnOutage | None = None
        self._rebuild: Rebuild | None = None

    @waits_for_outages
    def execute(self, context: Mapping[str, Any]) -> str:
        """Raises RatchetError where the rebuild is another model, or cannot be made; or TaskDeferred."""
        return self._bring_to_end(context, None)

    @waits_for_outages
    def go_on(self, context: Mapping[str, Any], event: Mapping[str, Any] | None = None, **left: Any) -> str:
        """Go on where a container was left, as `execute` does. Airflow calls this when the trigger has fired."""
        begun = left_before(event, left)
        self.log.info("going on after the triggerer: %s", begun["why"])
        return self._bring_to_end(context, begun)

    def _bring_to_end(self, context: Mapping[str, Any], left: Mapping[str, Any] | None) -> str:
        from ratchet.runners.choice import choose_image, choose_runner
        from ratchet.runners.following import LeftRunning
        from ratchet.runs.reproduction import in_words, reproduce
        from ratchet.runs.turn import Turn
        from ratchet.store.opening import open_store
        from ratchet.store.version_records import read_record
        from ratchet_airflow.hosts import larger_hosts_wanted

        asked, store, states = context["params"], open_store(settings.read().store), context.get("task_state_store")
        record = read_record(store, str(asked["model"]), str(asked["version"]))
        runner, how = choose_runner(environment().runner, patient=True)
        image, named = choose_image(runner, gpu=record.spec.resources["train"].gpus > 0)
        self.log.info("%s version %s, data of %s; %s%s", record.model, record.version, record.data_date, how, named)
        name = self._name(context, store, runner)

        def begin(rebuild: "Rebuild") -> None:
            self._rebuild = rebuild
            if self.killed:
                rebuild.interrupt()

        turn = Turn(
            name=name,
            origin=str(context.get("run_id") or ""),
            installation=installation(),
            leave=lambda again: self.when_to_leave(runner, again=again),
            left=left,
            on_attempt=self._begin_attempt,
            goes_on=lambda error: self._comes_again(context, error),
        )
        try:
            with larger_hosts_wanted(store, runner):
                said = reproduce(
                    store,
                    record,
                    runner,
                    image=image,
                    started_by=getattr(context["dag_run"], "triggering_user_name", None) or "",
                    on_begin=begin,
                    on_stage=self._log_stage,
                    on_event=self._log_event,
                    on_version=self._log_version,
                    tolerance=float(asked["tolerance"]),
                    chain=bool(asked.get("chain", False)),
                    turn=turn,
                )
        except LeftRunning:
            self.leave_container(self._attempt.work, runner, states)
        lines = in_words(said)
        for line in lines:
            self.log.info("%s", line)
        if said.likeness not in _ENOUGH:
            raise RatchetError("\n".join(lines), remedy="docs/reproduce.md says what each line means")
        return "\n".join(lines)

    def _comes_again(self, context: Mapping[str, Any], error: BaseException) -> bool:
        """Whether a later turn may come after an error: also on a larger host, for which this one may wait."""
        from ratchet.runners.devices import TooFewDevices

        return not isinstance(error, RatchetError) or isinstance(error, TooFewDevices) or goes_on(self, context, error)

    def _name(self, context: Mapping[str, Any], store: "Store", runner: "Runner") -> str:
        """The name of the rebuild, kept before its first stage.

        A clear raises max_tries, and nothing else does. What an earlier rebuild still runs is ended first: the name of
        the next one is kept after that, so no outage and no kill in between leaves its container.
        """
        from ratchet.runs.turn import end_rebuild, new_name

        states, tries = context.get("task_state_store"), context["ti"].max_tries
        kept = states.get(_NAME) if states is not None else None
        cleared = kept is not None and kept[0] != tries
        take_back_left(store, installation(), runner, states, self.log_event, ends=cleared)
        if kept is not None and not cleared:
            self.log.info("going on with the rebuild %s", kept[1])
            return str(kept[1])
        if kept is not None:
            for stage in end_rebuild(store, runner, str(kept[1])):
                self.log.info("the container of %s of the rebuild %s is ended first", stage, kept[1])
        name = new_name()
        if states is not None:
            states.set(_NAME, [tries, name])
        return name

    def on_kill(self) -> None:
        """Give the stage that runs its grace, as with a stage of a night."""
        self.killed = True
        if self._rebuild is not None:
            self._rebuild.interrupt()

    def _begin_attempt(self, attempt: "Attempt") -> None:
        self._attempt = attempt

    def _log_version(self, record: "VersionRecord") -> None:
        self.log.info("version %s, data of %s", record.version, record.data_date)

    def _log_stage(self, stage: "Stage", outcome: "Outcome | None") -> None:
        if outcome is None:
            self.log.info("%s begins", stage)
        elif outcome.cached:
            self.log.info("%s: %s", stage, outcome.because)
        else:
            self.log.info("%s ended after %.1f s", stage, outcome.seconds)

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
    dag.add_task(ReproduceOperator(task_id=REPRODUCE_TASK, **handling))
    return dag
