"""What a stage of a run has to compute, or its outcome where there is nothing to compute."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

from ratchet.contracts import paths, summaries
from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.judgements import TOO_SLOW
from ratchet.contracts.labels import Label
from ratchet.contracts.request import PROCESS, Outcome, RunPlan, StageRequest
from ratchet.contracts.result import PublishedResult
from ratchet.contracts.stages import Stage
from ratchet.production.request_parts import holds_still
from ratchet.runners.job import Job
from ratchet.runs.compared import compared, distrust, is_doubted
from ratchet.runs.events import Event
from ratchet.runs.jobs import CREDENTIALS, job_for, store_label
from ratchet.runs.outcomes import outcome_of, outcomes, why_built
from ratchet.runs.repetition import count_attempt
from ratchet.runs.replanning import current_plan
from ratchet.runs.requests import Outcomes, compose, shipped, why_skipped
from ratchet.store.base import Store
from ratchet.store.publishing import discard_damaged, find_result, set_aside
from ratchet.store.renewal import renew

OnEvent = Callable[[Event], None]
Pause = Callable[[float], None]
Waited = Callable[[], float]
_OF_DAYS: tuple[Stage, ...] = ("ingest", "validate", "features")
"""The stages that take days which earlier runs made."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """A stage that has to be computed. because: what differs from its newest result."""

    store: Store
    plan: RunPlan
    request: StageRequest
    because: str

    @property
    def attempt(self) -> str:
        """The name of the attempt that the request is for, and of its container. No other attempt has it."""
        return self.request.attempt

    @property
    def lease(self) -> str:
        """The key of the lease that an attempt needs to compute this."""
        return paths.lease(self.plan.spec.name, self.request.stage, self.request.fingerprint)

    @property
    def timeout_s(self) -> int:
        """Seconds that the stage may take."""
        return self.plan.spec.settings_of(self.request.stage).timeout

    @property
    def grace_s(self) -> int:
        """Seconds that the stage has between the notice to stop and the kill."""
        return self.plan.spec.settings_of(self.request.stage).grace

    @cached_property
    def job(self) -> Job:
        """What a runner runs. Raises ConfigurationError where a setting or a credential for it is wrong."""
        return self._job()

    def keys(self) -> bytes | None:
        """The keys of S3 as the stage would have them if it began now; None for a stage without any."""
        return self._job().secrets.get(CREDENTIALS) if CREDENTIALS in self.job.secrets else None

    def _job(self) -> Job:
        image = self.plan.pins.image
        return job_for(self.request, self.store, None if image == PROCESS else image)

    def labels(self, attempt: str | None = None) -> dict[str, str]:
        """The labels of the jobs that compute this; with `attempt`, of that attempt's."""
        labels = {
            Label.STORE: store_label(self.request.store),
            Label.PIPELINE: self.plan.spec.name,
            Label.FINGERPRINT: self.request.fingerprint,
        }
        return labels if attempt is None else {**labels, Label.ATTEMPT: attempt}

    def result(self) -> PublishedResult | None:
        """What is published under the fingerprint, by whichever attempt."""
        return find_result(self.store, self.request.prefix)


def settle(
    store: Store,
    plan: RunPlan,
    stage: Stage,
    attempt: str,
    *,
    on_event: OnEvent,
    pause: Pause = time.sleep,
    waited: Waited = lambda: 0.0,
) -> Outcome | Work:
    """The outcome of a stage that is skipped or was published before; for any other, what `attempt` has to compute.

    Before ingest, a source that is late is waited for, and one that has changed is planned again. A published result
    whose bytes are damaged is moved aside, and computed again; after a stage of this date read damaged bytes, each byte
    is compared. on_event: gets a warning of each. pause: waits so many seconds for a late source; what it raises is
    raised. waited: for how many seconds earlier calls have waited. Raises ConfigurationError if a stage before it has
    no result in this run.
    """
    so_far = outcomes(store, plan.spec.name, plan.run_id)
    ended = [*so_far.values()]
    earlier = so_far.pop(stage, None)
    if stage == "ingest":
        failed = earlier is not None and earlier.state == "failed"
        plan = current_plan(store, plan, failed=failed, on_event=on_event, pause=pause, waited=waited)
    if reason := why_skipped(plan.spec, stage, so_far):
        return Outcome(stage=stage, state="skipped", because=reason)
    if stage == "evaluate" and (train := so_far.get("train")) is not None and train.result is not None:
        count_attempt(store, plan, summaries.trained(train.result))
    _renew_inputs(store, stage, so_far)
    request = compose(store, plan, stage, so_far, attempt)
    doubted = stage in _OF_DAYS and is_doubted(store, plan, ended)
    of_before = dict if doubted else partial(compared, store, plan, stage)
    if damaged := discard_damaged(store, request.prefix, compared=of_before):
        message = f"{request.prefix}: {', '.join(damaged)} damaged or gone, so it is built again"
        on_event(Event(name="warning", level="warning", message=message))
    found = find_result(store, request.prefix)
    if found is not None and (why := why_again(store, request, found, so_far)):
        set_aside(store, request.prefix)
        on_event(Event(name="attempt", level="info", message=why))
        found = None
    if found is not None and renew(store, found):
        return outcome_of(found, cached=True, because="its result is stored")
    if doubted:
        distrust(store, request.prefix)
    return Work(store=store, plan=plan, request=request, because=why_built(store, request))


def _renew_inputs(store: Store, stage: Stage, so_far: Outcomes) -> None:
    """In a run of long ago: keep what the stage reads from a collection. Raises CorruptArtifact if one is gone."""
    for one in so_far.values():
        if one.manifest is None or one.result is None:
            continue
        if not renew(store, PublishedResult(key=one.manifest, result=one.result, reused=True)):
            raise CorruptArtifact(
                f"{store.uri}/{one.manifest} is gone or damaged, and {stage} reads it",
                remedy=f"run {one.stage} again: clear it in Airflow, or start a new run of the date",
            )


def why_again(store: Store, request: StageRequest, found: PublishedResult, so_far: Outcomes) -> str:
    """Why a published result does not hold still and is made again, in words; empty where it does.

    That of register speaks of production, which moves without it; others may speak of a moment of a machine.
    """
    if request.stage == "evaluate":
        passing = summaries.judgement(found.result).passing
        return f"the last time {passing}; it is evaluated again" if passing else ""
    if request.stage == "refit":
        made = summaries.trained(found.result).refit
        slow = made is not None and (made.refused or "").startswith(TOO_SLOW)
        return "the last time the refit took too long to answer; it is made again" if slow else ""
    if request.stage != "register" or holds_still(store, request, shipped(request.spec, so_far), found.result):
        return ""
    return f"production of {request.spec.model_name} is not what register left; it is decided again"
