"""An alert's words: the cause, the decision, and what to do."""

from ratchet.contracts.alerts import Occasion
from ratchet.contracts.errors import RatchetError
from ratchet_airflow.alerts.alert import Alert, masked, shown
from ratchet_airflow.alerts.situation import Situation
from ratchet_airflow.retries import decision as follow_up

SILENT = "its process ended without a word: it was killed, ran out of memory, or was marked as failed by hand"
_REMEDIES: dict[Occasion, str] = {
    "retry": "nothing yet; the next try starts by itself",
    "recovered": "nothing",
    "rejected": "see the report of the run",
    "promoted": "see the report of the run",
}


def describe(
    occasion: Occasion,
    where: Situation,
    *,
    error: BaseException | None = None,
    cause: str | None = None,
    remedy: str | None = None,
    decision: str | None = None,
    details: tuple[str, ...] = (),
    report: str = "",
) -> Alert:
    """An alert about a stage or a run. What is not given is told from the error, or its absence."""
    return Alert(
        occasion=occasion,
        pipeline=where.pipeline,
        stage=where.stage,
        date=where.date,
        run_id=where.run_id,
        attempt=where.attempt,
        cause=masked(cause if cause is not None else cause_of(error)),
        decision=masked(decide(occasion, error, where) if decision is None else decision),
        last_lines=shown(tuple(str(line) for line in getattr(error, "last_lines", ()))),
        details=tuple(map(masked, details)),
        remedy=masked(remedy if remedy is not None else _remedy(occasion, error)),
        link=where.link,
        run_link=where.run_link,
        report=report,
    )


def cause_of(error: BaseException | None) -> str:
    """Why a stage failed, in words."""
    if isinstance(error, RatchetError):
        return error.cause
    return SILENT if error is None else str(error) or type(error).__name__


def decide(occasion: Occasion, error: BaseException | None, where: Situation) -> str:
    """What Airflow does next, in words."""
    number, last = where.try_number, where.max_tries
    if occasion not in {"retry", "failure", "refused"} or number is None:
        return ""
    made = follow_up(error, try_number=number, max_tries=last) if last is not None else None
    if occasion == "retry":
        as_try = f", as try {number + 1} of {last + 1}" if last else ""
        return f"{made.reason}{as_try}" if made and made.again else f"tried again by itself{as_try}"
    if made and not made.again:
        return made.reason
    return f"not tried again: try {where.attempt}" if where.attempt else "not tried again"


def _remedy(occasion: Occasion, error: BaseException | None) -> str:
    if occasion in _REMEDIES:
        return _REMEDIES[occasion]
    return error.remedy if isinstance(error, RatchetError) else "read the log of the task behind the link"
