"""A run and an upgrade: it goes on with the code and the image of its plan, and is planned again where it cannot.

A change here violates the promise of the project when an upgrade ends a run, or changes its code without a record.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError, OtherCode, Unavailable
from ratchet.contracts.fingerprint import digest_of
from ratchet.contracts.plan_changes import Upgrade
from ratchet.contracts.request import Outcome, RunPlan
from ratchet.contracts.stages import Stage
from ratchet.runners import following
from ratchet.runners.choice import choose_image
from ratchet.runners.docker import DockerRunner
from ratchet.runners.engine import EngineSilent
from ratchet.runners.following import retry_unavailable
from ratchet.runners.runner import Runner
from ratchet.runs.code_of_plan import code_of, installed_code, is_installed
from ratchet.runs.events import Event
from ratchet.runs.history import plan_of
from ratchet.runs.outcomes import outcome_of_stage
from ratchet.runs.pins import pins_here
from ratchet.runs.work import OnEvent, Pause, Waited, Work, settle
from ratchet.runtime.release import stage_libraries
from ratchet.store.base import Store
from ratchet.store.documents import replace_document

_CLEARED = "the task was cleared after a failure"
_REFUSED = "the image of the plan has other code than the plan"


def settle_here(
    store: Store,
    plan: RunPlan,
    stage: Stage,
    attempt: str,
    runner: Runner,
    *,
    on_event: OnEvent,
    pause: Pause = time.sleep,
    waited: Waited = lambda: 0.0,
    cleared: Callable[[], bool] = lambda: False,
) -> Outcome | Work:
    """As `settle`, for this runner: what has to be computed fits the code that computes it.

    cleared: whether a person asked for another try. Unless the stage has a result, that means one with what is
    installed now. Raises Unavailable where the image of the plan is gone and none is installed.
    """
    before = outcome_of_stage(store, plan.spec.name, plan.run_id, stage)
    refused = before is not None and before.state == "failed" and before.other_code
    # Without an outcome, its last try was killed before it could record one.
    if refused or ((before is None or before.state == "failed") and cleared()):
        because = _REFUSED if refused else _CLEARED
        plan = _plan_again(store, plan, stage, runner, because=because, on_event=on_event)
    because = ""
    try:
        settled = settle(store, plan, stage, attempt, on_event=on_event, pause=pause, waited=waited)
        if isinstance(settled, Work):
            because = _why_not(store, settled.plan, stage, runner)
    except OtherCode as error:
        because = error.cause
    if because:
        plan = _plan_again(store, plan, stage, runner, because=because, on_event=on_event)
        settled = settle(store, plan, stage, attempt, on_event=on_event, pause=pause, waited=waited)
    return settled


def _why_not(store: Store, plan: RunPlan, stage: Stage, runner: Runner) -> str:
    """Why the plan's code cannot compute a stage here; empty if it can."""
    image = plan.pins.image
    if image == "process":
        ours = is_installed(plan, stage) and plan.pins.libraries == stage_libraries()
        return "" if ours else "the code that is installed here is another one"
    if not isinstance(runner, DockerRunner):
        return ""
    if not retry_unavailable(lambda: runner.has_image(image), following.PATIENCE_S, of=EngineSilent):
        return f"the image {_short(image)} of the plan is gone"
    if not plan.code and _installed_image(plan, runner) != image:
        return "its plan, of a release before, does not name its code"
    code_of(store, plan, stage)
    return ""


def _plan_again(
    store: Store, plan: RunPlan, stage: Stage, runner: Runner, *, because: str, on_event: OnEvent
) -> RunPlan:
    """The plan with the code and the image that are installed here, recorded; as it is if it has these already."""
    key = paths.plan(plan.spec.name, plan.run_id)
    entry = store.head(key)
    plan = plan_of(store, plan.spec.name, plan.run_id) or plan
    image = _installed_image(plan, runner)
    pins, code = pins_here(plan.pins.commit, image), installed_code(store)
    if (pins.image, pins.libraries, code) == (plan.pins.image, plan.pins.libraries, plan.code):
        return plan
    planned = plan.model_copy(update={"pins": pins, "code": code})
    change = Upgrade(at=datetime.now(UTC), stage=stage, because=because, before=_release(plan), after=_release(planned))
    planned = planned.model_copy(update={"upgrades": (*plan.upgrades, change)})
    if entry is not None and not replace_document(store, key, planned, expected=entry.etag):
        return plan_of(store, plan.spec.name, plan.run_id) or planned
    on_event(Event(name="replanned", level="warning", message=f"upgrade: {change.line}"))
    return planned


def _installed_image(plan: RunPlan, runner: Runner) -> str:
    """The image that a new run would take here, or `process`. Raises Unavailable where there is none."""
    if plan.pins.image == "process" or not isinstance(runner, DockerRunner):
        return plan.pins.image
    try:
        image, _ = choose_image(runner, gpu=plan.spec.resources["train"].gpus > 0)
    except ConfigurationError as error:
        raise Unavailable(f"the image of the run's plan is gone, and {error.cause}", remedy=error.remedy) from error
    return image or "process"


def _release(plan: RunPlan) -> str:
    code = f"code {digest_of(plan.code)[:12]}" if plan.code else "code of a release before"
    return code if plan.pins.image == "process" else f"{code} in the image {_short(plan.pins.image)}"


def _short(image: str) -> str:
    return image.removeprefix("sha256:")[:12]
