"""A task that was deferred and is not resumed by its trigger: Airflow resumes it to fail it.

A change here violates the promise of the project when a triggerer that is away, or that fails, ends a try.
"""

from collections.abc import Mapping
from typing import Any

from airflow.sdk import BaseOperator

GOES_ON = "go_on"
"""The method with which a task goes on."""


class FollowsItself(BaseOperator):
    """A task that goes on with `go_on`, and by itself where no triggerer came back in time, or the trigger failed.

    follows_itself: whether it does; it does not defer again then.
    """

    follows_itself = False

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Any) -> Any:
        """Airflow calls this. It fails a try of which the deferral ended without an event; no try is used up here."""
        if next_method == GOES_ON:
            return super().resume_execution(next_method, next_kwargs, context)
        self.follows_itself = True
        self.log.warning("no triggerer has followed the container (%s): this task does", _why(next_kwargs))
        return self.execute(context)


def _why(given: Mapping[str, Any] | None) -> object:
    """In Airflow's words. The traceback of a trigger that failed is in the triggerer's log."""
    return (given or {}).get("error", "it says nothing")
