"""The text of an alert: the cause, what Airflow does next, and what a person can do."""

from ratchet.contracts.alerts import Occasion
from ratchet.contracts.environment import environment
from ratchet.contracts.errors import RatchetError
from ratchet.contracts.exits import ExitCode
from ratchet.contracts.masking import mask
from ratchet.outbox.causes import shared_cause as shared_cause_of
from ratchet_airflow.alerts.alert import Alert, excerpt, plain
from ratchet_airflow.alerts.situation import Situation
from ratchet_airflow.retries import decision as retry_decision

NO_CAUSE = (
    "the process ended without reporting a cause: it was killed, ran out of memory, or was marked as failed by hand"
)
_REMEDIES: dict[Occasion, str] = {
    "retry": "nothing; the next try starts by itself",
    "recovered": "nothing",
    "rejected": "read the report of the run",
    "promoted": "nothing; the report of the run has the figures",
}


def make_alert(
    occasion: Occasion,
    where: Situation,
    *,
    error: BaseException | None = None,
    cause: str | None = None,
    remedy: str | None = None,
    decision: str | None = None,
    details: tuple[str, ...] = (),
    report: str = "",
    shared_cause: str | None = None,
) -> Alert:
    """An alert about a stage or a run. Cause, decision and remedy follow from the error unless they are given."""
    return Alert(
        occasion=occasion,
        pipeline=where.pipeline,
        stage=where.stage,
        date=where.date,
        run_id=where.run_id,
        attempt=where.attempt,
        cause=plain(cause if cause is not None else cause_of(error)),
        decision=plain(next_step(occasion, error, where) if decision is None else decision),
        last_lines=excerpt(tuple(str(line) for line in getattr(error, "last_lines", ()))),
        details=tuple(map(plain, details)),
        remedy=plain(remedy if remedy is not None else _remedy(occasion, error)),
        link=where.link,
        run_link=where.run_link,
        report=report,
        shared_cause=_shared(occasion, where, error, cause) if shared_cause is None else shared_cause,
    )


def _shared(occasion: Occasion, where: Situation, error: BaseException | None, cause: str | None) -> str:
    """What other pipelines may have too: what does not answer, and runs that do not move."""
    if occasion in {"failure", "retry"} and cause is None:
        if error is None or not _is_away(error):
            return ""
        return shared_cause_of(plain(cause_of(error)), pipeline=where.pipeline, store=mask(environment().store or ""))
    return occasion if occasion in {"late", "stuck", "missing"} else ""


def _is_away(error: BaseException) -> bool:
    return isinstance(error, OSError) or (isinstance(error, RatchetError) and error.code is ExitCode.UNAVAILABLE)


def cause_of(error: BaseException | None) -> str:
    """Why a stage failed."""
    if isinstance(error, RatchetError):
        return error.cause
    return NO_CAUSE if error is None else str(error) or type(error).__name__


def next_step(occasion: Occasion, error: BaseException | None, where: Situation) -> str:
    """What Airflow does next; empty if nothing failed."""
    number, last = where.try_number, where.max_tries
    if occasion not in {"retry", "failure", "refused"} or number is None:
        return ""
    made = retry_decision(error, try_number=number, max_tries=last) if last is not None else None
    if occasion == "retry":
        as_try = f", as try {number + 1} of {last + 1}" if last else ""
        return f"{made.reason}{as_try}" if made and made.retry else f"Airflow retries it{as_try}"
    if made and not made.retry:
        return made.reason
    return f"no retry after try {where.attempt}" if where.attempt else "no retry"


def _remedy(occasion: Occasion, error: BaseException | None) -> str:
    if occasion in _REMEDIES:
        return _REMEDIES[occasion]
    return error.remedy if isinstance(error, RatchetError) else "read the log of the task"
