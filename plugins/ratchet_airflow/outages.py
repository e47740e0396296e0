"""What does not answer is waited for by the same try of a task, which meanwhile occupies no worker.

How long a task has waited is kept in Airflow's task state store, over all its tries, until it is cleared.

A change here violates the promise of the project when an outage that is shorter than the limit ends a task.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any, Protocol

from airflow.sdk.exceptions import AirflowRescheduleException

from ratchet.contracts.environment import environment
from ratchet.contracts.errors import RatchetError
from ratchet.contracts.outages import OUTAGES, OnAnotherHost, is_outage, longest_s, next_wait, unsaid_s
from ratchet.contracts.quantities import show_duration
from ratchet.contracts.stages import StageSettings
from ratchet.outbox.causes import shared_cause
from ratchet_airflow.retries import decision

LOOK_S = 20.0
"""The least seconds between two looks at what is late. Each look is a process of a worker."""
WAITED, ON_HOST = "ratchet_waited_s", "ratchet_host_s"
"""The keys of the seconds that a task has waited for what does not answer, and for a worker of another host; after
max_tries, which a clear raises. Neither uses up the time of the other."""
SAID = "ratchet_outage_said"
"""The key of the cause that people have heard of last, likewise: another one is said, too."""


USUAL = StageSettings()


OnOutage = Callable[[Mapping[str, Any], BaseException, str], None]
"""Gets the context of a task that begins to wait, what does not answer, and what happens next, in words."""


class Patient(Protocol):
    """A task that waits. handling: its retries and time limits. on_outage: hears of each cause once, not too soon."""

    handling: StageSettings
    on_outage: OnOutage | None
    has_waited: bool

    @property
    def log(self) -> Any:
        """Where it says what it waits for."""
        ...


Execute = Callable[..., Any]


def reschedule(seconds: float) -> None:
    """Run the same try of this task again in some seconds, at least `LOOK_S`. Meanwhile it occupies no worker."""
    then = datetime.now(UTC) + timedelta(seconds=max(seconds, LOOK_S))
    raise AirflowRescheduleException(then)  # type: ignore[no-untyped-call] # Airflow's own has no types


def waits_for_outages(execute: Execute) -> Execute:
    """An `execute` that is tried again in the same try while something does not answer, up to the task's limit."""

    @wraps(execute)
    def patient(self: Patient, context: Mapping[str, Any], *given: Any, **named: Any) -> Any:
        self.has_waited = any(_waited(context, key) > 0.0 for key in (WAITED, ON_HOST))
        try:
            return execute(self, context, *given, **named)
        except OUTAGES as error:
            if is_outage(error):
                _wait(self, context, error)
            raise

    return patient


def goes_on(task: Patient, context: Mapping[str, Any], error: BaseException) -> bool:
    """Whether Airflow runs the task again by itself after an error: in the same try after a wait, or as a retry."""
    if isinstance(error, OUTAGES) and is_outage(error) and _next(task, context, error) is not None:
        return True
    tries = context["ti"]
    made = decision(error, try_number=tries.try_number, max_tries=tries.max_tries)
    return made.retry if made is not None else bool(tries.try_number <= tries.max_tries)


def _key(error: BaseException) -> str:
    return ON_HOST if isinstance(error, OnAnotherHost) else WAITED


def limit_s(handling: StageSettings, error: BaseException) -> float:
    """For how many seconds a task waits for what an error says, in all."""
    return handling.other_host_s if isinstance(error, OnAnotherHost) else handling.outage_s


def _next(task: Patient, context: Mapping[str, Any], error: BaseException) -> float | None:
    """Seconds until the same try looks again; None if it does not."""
    if context.get("task_state_store") is None:
        return None
    first_s = max(task.handling.retry_delay, LOOK_S)
    waited_s, most_s = _waited(context, _key(error)), limit_s(task.handling, error)
    return next_wait(waited_s, first_s=first_s, limit_s=most_s, longest_s=longest_s(error))


def _wait(task: Patient, context: Mapping[str, Any], error: BaseException) -> None:
    """Raise AirflowRescheduleException, unless the limit is reached: then its retries count."""
    states, most_s, key = context.get("task_state_store"), limit_s(task.handling, error), _key(error)
    if states is None:
        return
    waited_s, wait_s = _waited(context, key), _next(task, context, error)
    if wait_s is None:
        task.log.error("waited for %s in all, which is the limit", show_duration(round(waited_s)))
        return
    said = [context["ti"].max_tries, _cause(error)]
    if unsaid_s(error) < waited_s + wait_s and states.get(SAID) != said and task.on_outage is not None:
        how = "each minute" if key == ON_HOST else "with growing pauses"
        step = f"the same try looks again {how}, for {show_duration(round(most_s))} in all"
        task.on_outage(context, error, step)
        states.set(SAID, said)
    states.set(key, [context["ti"].max_tries, waited_s + wait_s])
    task.log.warning(
        "%s; tried again in %s, without a retry that counts; waited for %s of %s before",
        error, *map(show_duration, (round(wait_s), round(waited_s), round(most_s))),
    )  # fmt: skip
    reschedule(wait_s)


def _cause(error: BaseException) -> str:
    """What is away, without what differs from one request to the next."""
    text = error.cause if isinstance(error, RatchetError) else str(error)
    return shared_cause(text, pipeline="this one", store=environment().store or "")


def _waited(context: Mapping[str, Any], key: str) -> float:
    """For how many seconds the task has waited since it was cleared last."""
    states = context.get("task_state_store")
    found = states.get(key) if states is not None else None
    if found is None:
        return 0.0
    of_tries, waited_s = found
    return float(waited_s) if of_tries == context["ti"].max_tries else 0.0
