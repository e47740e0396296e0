"""How Airflow follows up a failed stage: the table of exit codes as Airflow's retry policy."""

from datetime import timedelta
from typing import Any

from airflow.sdk.definitions.retry_policy import RetryDecision, RetryPolicy

from tasks.contracts.errors import RatchetError
from tasks.contracts.exits import Decision, decide

BACKOFF = 2.0
"""Each delay is this many times the one before; Airflow adds a jitter that differs from run to run."""
MAX_DELAY = timedelta(minutes=30)


def decision(error: BaseException | None, *, try_number: int, max_tries: int) -> Decision | None:
    """What follows a try. None for what is not an error of ours: Airflow's own rule decides then.

    max_tries: as Airflow has it, the number of retries.
    """
    if not isinstance(error, RatchetError):
        return None
    return decide(error.code, attempt=try_number, attempts=max_tries + 1)


class StageRetryPolicy(RetryPolicy):
    """What cannot succeed fails at once; what was preempted goes on at once; the rest waits longer each time."""

    def evaluate(self, exception: BaseException, try_number: int, max_tries: int, context: Any = None) -> RetryDecision:
        """Called in the worker. Airflow logs the reason and keeps it with the task instance."""
        _ = context
        made = decision(exception, try_number=try_number, max_tries=max_tries)
        if made is None:
            return RetryDecision.default()
        if not made.again:
            return RetryDecision.fail(made.reason)
        return RetryDecision.retry(None if made.growing_delay else timedelta(0), made.reason)

    def serialize(self) -> dict[str, Any]:
        """Nothing: the table is in the code."""
        return {}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "StageRetryPolicy":
        """The one policy."""
        _ = data
        return cls()


RETRY_POLICY = StageRetryPolicy()
