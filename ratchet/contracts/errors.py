"""Every error that a person can cause or see, in one small tree.

RatchetError                 exit code, cause, remedy
+-- ConfigurationError       64: a key is invalid
|   +-- PipelineInvalid      64: every problem of a pipeline file at once
+-- DataRejected             65: data broke a rule; names column and rule
+-- Unavailable              69: a dependency does not answer
|   +-- SourceChanged        69: the source changed after the run was planned; the next try plans its days again
|   +-- OtherCode            69: the code is not that of the plan; the next try plans the rest of the run again
|   +-- OtherRelease         69: a stored document that this release cannot read
|   +-- NoAnswer             69: a store, a registry or a source is away, busy or has no keys: waited for wherever met
|   +-- Interrupted          69: a stage that ran ended so, or was stopped or killed; its tries are counted
+-- JobGone                  69: the container or the process of a stage no longer exists
+-- CorruptArtifact          70: bytes do not match their digest
+-- PublishConflict          70: another attempt published something else under the same fingerprint
+-- Preempted                75: the stage had to stop; its work is saved
+-- OutOfMemory              137
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ratchet.contracts.exits import MEANINGS, ExitCode


class StopNotice(BaseException):
    """A notice to stop, raised where the stage is at that moment; the stage then ends as Preempted.

    It is no Exception, so that neither a library nor the pipeline's own code takes it for an error and goes on.
    """


class RatchetError(Exception):
    """An error with a cause, an exit code and a remedy.

    `str(error)` is one clear line: what, where, what is allowed, what to do.
    """

    code: ClassVar[ExitCode] = ExitCode.BUG

    def __init__(self, cause: str, *, remedy: str | None = None) -> None:
        super().__init__(cause)
        self.cause = cause
        self.remedy = remedy if remedy is not None else MEANINGS[self.code].remedy
        self.last_lines: tuple[str, ...] = ()
        """The last lines of the log, if a stage failed."""
        self.log = ""
        """The address of the whole log, if a stage failed and its log is stored."""

    def __str__(self) -> str:
        return f"{self.cause}; to do: {self.remedy}" if self.remedy else self.cause


class ConfigurationError(RatchetError):
    """A key, a flag or a setting is invalid."""

    code = ExitCode.BAD_CONFIGURATION


class DataRejected(RatchetError):
    """Data broke a rule. No later stage has run."""

    code = ExitCode.DATA_REJECTED


class Unavailable(RatchetError):
    """A dependency (store, registry, engine) did not answer within its limits."""

    code = ExitCode.UNAVAILABLE


class SourceChanged(Unavailable):
    """Files of the source changed or disappeared after the run was planned. The next try plans them again."""


class OtherCode(Unavailable):
    """The code that a stage met is not that of its run's plan. The next try plans the rest of the run again."""


class NoAnswer(Unavailable):
    """A store, a registry or a source did not answer, its keys are absent or have expired, or others kept writing it.

    It passes without a change of the run. So it is waited for by time, also where a stage met it in its middle.
    """


class Interrupted(Unavailable):
    """A stage that ran ended with 69 for another reason than NoAnswer, was stopped at its time limit, or was killed.

    So its tries are counted: it cost work, and own code may end so for ever.
    """


class OtherRelease(Unavailable):
    """A stored document is whole, and another release of Ratchet wrote it, which has to read it.

    It is no CorruptArtifact: what mends damage would delete, move aside or replace what the other release needs. What
    decides something lets this error pass, and is tried again: a worker that was upgraded meanwhile can read it.
    """


class JobGone(RatchetError):
    """The container or the process of a stage no longer exists: somebody removed it."""

    code = ExitCode.UNAVAILABLE


class CorruptArtifact(RatchetError):
    """Bytes in the store do not match the digest under which they were published."""


class PublishConflict(RatchetError):
    """Another attempt has published a different result under the same fingerprint."""


class Preempted(RatchetError):
    """The stage had to stop before its end: it goes on from the work that it has saved."""

    code = ExitCode.TRY_AGAIN


class OutOfMemory(RatchetError):
    """The stage needed more memory than its limit."""

    code = ExitCode.OUT_OF_MEMORY


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem of a pipeline file.

    where: `path:line`, `path:line:column`, or the flag. key: dotted path of the key. All but where and message may be
    empty.
    """

    where: str
    key: str
    message: str
    allowed: str = ""
    suggestion: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        parts = [f"{self.where}: {self.key}: {self.message}" if self.key else f"{self.where}: {self.message}"]
        if self.allowed:
            parts.append(f"allowed: {self.allowed}")
        if self.suggestion:
            parts.append(f"did you mean {self.suggestion}?")
        if self.remedy:
            parts.append(f"to do: {self.remedy}")
        return "; ".join(parts)


class PipelineInvalid(ConfigurationError):
    """A pipeline file has problems; `problems` holds all of them, in the order of the file."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)), remedy="")
