"""The held-out rows of a run that came to a verdict, with the scores that evaluate kept of both models."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.contracts import summaries
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.request import Outcome, RunPlan
from ratchet.contracts.stages import Stage
from ratchet.metrics.metrics import Floats, Rows, constant
from ratchet.runs.history import days_of, plan_of, runs_of
from ratchet.runs.lost_versions import why_gone
from ratchet.runs.outcomes import outcomes
from ratchet.store.artifacts import fetch
from ratchet.store.base import Store
from ratchet.verdict.gate_check.draws import Indices
from ratchet.verdict.gate_check.sample import Column, Sample
from ratchet.verdict.masks import slice_rows

if TYPE_CHECKING:
    import pandas as pd

Ended = Mapping[Stage, Outcome]
_NAMES = frozenset({"id", "ignore", "categorical"})
"""Roles of columns that may name what rows belong to."""
_OF_NAMES = frozenset({"int64", "string"})


def newest_judged(store: Store, pipeline: str, *, run_id: str | None, day: str | None) -> RunPlan:
    """The plan of the newest run with a verdict, or of the one that is named.

    Raises ConfigurationError that says what to run first.
    """
    known = [found for found in days_of(store, pipeline) if day in {None, found.isoformat()}]
    removed = ""
    for found in reversed(known):
        for candidate in reversed(runs_of(store, pipeline, found)):
            ended = outcomes(store, pipeline, candidate) if run_id in {None, candidate} else {}
            if _evaluated(ended):
                plan = plan_of(store, pipeline, candidate)
                if plan is not None:
                    return plan
            removed = removed or _removed(store, pipeline, candidate, ended)
    if removed:
        raise ConfigurationError(removed, remedy=f"run `ratchet run {pipeline} --date DATE`, and check that run")
    which = f"run {run_id} of {pipeline} has no verdict" if run_id else f"no run of {pipeline} has a verdict yet"
    raise ConfigurationError(
        f"{which}{f' on {day}' if day else ''}",
        remedy=f"run `ratchet run {pipeline} --date DATE` first, and name its store with --store",
    )


def read(store: Store, plan: RunPlan, spec: PipelineSpec, scratch: Path) -> Sample:
    """The held-out rows of a run as a sample. spec: names the metric and the columns, of the run or of today's file."""
    ended = outcomes(store, plan.spec.name, plan.run_id)
    evaluated = ended["evaluate"].result
    assert evaluated is not None
    table = pq.read_table(fetch(store, evaluated.outputs["scores"], scratch))
    label = table.column("label").to_numpy()
    candidate, baseline = _scores(table, "candidate"), _scores(table, "baseline")
    assert candidate is not None
    alone = baseline is None or baseline.shape != candidate.shape
    frame = _frame(store, plan, ended, spec, label, scratch)
    columns = {name: _column(frame[name]) for name in _naming(plan, spec) if name in frame}
    cluster = spec.evaluate.cluster
    if cluster is not None and cluster not in columns:
        raise ConfigurationError(
            f"evaluate.cluster {cluster}: run {plan.run_id} has no such column on the rows that it was judged on",
            remedy="run the pipeline again, and check that run",
        )
    readable = [one for one in spec.evaluate.slices if one.columns <= set(frame)]
    codes = columns[cluster].codes if cluster is not None else None
    rows = Rows(label=label, offsets=_offsets(table), weight=_optional(table, "weight"), cluster=codes)
    return Sample(
        run_id=plan.run_id,
        day=plan.data_date,
        rows=rows,
        candidate=candidate,
        baseline=constant(spec.train.objective, spec.metric, rows) if baseline is None or alone else baseline,
        baseline_kind="constant" if alone else "champion",
        slices=tuple(rows for one in readable for rows in slice_rows(one, frame)),
        others=columns,
        unread=tuple(one.title for one in spec.evaluate.slices if one not in readable),
    )


def _evaluated(ended: Ended) -> bool:
    found = ended.get("evaluate")
    return found is not None and found.result is not None and "scores" in found.result.outputs


def _removed(store: Store, pipeline: str, run_id: str, ended: Ended) -> str:
    """Why a run with a verdict has no scored rows, if rows were removed."""
    ingested, evaluated = (ended[stage].result if stage in ended else None for stage in ("ingest", "evaluate"))
    if ingested is None or evaluated is None:
        return ""
    line = next(why_gone(store, pipeline, summaries.snapshot(ingested)), "")
    return line and f"run {run_id} of {pipeline} has no scored rows any more: {line}"


def _offsets(table: pa.Table) -> Indices | None:
    if "group" not in table.column_names:
        return None
    group = table.column("group").to_numpy()
    return np.append(np.flatnonzero(np.diff(group, prepend=-1) != 0), len(group)).astype(np.int64)


def _optional(table: pa.Table, name: str) -> Floats | None:
    return np.asarray(table.column(name).to_numpy()) if name in table.column_names else None


def _scores(table: pa.Table, name: str) -> Floats | None:
    """[rows], or [rows, classes] where there is a column for each class."""
    if name in table.column_names:
        return np.asarray(table.column(name).to_numpy())
    classes = [column for column in table.column_names if column.startswith(f"{name}_")]
    return np.stack([table.column(column).to_numpy() for column in classes], axis=1) if classes else None


def _frame(
    store: Store, plan: RunPlan, ended: Ended, spec: PipelineSpec, label: Floats, scratch: Path
) -> "pd.DataFrame":
    """Columns of the same rows out of the snapshot, none where it does not have these rows any more."""
    import pandas as pd

    from ratchet.model.rows import read_rows

    ingested, trained = (ended[stage].result if stage in ended else None for stage in ("ingest", "train"))
    if ingested is None or trained is None:
        return pd.DataFrame()
    held = set(summaries.trained(trained).split.holdout)
    files = [one.file for one in summaries.snapshot(ingested).days if one.day in held]
    names = {plan.spec.label, plan.spec.group, *_naming(plan, spec), *spec.slice_columns}
    wanted = {name: column for name, column in plan.spec.columns.items() if name in names and not column.derived}
    frames = []
    for file in files:
        frame = read_rows(fetch(store, file, scratch), wanted)
        frame = frame[frame[plan.spec.label].notna()]
        frames.append(frame.sort_values(plan.spec.group, kind="stable") if plan.spec.group else frame)
    frame = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    if len(frame) != len(label) or not np.array_equal(frame[plan.spec.label].to_numpy(np.float64), label):
        return pd.DataFrame()
    return frame


def _naming(plan: RunPlan, spec: PipelineSpec) -> list[str]:
    """The columns that may say what rows belong to, and the one that does."""
    cluster, own = spec.evaluate.cluster, {plan.spec.label, plan.spec.group}
    return [
        name
        for name, column in plan.spec.columns.items()
        if name == cluster or (name not in own and not column.derived and _may_name(column.role, column.type))
    ]


def _may_name(role: str, kind: str) -> bool:
    return role in _NAMES and kind in _OF_NAMES


def _column(values: object) -> Column:
    import pandas as pd

    assert isinstance(values, pd.Series)
    codes, unique = pd.factorize(values)
    return Column(codes=codes.astype(np.int64), values=tuple(str(value)[:100] for value in unique))
