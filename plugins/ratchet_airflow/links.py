"""Buttons of a task in the UI: the page that a stage made, and the registered version in MLflow, all nights."""

from typing import Any

from airflow.sdk.bases.operatorlink import BaseOperatorLink

from ratchet.contracts.result import StageResult
from ratchet.contracts.stages import Stage
from ratchet.contracts.summaries import registration
from ratchet_airflow import settings


class PageLink(BaseOperatorLink):
    """The report of a run, or the validation page. Airflow's own server shows it, see `pages`."""

    name = "Page"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Called in the worker when the task has ended. Empty if there is no page."""
        if operator.result is None or "page.html" not in operator.result.outputs:
            return ""
        return page_of(ti_key.dag_id, operator.result)


class ModelLink(BaseOperatorLink):
    """The registered version, where MLflow has a server."""

    name = "MLflow"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:  # noqa: ARG002 - Airflow's signature
        """Called in the worker when the task has ended. Empty if nothing was registered."""
        tracking = settings.read().tracking or ""
        if operator.result is None or not tracking.startswith("http"):
            return ""
        made = registration(operator.result)
        return f"{tracking.rstrip('/')}/#/models/{made.model}/versions/{made.version}"


class NightsLink(BaseOperatorLink):
    """All dates of the pipeline in one table: what a backfill came to, among others."""

    name = "Nights"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:  # noqa: ARG002 - Airflow's signature
        """Called in the worker when the task has ended."""
        return f"/ratchet/nights/{ti_key.dag_id}"


def page_of(pipeline: str, result: StageResult) -> str:
    """Where Airflow's server shows the page of a result, which has to have one."""
    return f"/ratchet/pages/{pipeline}/{result.stage}/{result.fingerprint}"


def links_of(stage: Stage) -> tuple[BaseOperatorLink, ...]:
    """The buttons of a stage's task."""
    if stage == "validate":
        return (PageLink(),)
    if stage == "report":
        return (PageLink(), NightsLink())
    return (ModelLink(),) if stage == "register" else ()
