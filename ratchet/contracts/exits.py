"""The meaning of a stage's exit codes, in one table.

The numbers follow BSD's sysexits.h. Every orchestrator takes its retry policy from this table.
"""

from enum import IntEnum
from typing import NamedTuple


class ExitCode(IntEnum):
    """The exit codes that a stage ends with on purpose."""

    DONE = 0
    BAD_CONFIGURATION = 64
    DATA_REJECTED = 65
    UNAVAILABLE = 69
    BUG = 70
    TRY_AGAIN = 75
    OUT_OF_MEMORY = 137


class Retry(NamedTuple):
    """Whether and how to retry an attempt that ended with a code.

    possible: whether another attempt can succeed. growing_delay: whether to wait longer each time. first_only: whether
    to retry only after the first attempt.
    """

    possible: bool
    growing_delay: bool
    first_only: bool = False


class Meaning(NamedTuple):
    """A code for people: its cause and its remedy; and the retry that the orchestrator does."""

    cause: str
    remedy: str
    retry: Retry


_NEVER = Retry(possible=False, growing_delay=False)
_AT_ONCE = Retry(possible=True, growing_delay=False)
_LATER = Retry(possible=True, growing_delay=True)
_ONCE = Retry(possible=True, growing_delay=True, first_only=True)

MEANINGS: dict[ExitCode, Meaning] = {
    ExitCode.DONE: Meaning("done", "nothing", _NEVER),
    ExitCode.BAD_CONFIGURATION: Meaning(
        "the configuration is invalid",
        "correct the key that is named; `ratchet check` shows every error at once",
        _NEVER,
    ),
    ExitCode.DATA_REJECTED: Meaning(
        "the data was rejected", "read the validation page; correct the source, or the rule that is named", _NEVER
    ),
    ExitCode.UNAVAILABLE: Meaning(
        "a service that the stage depends on did not answer",
        "check that the service runs and can be reached; run again if no retry follows",
        _LATER,
    ),
    ExitCode.BUG: Meaning("a bug in Ratchet or in the pipeline's code", "read the traceback in the log", _ONCE),
    ExitCode.TRY_AGAIN: Meaning(
        "the stage received a notice to stop and saved its work",
        "wait for the retry, or run again; both resume from the last checkpoint",
        _AT_ONCE,
    ),
    ExitCode.OUT_OF_MEMORY: Meaning(
        "the stage ran out of memory", "raise resources.<stage>.memory, or lower train.batch_size", _AT_ONCE
    ),
}


def meaning(code: int) -> Meaning:
    """The meaning of any exit code. A signal (128 + its number, or negative) and an unknown code count as bugs."""
    try:
        return MEANINGS[ExitCode(code)]
    except ValueError:
        how = f"signal {code - 128 if code > 128 else -code}" if code > 128 or code < 0 else f"exit code {code}"  # noqa: PLR2004 - 128 + signal is the shell's convention
        return MEANINGS[ExitCode.BUG]._replace(cause=f"the stage ended with {how}")


class Decision(NamedTuple):
    """Whether to retry a failed attempt, and the reason, which goes into the log and the alert."""

    retry: bool
    growing_delay: bool
    reason: str


def decide(code: int, *, attempt: int, attempts: int) -> Decision:
    """Decide whether to retry attempt number `attempt` (from 1) of at most `attempts`, which ended with a code."""
    cause, remedy, retry = meaning(code)
    if not retry.possible:
        return Decision(retry=False, growing_delay=False, reason=f"no retry, because {cause}: {remedy}")
    if retry.first_only and attempt > 1:
        return Decision(retry=False, growing_delay=False, reason=f"no second retry, because it is {cause}: {remedy}")
    if attempt >= attempts:
        tries = "its only try is used" if attempts == 1 else f"all {attempts} tries are used"
        return Decision(retry=False, growing_delay=False, reason=f"no retry, because {tries}: {cause}")
    when = "after a growing delay" if retry.growing_delay else "at once"
    return Decision(retry=True, growing_delay=retry.growing_delay, reason=f"retry {when}, because {cause}")
