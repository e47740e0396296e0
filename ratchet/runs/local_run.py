"""All stages of a run, one after the other, on this machine."""

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from ratchet.contracts import summaries
from ratchet.contracts.errors import OtherCode, OutOfMemory, RatchetError, Unavailable
from ratchet.contracts.masking import mask_error
from ratchet.contracts.registration import Registration
from ratchet.contracts.request import Outcome, RunPlan
from ratchet.contracts.result import StageResult
from ratchet.contracts.stages import TRAININGS, Stage
from ratchet.contracts.summaries import Judgement
from ratchet.production.reconcile import Reconciled, reconcile
from ratchet.runners.runner import Runner
from ratchet.runs.attempt import Attempt
from ratchet.runs.events import Event
from ratchet.runs.history import plan_of
from ratchet.runs.leftovers import read_leftovers
from ratchet.runs.outcomes import outcomes
from ratchet.runs.replanning import source_changed
from ratchet.runs.stage_record import StageRecord
from ratchet.runs.upgrading import settle_here
from ratchet.runs.work import OnEvent, Work
from ratchet.store.address import address
from ratchet.store.base import Store
from ratchet.store.opening import open_store

_MOST_INGESTS = 5
"""Tries of ingest in one run, if its source changes again and again."""
OnStage = Callable[[Stage, Outcome | None], None]
OnStageEvent = Callable[[Stage, Event], None]


@dataclass(frozen=True, kw_only=True)
class LocalRun:
    """How a run ended. error: what stopped it, if anything did; report: the page's URI, if there is one.

    production: what ledger and registry say of production at the end, whatever results were found in the cache.
    """

    plan: RunPlan
    outcomes: dict[Stage, Outcome]
    error: RatchetError | None
    report: str | None
    production: Reconciled = field(default_factory=Reconciled)

    @property
    def in_production(self) -> str:
        """Where the registered version is now, as the ledger says; empty if the run registered none."""
        made, trained = self.registration, self._result("refit") or self._result("train")
        if made is None or trained is None:
            return ""
        live = self.production.live
        is_live = live is not None and live.model_digest == summaries.trained(trained).digest
        if live is not None and is_live and (made.promoted or live.version == made.version):
            return "in production"
        if not made.promoted:
            return f"not in production ({made.withheld})"
        now = f"record {live.number} put version {live.version} there: {live.reason}" if live else "nothing is"
        return f"not in production any more ({now})"

    @property
    def judgement(self) -> Judgement | None:
        """The verdict, if there is one."""
        result = self._result("evaluate")
        return summaries.judgement(result) if result else None

    @property
    def registration(self) -> Registration | None:
        """The registered version, if there is one."""
        result = self._result("register")
        return summaries.registration(result) if result else None

    @property
    def refit_refused(self) -> str:
        """Why the refit may not be shipped; empty without a refit, or if it may."""
        result = self._result("refit")
        made = summaries.trained(result).refit if result else None
        return made.refused if made else ""

    def _result(self, stage: Stage) -> StageResult | None:
        outcome = self.outcomes.get(stage)
        return outcome.result if outcome else None


def run_stages(plan: RunPlan, runner: Runner, *, on_stage: OnStage, on_event: OnStageEvent) -> LocalRun:
    """Run every stage in order; after a failure only the report. A failure is `LocalRun.error`, not an exception.

    on_stage is called with None when a stage begins, and with its outcome when it ends.
    """
    error: RatchetError | None = None
    for stage in plan.spec.sequence:
        if error is not None and stage != "report":
            continue
        on_stage(stage, None)
        began = time.monotonic()
        try:
            outcome = _run_stage(plan, stage, runner, partial(on_event, stage))
        except RatchetError as raised:
            error = error or raised
            mask_error(raised)
            seconds = round(time.monotonic() - began, 3)
            outcome = Outcome(stage=stage, state="failed", because=raised.cause, seconds=seconds)
        on_stage(stage, outcome)
    store = open_store(plan.store)
    ended = outcomes(store, plan.spec.name, plan.run_id)
    return LocalRun(
        plan=_stored(plan),
        outcomes=ended,
        error=error,
        report=page_of(store, ended),
        production=reconcile(store, plan.tracking_uri, plan.spec.model_name),
    )


def page_of(store: Store, ended: dict[Stage, Outcome]) -> str | None:
    """Where the report of a run is: a path, or a URI."""
    report = ended.get("report")
    if report is None or report.result is None:
        return None
    return address(store, report.result.outputs["page.html"].key)


def attempt_stage(
    plan: RunPlan, stage: Stage, runner: Runner, *, name: str, on_event: OnEvent, fresh: bool = False
) -> Outcome:
    """One attempt at a stage, recorded: it is skipped, found in the cache, or computed.

    name, fresh: as in Attempt. Raises a RatchetError whose class, code, cause and remedy say why the stage failed.
    """
    store = open_store(plan.store)
    plan = _stored(plan)
    with StageRecord(store, plan, stage) as record:
        settled = settle_here(store, plan, stage, name, runner, on_event=on_event)
        if isinstance(settled, Work):
            record.attempt = Attempt(settled, runner, on_event=on_event, fresh=fresh, keep=True)
            settled = record.attempt.compute()
        left = read_leftovers(store, plan, settled, runner, name=name, on_event=on_event)
        record.last_lines, record.log = left
        return record.end(settled)


def _run_stage(plan: RunPlan, stage: Stage, runner: Runner, on_event: OnEvent) -> Outcome:
    """Run a stage; a training that runs out of memory again and again, with half the micro-batch each time.

    An ingest whose source changed after it was planned is tried again a few times, with the source as it is then; a
    stage whose code changed meanwhile once, with the code that is installed then.
    """
    tries = 0
    while True:
        tries += 1
        try:
            return attempt_stage(plan, stage, runner, name=uuid.uuid4().hex[:16], on_event=on_event)
        except OutOfMemory as error:
            if stage not in TRAININGS:
                raise
            on_event(Event(name="warning", level="warning", message=str(error)))
        except OtherCode as error:
            if tries > 1:
                raise
            on_event(Event(name="warning", level="warning", message=f"{error.cause}; {stage} is tried again"))
        except Unavailable as error:
            if stage != "ingest" or tries >= _MOST_INGESTS or not source_changed(_stored(plan)):
                raise
            on_event(Event(name="warning", level="warning", message=f"{error.cause}; ingest is tried again"))


def _stored(plan: RunPlan) -> RunPlan:
    """The plan as it is in the store: its source may have been planned again since."""
    return plan_of(open_store(plan.store), plan.spec.name, plan.run_id) or plan
