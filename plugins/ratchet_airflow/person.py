"""The person who changes production, or lets a day in, with a run of Airflow."""

from collections.abc import Mapping
from typing import Any

from ratchet.contracts.environment import environment, variable
from ratchet.contracts.errors import ConfigurationError


def person(context: Mapping[str, Any], what: str = "change production") -> str:
    """Who triggered the run. Raises ConfigurationError if Airflow names nobody, or one who may not do `what`.

    Who may is a setting of this installation; without it, everybody whom Airflow lets trigger the run.
    """
    by = str(getattr(context["dag_run"], "triggering_user_name", None) or "").strip()
    if not by:
        raise ConfigurationError(
            f"only a person may {what}, and Airflow does not name who triggered this run",
            remedy="trigger it in the UI or by the API, logged in",
        )
    operators = environment().operators
    if operators and by not in operators:
        raise ConfigurationError(
            f"{by} may not {what}; allowed: {', '.join(operators)} ({variable('operators')})",
            remedy=f"ask one of them, or add the name to {variable('operators')}",
        )
    return by
