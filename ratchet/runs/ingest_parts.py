"""The parts of the fingerprint of ingest: the columns, how its sources are read, and each day of them."""

from typing import Any

from ratchet.contracts.fingerprint import flatten
from ratchet.contracts.request import RunPlan

_NOT_ROWS = {"uri", "window_days", "wait", "ready", "keep_days"}
"""The keys of a source that the identities of its days hold, or that do not change them."""


def ingest_parts(plan: RunPlan) -> dict[str, str]:
    """What a run reads."""
    schema = {name: {"type": column.type, "derived": column.derived} for name, column in plan.spec.columns.items()}
    days = {f"source.{day.day}": day.identity for day in plan.source}
    order = {"config.columns": " ".join(plan.spec.columns)}
    again = {f"rebuild.{plan.data_date}": plan.run_id} if plan.refused_by else {}
    source = plan.spec.source.model_dump(mode="json", exclude=_NOT_ROWS)
    own = {**flatten(schema, "config.columns"), **order, **flatten(source, "config.source"), **days, **again}
    return {**own, **_joins(plan)}


def _joins(plan: RunPlan) -> dict[str, str]:
    exclude: dict[str, Any] = {"source": _NOT_ROWS}
    config = {name: join.model_dump(mode="json", exclude=exclude) for name, join in plan.spec.joins.items()}
    days = {f"joins.{name}.{day.day}": day.identity for name, of in plan.joins.items() for day in of.days}
    return {**(flatten(config, "config.joins") if config else {}), **days}
