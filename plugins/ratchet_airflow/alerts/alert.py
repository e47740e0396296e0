"""One alert: what happened, in words, without any secret."""

from dataclasses import dataclass

from ratchet.contracts.alerts import Occasion
from ratchet.contracts.masking import mask

MAX_LINES = 10
"""The number of last log lines that an alert shows."""
_MAX_LINE = 300
_HEADLINES: dict[Occasion, str] = {
    "failure": "failed",
    "refused": "refused the data",
    "retry": "failed and will be retried",
    "recovered": "recovered",
    "approval": "waits for approval",
    "rejected": "did not promote the candidate",
    "promoted": "promoted the candidate",
    "withheld": "withheld a better candidate",
    "unmeasured": "cannot measure the champion",
    "production": "was changed by hand",
    "data": "was let in or kept out by hand",
    "late": "is late",
    "stuck": "is stuck",
    "missing": "has not started",
    "paused": "does not run, since its DAG is paused",
    "backfill": "has finished",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An event of a stage or a run, its cause, and what to do about it.

    date: the data date, empty if it is not known. decision: what Airflow does next. details: a table, one line for each
    row. link: the task's log. run_link, report: the pages of the run and of its report. shared_cause: what other
    pipelines may fail from at the same time; empty if it is this pipeline's own. waits_until: the time until which the
    same try waits for what does not answer, in ISO format; empty if it has ended.
    """

    occasion: Occasion
    pipeline: str
    stage: str
    date: str
    run_id: str
    cause: str
    attempt: str = ""
    decision: str = ""
    last_lines: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    remedy: str = ""
    link: str = ""
    run_link: str = ""
    report: str = ""
    shared_cause: str = ""
    waits_until: str = ""

    @property
    def title(self) -> str:
        """The subject, in one line."""
        return f"{' '.join(filter(None, (self.pipeline, self.date)))}: {self.stage} {_HEADLINES[self.occasion]}"

    @property
    def body(self) -> str:
        """All that is known, one line for each field."""
        lines = [
            ("Pipeline", self.pipeline),
            ("Stage", self.stage),
            ("Date", self.date),
            ("Try", self.attempt),
            ("Cause", self.cause),
            ("Decision", self.decision),
            ("Details", _block(self.details)),
            ("Last log lines", _block(self.last_lines)),
            ("What to do", self.remedy),
            ("Log", self.link),
            ("Run", self.run_link),
            ("Report", self.report),
        ]
        return "\n".join(f"{name}: {value}" for name, value in lines if value)


def plain(text: str) -> str:
    """Text without secrets, and without what UTF-8 cannot write, such as a part of a file's name that is not text."""
    return mask(text).encode("utf-8", "replace").decode()


def excerpt(lines: tuple[str, ...]) -> tuple[str, ...]:
    """The last lines of a log, short and without secrets."""
    return tuple(plain(line.rstrip())[:_MAX_LINE] for line in lines[-MAX_LINES:])


def _block(lines: tuple[str, ...]) -> str:
    return "".join(f"\n  {line}" for line in lines)
