"""The question to a second person, before a version is promoted by hand whose pipeline asks for two."""

import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context

from ratchet.contracts.authority import same_person
from ratchet.contracts.errors import ConfigurationError
from ratchet_airflow import settings
from ratchet_airflow.person import person

_WAIT = timedelta(days=1)


class SecondPersonOperator(ApprovalOperator):
    """Its value is the name of the second person, or empty where one is enough. A no, or no answer, promotes nothing.

    The one who triggered the run is not the second person: such an answer is asked for again.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            subject="Promote this version to production?",
            body="{{ dag_run.triggering_user_name }} asks to promote **{{ params.model }}** version "
            "**{{ params.version }}** by hand, because: {{ params.because }}. A second person has to agree.",
            defaults=self.REJECT,
            response_timeout=_WAIT,
            **kwargs,
        )

    def execute(self, context: Context) -> Any:
        """Ask, or succeed where one person is enough."""
        person(context)
        if _people(str(context["params"]["model"]), str(context["params"]["version"])) == 1:
            return ""
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """The name of the person who agreed."""
        who = event.get("responded_by_user")
        by, starter = str(who["name"]) if who else "", person(context)
        agreed = event.get("chosen_options") == [self.APPROVE]
        if agreed and (not by or same_person(by, starter)):
            self.log.warning("%s asked for this, and another person has to agree; asking again", starter)
            return super().execute(context)
        super().execute_complete(context, event)
        return by if agreed else ""


def _people(model: str, number: str) -> int:
    """How many people the pipeline of a version asks for."""
    from ratchet.production.version_origin import origin_of, rules_of
    from ratchet.store.ledger import records
    from ratchet.store.opening import open_store
    from ratchet.tracking.use_registry import use_registry

    here = settings.read()
    store = open_store(here.store)
    with tempfile.TemporaryDirectory(prefix="ratchet-") as folder:
        found = use_registry(store, here.tracking, Path(folder), lambda registry: registry.version(model, number))
    if found is None:
        raise ConfigurationError(f"the registry has no version {number} of {model}", remedy="name one that it has")
    origin = origin_of(store, model, found, pipelines=[one.pipeline for one in records(store, model)])
    return rules_of(store, origin).approvals
