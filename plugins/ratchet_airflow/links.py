"""Buttons of a task in the UI: a stage's page, the registered version in MLflow, and the table of all nights."""

from typing import Any

from airflow.sdk.bases.operatorlink import BaseOperatorLink

from ratchet.contracts.environment import environment
from ratchet.contracts.result import StageResult
from ratchet.contracts.stages import Stage
from ratchet.contracts.summaries import registration
from ratchet_airflow import settings
from ratchet_airflow.public_links import base_path


class PageLink(BaseOperatorLink):
    """The report of a run, or the validation page, on Airflow's own server (`pages`)."""

    name = "Page"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """The link; empty if there is no page. Airflow calls this in the worker when the task has ended."""
        if operator.result is None or "page.html" not in operator.result.outputs:
            return ""
        return f"{base_path()}{page_of(ti_key.dag_id, operator.result)}"


class ModelLink(BaseOperatorLink):
    """The registered version, if MLflow has a server."""

    name = "MLflow"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """The link; empty if nothing was registered. Airflow calls this in the worker when the task has ended."""
        tracking = environment().public_mlflow_url or settings.read().tracking or ""
        if operator.result is None or not tracking.startswith("http"):
            return ""
        made = registration(operator.result)
        return f"{tracking.rstrip('/')}/#/models/{made.model}/versions/{made.version}"


class NightsLink(BaseOperatorLink):
    """One table with the result of each date, those of backfills included."""

    name = "Nights"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """The link. Airflow calls this in the worker when the task has ended."""
        return f"{base_path()}/ratchet/nights/{ti_key.dag_id}"


def page_of(pipeline: str, result: StageResult) -> str:
    """The path on Airflow's server of a result's page. The result must have one."""
    return f"/ratchet/pages/{pipeline}/{result.stage}/{result.fingerprint}"


def verdict_of(pipeline: str, stored_run_id: str) -> str:
    """The path on Airflow's server of the verdict of a run."""
    return f"/ratchet/verdicts/{pipeline}/{stored_run_id}"


def links_of(stage: Stage) -> tuple[BaseOperatorLink, ...]:
    """The buttons of a stage's task."""
    if stage == "validate":
        return (PageLink(),)
    if stage == "report":
        return (PageLink(), NightsLink())
    return (ModelLink(),) if stage == "register" else ()
