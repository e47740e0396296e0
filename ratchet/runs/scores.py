"""The held-out rows of a run, raw as the snapshot has them, with the scores that both models gave them."""

from datetime import date
from pathlib import Path
from typing import Any

from ratchet.contracts import summaries
from ratchet.contracts.errors import ConfigurationError
from ratchet.runs.judged_run import JudgedRun
from ratchet.store.artifacts import fetch
from ratchet.store.base import Store

_OF_ROWS = frozenset({"label", "group", "weight"})
"""Columns of the scores that raw rows have themselves."""


def scored_rows(store: Store, run: JudgedRun, scratch: Path) -> Any:
    """An Arrow table: the columns of the source, then `day`, `row`, `candidate` and, with a champion, `baseline`.

    row: the place in the day's file of the snapshot. Models of several classes have a column for each: `candidate_0`.
    A name that the source has too gets `ratchet_` before it. Raises ConfigurationError for a run that was evaluated
    before rows were named, CorruptArtifact if files are gone or damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    scores = pq.read_table(fetch(store, run.results["evaluate"].outputs["scores"], scratch))
    if not {"day", "row"} <= {*scores.column_names}:
        raise ConfigurationError(
            f"the run {run.plan.spec.name}/{run.plan.run_id} was evaluated before scores named their rows",
            remedy="run its date again",
        )
    files = {day.day: day.file for day in summaries.snapshot(run.results["ingest"]).days}
    days = scores["day"].to_numpy()
    pieces = []
    for day in dict.fromkeys(scores["day"].to_pylist()):
        places = scores["row"].filter(pa.array(days == _numpy(day)))
        pieces.append(pq.ParquetFile(fetch(store, files[day], scratch)).read().take(places))
    rows = pa.concat_tables(pieces)
    for name in scores.column_names:
        if name not in _OF_ROWS:
            rows = rows.append_column(f"ratchet_{name}" if name in rows.column_names else name, scores[name])
    return rows


def _numpy(day: date) -> Any:
    import numpy as np

    return np.datetime64(day)
