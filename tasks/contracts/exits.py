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

    again: whether another attempt can succeed. growing_delay: whether to wait longer each time.
    """

    again: bool
    growing_delay: bool


class Meaning(NamedTuple):
    """A code in words that a person reads, what to do about it, and what the orchestrator does."""

    cause: str
    remedy: str
    retry: Retry


_NEVER = Retry(again=False, growing_delay=False)
_AT_ONCE = Retry(again=True, growing_delay=False)
_LATER = Retry(again=True, growing_delay=True)

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
    ExitCode.BUG: Meaning("a bug in Ratchet or in the pipeline's own code", "read the traceback in the log", _LATER),
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
