"""How Airflow follows up a failed stage: the table of exit codes as Airflow's retry policy."""

import random
from datetime import timedelta
from typing import Any

from airflow.sdk.definitions.retry_policy import RetryDecision, RetryPolicy
from airflow.sdk.exceptions import AirflowException, AirflowRuntimeError, AirflowTaskTimeout

from ratchet.contracts.errors import RatchetError
from ratchet.contracts.exits import Decision, ExitCode, decide

BACKOFF = 2.0
"""Each delay is this many times the one before."""
MAX_DELAY = timedelta(minutes=30)
LOST_DELAY = timedelta(seconds=1)
"""Airflow's own delay, for a try whose worker was killed and so made no decision: it was waited for long enough."""
_JITTER = 0.25
"""Delays differ by so much in either direction, so that what failed together does not come back together."""


def decision(error: BaseException | None, *, try_number: int, max_tries: int) -> Decision | None:
    """What follows a try. None where Airflow's own rule holds: for its own errors, such as its time limit.

    max_tries: as Airflow has it, the number of retries. The system's errors count as something that does not answer,
    and any other exception as a bug.
    """
    if error is None or isinstance(error, AirflowException | AirflowRuntimeError | AirflowTaskTimeout):
        return None
    return decide(_code(error), attempt=try_number, attempts=max_tries + 1)


def _code(error: BaseException) -> ExitCode:
    if isinstance(error, RatchetError):
        return error.code
    return ExitCode.UNAVAILABLE if isinstance(error, OSError) else ExitCode.BUG


class StageRetryPolicy(RetryPolicy):
    """What cannot succeed fails at once; what was preempted goes on at once; the rest waits longer each time."""

    def __init__(self, delay_s: float) -> None:
        """delay_s: seconds before the first retry of what has to wait."""
        self.delay_s = delay_s

    def evaluate(self, exception: BaseException, try_number: int, max_tries: int, context: Any = None) -> RetryDecision:
        """Called in the worker. Airflow logs the reason and keeps it with the task instance."""
        _ = context
        made = decision(exception, try_number=try_number, max_tries=max_tries)
        if made is None:
            return RetryDecision.retry(self._grown(try_number)) if try_number <= max_tries else RetryDecision.default()
        if not made.again:
            return RetryDecision.fail(made.reason)
        return RetryDecision.retry(self._grown(try_number) if made.growing_delay else timedelta(0), made.reason)

    def serialize(self) -> dict[str, Any]:
        """The delay; the table is in the code."""
        return {"delay_s": self.delay_s}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "StageRetryPolicy":
        """What `serialize` was called on."""
        return cls(data["delay_s"])

    def _grown(self, try_number: int) -> timedelta:
        longest = max(MAX_DELAY.total_seconds(), self.delay_s)
        grown = min(longest, self.delay_s * BACKOFF ** (try_number - 1))
        return timedelta(seconds=grown * random.uniform(1 - _JITTER, 1 + _JITTER))  # noqa: S311 - no secret
