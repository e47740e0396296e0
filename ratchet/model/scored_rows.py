"""The held-out rows of a run, raw as the snapshot has them, with the scores that both models gave them."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from ratchet.contracts import summaries
from ratchet.contracts.errors import ConfigurationError, CorruptArtifact
from ratchet.contracts.result import StageResult
from ratchet.store.artifacts import fetch
from ratchet.store.base import Store

_OF_ROWS = frozenset({"label", "group", "weight"})
"""Columns of the scores that raw rows have themselves."""


def write_scored_rows(store: Store, ingested: StageResult, evaluated: StageResult, out: Path, scratch: Path) -> int:
    """Write a run's rows as CSV, if the file's name ends so, else as Parquet; how many there are.

    The columns of the source, then `day`, `row`, `candidate` and, with a champion, `baseline`. row: the place in the
    day's file of the snapshot. Models of several classes have a column for each: `candidate_0`. A name that the source
    has too gets `ratchet_` before it. Lists are JSON in CSV. Raises ConfigurationError for a run that was evaluated
    before rows were named, CorruptArtifact if files are gone or damaged, as after a purge.
    """
    if "scores" not in evaluated.outputs:
        raise CorruptArtifact("the run has no scored rows any more", remedy="run its date again, with --rebuild")
    scores = pq.read_table(fetch(store, evaluated.outputs["scores"], scratch))
    if not {"day", "row"} <= {*scores.column_names}:
        raise ConfigurationError(
            "the run was evaluated before scores named their rows", remedy="run its date again, with --rebuild"
        )
    files = {day.day: day.file for day in summaries.snapshot(ingested).days}
    days = scores["day"].to_numpy()
    pieces = []
    for day in dict.fromkeys(scores["day"].to_pylist()):
        places = scores["row"].filter(pa.array(days == np.datetime64(day)))
        with pq.ParquetFile(fetch(store, files[day], scratch)) as file:
            pieces.append(file.read().take(places))
    rows = pa.concat_tables(pieces)
    for name in scores.column_names:
        if name not in _OF_ROWS:
            rows = rows.append_column(f"ratchet_{name}" if name in rows.column_names else name, scores[name])
    if out.suffix == ".csv":
        pyarrow.csv.write_csv(_with_json(rows), out)
    else:
        pq.write_table(rows, out)
    return len(rows)


def _with_json(rows: pa.Table) -> pa.Table:
    """The rows with lists as JSON, as a source of CSV has them."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_list(field.type):
            texts = [None if cell is None else json.dumps(cell) for cell in rows[field.name].to_pylist()]
            rows = rows.set_column(place, field.name, pa.array(texts, pa.string()))
    return rows
