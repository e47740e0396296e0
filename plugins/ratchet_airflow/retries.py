"""How Airflow follows up a failed stage: the table of exit codes as Airflow's retry policy."""

from datetime import timedelta

from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule

from tasks.contracts import errors
from tasks.contracts.errors import RatchetError
from tasks.contracts.exits import MEANINGS

BACKOFF = 2.0
"""Each delay is this many times the one before."""
MAX_DELAY = timedelta(minutes=30)

_CLASSES: tuple[type[RatchetError], ...] = (
    errors.ConfigurationError,
    errors.DataRejected,
    errors.Unavailable,
    errors.Preempted,
    errors.OutOfMemory,
    RatchetError,
)


def _rule(error: type[RatchetError]) -> RetryRule:
    meaning = MEANINGS[error.code]
    path = f"{error.__module__}.{error.__qualname__}"
    if not meaning.retry.again:
        return RetryRule(exception=path, action=RetryAction.FAIL, reason=f"{meaning.cause}: {meaning.remedy}")
    delay = None if meaning.retry.growing_delay else timedelta(0)
    return RetryRule(exception=path, action=RetryAction.RETRY, retry_delay=delay, reason=meaning.cause)


RETRY_POLICY = ExceptionRetryPolicy(rules=[_rule(error) for error in _CLASSES])
"""What cannot succeed fails at once; what was preempted goes on at once; the rest waits longer each time."""
