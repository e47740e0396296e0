"""Retries of a failed stage: the table of exit codes as Airflow's retry policy."""

import random
from datetime import timedelta
from typing import Any

from airflow.sdk.definitions.retry_policy import RetryDecision, RetryPolicy
from airflow.sdk.exceptions import AirflowException, AirflowRuntimeError, AirflowTaskTimeout

from ratchet.contracts.errors import JobGone, Preempted, RatchetError, Unavailable
from ratchet.contracts.exits import Decision, ExitCode, decide

BACKOFF = 2.0
"""Each delay is this many times the one before."""
MAX_DELAY = timedelta(minutes=30)
LOST_DELAY = timedelta(seconds=1)
"""Airflow's own delay, used after a try whose worker was killed: the lost heartbeat was delay enough."""
_JITTER = 0.25
"""Delays vary by this share in both directions, so that tasks that failed together do not retry together."""


def decision(error: BaseException | None, *, try_number: int, max_tries: int) -> Decision | None:
    """What follows a failed try. None: Airflow's own rule applies, as for its own errors, such as its time limit.

    max_tries: the number of retries, as Airflow counts. An OSError counts as an unavailable dependency, and any other
    exception as a bug.
    """
    if error is None or isinstance(error, AirflowException | AirflowRuntimeError | AirflowTaskTimeout):
        return None
    return decide(_code(error), attempt=try_number, attempts=max_tries + 1)


def _code(error: BaseException) -> ExitCode:
    if isinstance(error, RatchetError):
        return error.code
    return ExitCode.UNAVAILABLE if isinstance(error, OSError) else ExitCode.BUG


class StageRetryPolicy(RetryPolicy):
    """No retry for what cannot succeed, at once for what was preempted, and with a growing delay for the rest."""

    def __init__(self, delay_s: float) -> None:
        """delay_s: seconds before the first retry with a delay."""
        self.delay_s = delay_s

    def evaluate(self, exception: BaseException, try_number: int, max_tries: int, context: Any = None) -> RetryDecision:
        """Airflow calls this in the worker, logs the reason, and stores it with the task instance."""
        _ = context
        made = decision(exception, try_number=try_number, max_tries=max_tries)
        if made is None:
            return RetryDecision.retry(self._delay(try_number)) if try_number <= max_tries else RetryDecision.default()
        if not made.retry:
            return RetryDecision.fail(made.reason)
        return RetryDecision.retry(self._delay(try_number) if made.growing_delay else timedelta(0), made.reason)

    def serialize(self) -> dict[str, Any]:
        """The delay; the table itself is code."""
        return {"delay_s": self.delay_s}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "StageRetryPolicy":
        """The policy that `serialize` saved."""
        return cls(data["delay_s"])

    def _delay(self, try_number: int) -> timedelta:
        longest = max(MAX_DELAY.total_seconds(), self.delay_s)
        grown = min(longest, self.delay_s * BACKOFF ** (try_number - 1))
        return timedelta(seconds=grown * random.uniform(1 - _JITTER, 1 + _JITTER))


class UnavailableRetryPolicy(StageRetryPolicy):
    """Retries what does not answer, and what was stopped from outside, as with its worker; nothing else."""

    def evaluate(self, exception: BaseException, try_number: int, max_tries: int, context: Any = None) -> RetryDecision:
        """Airflow calls this in the worker."""
        if isinstance(exception, Unavailable | Preempted | JobGone | OSError):
            return super().evaluate(exception, try_number, max_tries, context)
        return RetryDecision.fail("only what does not answer, or was stopped from outside, is tried again")


def of_a_form() -> dict[str, Any]:
    """How a task that carries out a person's form is tried again: only what does not answer, and soon."""
    return {"retries": 5, "retry_delay": LOST_DELAY, "retry_policy": UnavailableRetryPolicy(10.0)}
