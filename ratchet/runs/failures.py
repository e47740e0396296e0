"""From the end of a stage's container to the error that says why."""

import signal

from ratchet.contracts.errors import (
    ConfigurationError,
    CorruptArtifact,
    DataRejected,
    Interrupted,
    NoAnswer,
    OtherCode,
    OutOfMemory,
    Preempted,
    RatchetError,
)
from ratchet.contracts.exits import ExitCode, meaning
from ratchet.contracts.quantities import show_duration
from ratchet.contracts.request import StageRequest
from ratchet.contracts.stages import Stage, section
from ratchet.runners.following import JobEnd
from ratchet.runs.events import parse

LAST_LINES = 10
_TERMINATED = 128 + signal.SIGTERM
_ERRORS: dict[ExitCode, type[RatchetError]] = {
    error.code: error for error in (ConfigurationError, DataRejected, Interrupted, Preempted, OutOfMemory)
}
MARKS: dict[str, type[RatchetError]] = {"damaged": CorruptArtifact, "other_code": OtherCode, "no_answer": NoAnswer}
"""What the failure that a stage logs says beside its code."""


def failure_of(request: StageRequest, ended: JobEnd) -> RatchetError | None:
    """The error that an end means, with the last lines of the log; None if all went well."""
    if ended.exit_code == ExitCode.DONE and not ended.timed_out:
        return None
    error = _failure(request, ended)
    error.last_lines = tuple(parse(line).message for line in ended.tail[-LAST_LINES:])
    return error


def _failure(request: StageRequest, ended: JobEnd) -> RatchetError:
    stage = request.stage
    if ended.timed_out:
        return Interrupted(
            f"{stage} took longer than {show_duration(request.spec.settings_of(stage).timeout)} and was stopped",
            remedy=f"raise stages.{section(stage)}.timeout, or check what held it up",
        )
    if ended.out_of_memory:
        memory = request.spec.resources_of(stage).memory >> 20
        return OutOfMemory(f"{stage} needed more than its {memory} MiB of memory")
    failures = [event for event in map(parse, ended.tail) if event.name == "failure"]
    said = failures[-1].fields if failures else {}
    known = meaning(ended.exit_code)
    code = ExitCode(ended.exit_code) if ended.exit_code in set(ExitCode) else ExitCode.BUG
    if not said and (error := _unsaid(stage, ended, code)) is not None:
        return error
    messages = (parse(line).message for line in reversed(ended.tail))
    last = next((message for message in messages if message.strip()), "")
    cause = said.get("cause") or f"{stage}: {known.cause}" + (f" ({last[:200]})" if last else "")
    marked = next((kind for mark, kind in MARKS.items() if said.get(mark)), None)
    kind = marked or _ERRORS.get(code, RatchetError)
    return kind(str(cause), remedy=str(said.get("remedy") or known.remedy))


def no_result(request: StageRequest) -> RatchetError:
    """The error of a stage that ended well and has published nothing."""
    return RatchetError(
        f"{request.stage} ended with exit code 0 before it published its result",
        remedy="look for os._exit in the pipeline's own code; if there is none, report this bug of Ratchet, with "
        "the log",
    )


def _unsaid(stage: Stage, ended: JobEnd, code: ExitCode) -> RatchetError | None:
    """The error of a stage that logged no failure, where how it ended says why."""
    if code is ExitCode.TRY_AGAIN:
        return Preempted(f"{stage} ended with exit code 75 without a reason; its own code may have called os._exit(75)")
    if ended.cause:
        return Interrupted(f"{stage}: {ended.cause}", remedy="check who ended it, unless that was intended")
    if ended.exit_code == _TERMINATED:
        return Preempted(f"{stage} was stopped by SIGTERM (signal 15) before it had work to save")
    if code is ExitCode.OUT_OF_MEMORY:
        return Interrupted(f"{stage} was killed from outside", remedy="check who ended its container or process")
    return None
