"""What the exit code of a stage means, in one table.

The numbers follow BSD's sysexits.h where it has one. The same table is the retry policy of every orchestrator.
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
    """How an attempt that ended with a code is followed up.

    again: whether another attempt can succeed. growing_delay: whether to wait longer each time. once: only after the
    first attempt.
    """

    again: bool
    growing_delay: bool
    once: bool = False


class Meaning(NamedTuple):
    """A code in words that a person reads, what to do about it, and what the orchestrator does."""

    cause: str
    remedy: str
    retry: Retry


_NEVER = Retry(again=False, growing_delay=False)
_AT_ONCE = Retry(again=True, growing_delay=False)
_LATER = Retry(again=True, growing_delay=True)
_ONCE = Retry(again=True, growing_delay=True, once=True)

MEANINGS: dict[ExitCode, Meaning] = {
    ExitCode.DONE: Meaning("done", "nothing", _NEVER),
    ExitCode.BAD_CONFIGURATION: Meaning(
        "the configuration is wrong", "mend the key that is named; `ratchet check` shows every error at once", _NEVER
    ),
    ExitCode.DATA_REJECTED: Meaning(
        "the data was rejected", "look at the validation page; mend the source, or the rule that is named", _NEVER
    ),
    ExitCode.UNAVAILABLE: Meaning(
        "something that the stage depends on did not answer", "it is retried with a growing delay", _LATER
    ),
    ExitCode.BUG: Meaning("a bug in Ratchet or in the pipeline's own code", "read the traceback in the log", _ONCE),
    ExitCode.TRY_AGAIN: Meaning(
        "the stage was told to stop and saved its work", "it resumes from its last checkpoint", _AT_ONCE
    ),
    ExitCode.OUT_OF_MEMORY: Meaning(
        "the stage ran out of memory", "raise resources.<stage>.memory, or lower train.batch_size", _AT_ONCE
    ),
}


def meaning(code: int) -> Meaning:
    """The meaning of any exit code: a killed process (128 + signal, or negative) and unknown codes count as bugs."""
    try:
        return MEANINGS[ExitCode(code)]
    except ValueError:
        how = f"signal {code - 128 if code > 128 else -code}" if code > 128 or code < 0 else f"exit code {code}"  # noqa: PLR2004 - 128 + signal is the shell's convention
        return MEANINGS[ExitCode.BUG]._replace(cause=f"the stage ended with {how}")


class Decision(NamedTuple):
    """What follows a failed attempt, and why, in words that go into the log and the alert."""

    again: bool
    growing_delay: bool
    reason: str


def decide(code: int, *, attempt: int, attempts: int) -> Decision:
    """The follow-up of attempt number `attempt` (the first is 1) of at most `attempts`, that ended with a code."""
    cause, remedy, retry = meaning(code)
    if not retry.again:
        return Decision(again=False, growing_delay=False, reason=f"not tried again, since {cause}: {remedy}")
    if retry.once and attempt > 1:
        return Decision(
            again=False, growing_delay=False, reason=f"not tried a third time, since it is {cause}: {remedy}"
        )
    if attempt >= attempts:
        tries = "its only try is used" if attempts == 1 else f"all {attempts} tries are used"
        return Decision(again=False, growing_delay=False, reason=f"not tried again, since {tries}: {cause}")
    when = "after a growing delay" if retry.growing_delay else "at once"
    return Decision(again=True, growing_delay=retry.growing_delay, reason=f"tried again {when}, since {cause}")
