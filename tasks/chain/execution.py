"""One stage of a run: its request, the cache, the container, its outcome. Every orchestrator calls `execute`."""

import time
from collections.abc import Callable

from tasks.chain.events import Event, parse
from tasks.chain.jobs import job_for
from tasks.chain.requests import compose, why_skipped
from tasks.contracts import paths
from tasks.contracts.errors import (
    ConfigurationError,
    DataRejected,
    OutOfMemory,
    Preempted,
    RatchetError,
    Unavailable,
)
from tasks.contracts.exits import ExitCode, meaning
from tasks.contracts.fingerprint import differences
from tasks.contracts.operations import STAGES, Stage
from tasks.contracts.quantities import show_duration
from tasks.contracts.request import Outcome, RunPlan, StageRequest
from tasks.contracts.result import Published
from tasks.runners.runner import Ended, Runner, run_to_end
from tasks.runtime.publishing import discard_damaged, published
from tasks.runtime.store.base import Store
from tasks.runtime.store.opening import open_store

OnEvent = Callable[[Event], None]
_ERRORS: dict[ExitCode, type[RatchetError]] = {
    error.code: error for error in (ConfigurationError, DataRejected, Unavailable, Preempted, OutOfMemory)
}


def outcomes(store: Store, pipeline: str, run_id: str) -> dict[Stage, Outcome]:
    """How the stages of a run ended so far."""
    found: dict[Stage, Outcome] = {}
    for stage in STAGES:
        try:
            found[stage] = Outcome.model_validate_json(store.read(paths.outcome(pipeline, run_id, stage)))
        except FileNotFoundError:
            continue
    return found


def execute(plan: RunPlan, stage: Stage, *, runner: Runner, attempt: str, on_event: OnEvent) -> Outcome:
    """Bring one stage of a run to its end: skipped, found in the cache, or run.

    attempt: names this try; two tries must not share it. Raises a RatchetError whose class, code, cause and remedy say
    why the stage failed; the outcome is on record either way.
    """
    store = open_store(plan.store)
    started = time.monotonic()
    try:
        outcome = _execute(store, plan, stage, runner=runner, attempt=attempt, on_event=on_event)
    except RatchetError as error:
        failed = Outcome(stage=stage, state="failed", seconds=time.monotonic() - started, because=error.cause)
        _record(store, plan, failed)
        raise
    outcome = outcome.model_copy(update={"seconds": round(time.monotonic() - started, 3)})
    _record(store, plan, outcome)
    return outcome


def _execute(store: Store, plan: RunPlan, stage: Stage, *, runner: Runner, attempt: str, on_event: OnEvent) -> Outcome:
    so_far = outcomes(store, plan.spec.name, plan.run_id)
    so_far.pop(stage, None)
    if reason := why_skipped(stage, so_far):
        return Outcome(stage=stage, state="skipped", because=reason)
    request = compose(store, plan, stage, so_far, attempt)
    found = _cached(store, request, on_event)
    if found is not None:
        return outcome_of(found, cached=True, because="published before")
    because = why_built(store, request)
    ended = run_to_end(runner, job_for(request, store, _image(plan)), lambda line: on_event(parse(line.text)))
    _raise_if_failed(request, ended)
    made = published(store, request.prefix)
    if made is None:
        raise RatchetError(f"{stage} ended well but published nothing", remedy="this is a bug of Ratchet; keep the log")
    store.create(paths.built(plan.spec.name, stage, request.fingerprint), b"")
    return outcome_of(made, cached=False, because=because)


def _image(plan: RunPlan) -> str | None:
    return None if plan.pins.image == "process" else plan.pins.image


def _cached(store: Store, request: StageRequest, on_event: OnEvent) -> Published | None:
    """What stands under the fingerprint, if its bytes are whole. What is damaged is moved aside and built again."""
    if damaged := discard_damaged(store, request.prefix):
        message = f"{request.prefix}: {', '.join(damaged)} damaged, so it is built again"
        on_event(Event(name="warning", level="warning", message=message))
    return published(store, request.prefix)


def outcome_of(found: Published, *, cached: bool, because: str) -> Outcome:
    """The outcome of a stage whose result stands."""
    return Outcome(
        stage=found.result.stage,
        state="done",
        cached=cached,
        manifest=found.key,
        content=found.result.content,
        because=because,
        result=found.result,
    )


def _record(store: Store, plan: RunPlan, outcome: Outcome) -> None:
    key = paths.outcome(plan.spec.name, plan.run_id, outcome.stage)
    entry = store.head(key)
    store.replace(key, outcome.model_dump_json(by_alias=True).encode(), expected=entry.etag if entry else None)


def newest_build(store: Store, pipeline: str, stage: Stage) -> Published | None:
    """The result of a stage that was built last, whichever run built it."""
    history = store.list(paths.builds(pipeline, stage))
    newest = max(history, key=lambda entry: entry.modified_ns, default=None)
    return published(store, paths.published(pipeline, stage, newest.key.rpartition("/")[2])) if newest else None


def why_built(store: Store, request: StageRequest) -> str:
    """What is different from the newest result of this stage, in a line."""
    before = newest_build(store, request.spec.name, request.stage)
    if before is None:
        return "nothing published yet"
    changes = differences(before.result.parts, request.parts)
    shown = "; ".join(changes[:4])
    return f"{shown}; and {len(changes) - 4} more" if len(changes) > 4 else shown or "its result is gone"  # noqa: PLR2004 - as many as fit a line


def _raise_if_failed(request: StageRequest, ended: Ended) -> None:
    if ended.timed_out:
        limit = request.spec.stages[request.stage].timeout
        raise Unavailable(
            f"{request.stage} took longer than {show_duration(limit)} and was stopped",
            remedy=f"raise stages.{request.stage}.timeout, or see what held it up",
        )
    if ended.exit_code == ExitCode.DONE:
        return
    if ended.out_of_memory:
        memory = request.spec.resources[request.stage].memory >> 20
        raise OutOfMemory(f"{request.stage} needed more than its {memory} MiB of memory")
    failures = [event for event in map(parse, (line.text for line in ended.tail)) if event.name == "failure"]
    said = failures[-1].fields if failures else {}
    known = meaning(ended.exit_code)
    code = _code(ended.exit_code)
    if code is ExitCode.OUT_OF_MEMORY and not said:
        raise Unavailable(f"{request.stage} was killed from outside", remedy="see who ended its container or process")
    error = _ERRORS.get(code, RatchetError)
    last = next((line.text for line in reversed(ended.tail) if line.text.strip()), "")
    cause = said.get("cause") or f"{request.stage}: {known.cause}" + (f" ({last[:200]})" if last else "")
    raise error(str(cause), remedy=str(said.get("remedy") or known.remedy))


def _code(exit_code: int) -> ExitCode:
    return ExitCode(exit_code) if exit_code in set(ExitCode) else ExitCode.BUG
