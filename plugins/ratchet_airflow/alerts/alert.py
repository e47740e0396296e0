"""What people are told: one alert, in words, without a secret in it."""

import re
from dataclasses import dataclass

from ratchet.contracts.alerts import Occasion

MAX_LINES = 10
"""So many of a log's last lines are part of an alert."""
_MAX_LINE = 300
_HEADLINES: dict[Occasion, str] = {
    "failure": "failed",
    "refused": "refused the data",
    "retry": "failed and will be tried again",
    "recovered": "succeeded after all",
    "approval": "waits for a person's word",
    "rejected": "did not replace production",
    "promoted": "is in production",
    "late": "is late",
    "stuck": "does not move",
    "backfill": "has ended",
}
_SECRETS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s/:@]*):[^\s/@]+@", re.IGNORECASE), r"\1:***@"),
    (
        re.compile(r"\b([\w-]*(?:password|passwd|secret|token|api_?key)[\w-]*)(\s*[=:]\s*)[^\s,;&]+", re.IGNORECASE),
        r"\1\2***",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """What happened, to what, and what to do about it.

    date: the data date, or empty where it could not be told. decision: what Airflow does next. details: a table, a line
    a row. link: the task's log. run_link, report: pages of the run and of its report.
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

    @property
    def title(self) -> str:
        """One line."""
        return f"{' '.join(filter(None, (self.pipeline, self.date)))}: {self.stage} {_HEADLINES[self.occasion]}"

    @property
    def body(self) -> str:
        """Everything, a line each."""
        lines = [
            ("Pipeline", self.pipeline),
            ("Stage", self.stage),
            ("Date", self.date),
            ("Try", self.attempt),
            ("Cause", self.cause),
            ("Decision", self.decision),
            ("Details", _block(self.details)),
            ("Last lines", _block(self.last_lines)),
            ("What to do", self.remedy),
            ("Link", self.link),
            ("Run", self.run_link),
            ("Report", self.report),
        ]
        return "\n".join(f"{name}: {value}" for name, value in lines if value)


def masked(text: str) -> str:
    """Text as it may leave the house: passwords in URLs, and what is called a password or a token, are stars."""
    for secret, stars in _SECRETS:
        text = secret.sub(stars, text)
    return text


def shown(lines: tuple[str, ...]) -> tuple[str, ...]:
    """The last lines of a log as an alert shows them."""
    return tuple(masked(line.rstrip())[:_MAX_LINE] for line in lines[-MAX_LINES:])


def _block(lines: tuple[str, ...]) -> str:
    return "".join(f"\n  {line}" for line in lines)
