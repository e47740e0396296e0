"""validate: a whole night of checks with its page, against one bare aggregation in polars, and great-expectations.

A window of three made-up days of 20 columns, the newest of which is new; validate measures it, compares it with the
others, and writes its page. The bare aggregation asks polars for rows, missing values, least and greatest of each
column of that day's file, mean and deviation of the numbers, and the number of values of the texts.
great-expectations asks the same of a data frame of pandas. Medians of three, one after the other. The quick variant has
200,000 rows; --full has ten million, and great-expectations a million of them.
"""

import tempfile
import warnings
from datetime import timedelta
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import polars as pl

from benchmarks import measure
from benchmarks.made_up_day import COLUMNS
from benchmarks.made_up_nights import LAST, night, source_file, world_of
from benchmarks.measure import Result

_ROUNDS = 3
_GOAL, _TIMES = 2.0, 20.0
_SOME = 1_000_000
_NUMBERS = [name for name, column in COLUMNS.items() if column["type"] != "string"]
_TEXTS = [name for name, column in COLUMNS.items() if column["type"] == "string"]


def run(*, full: bool) -> Result:
    """Nights of pipelines of which each measures the newest day for the first time."""
    rows = 10_000_000 if full else 200_000
    ours: list[float] = []
    bare: list[float] = []
    with tempfile.TemporaryDirectory(prefix="ratchet-") as place:
        world = world_of(Path(place), window=3, rows=rows)
        file = source_file(world, LAST)
        for number in range(_ROUNDS):
            world.document["name"] = f"pipeline-{number}"
            before = LAST - timedelta(days=1)
            world.document["source"]["missing_days"] = "skip"
            night(world, before, until="validate")
            ours.append(measure.seconds(partial(world.run, "validate", LAST, {"ingest": world.run("ingest", LAST)})))
            bare.append(measure.seconds(lambda: _bare(file)))
        some = min(rows, _SOME)
        slow = (
            measure.seconds(lambda: _great_expectations(pl.read_parquet(file, n_rows=some).to_pandas())) * rows / some
        )
    seconds, once = median(ours), median(bare)
    return Result(
        name="validate",
        ratio=max(seconds / once / _GOAL, _TIMES * seconds / slow),
        goal=1.0,
        unit="of what is allowed",
        ours=seconds,
        peer=once,
        peer_name="seconds of one aggregation in polars",
        rows=(
            ("validate", f"{seconds:.2f} s, {rows / seconds:,.0f} rows/s, {seconds / once:.1f} of the aggregation"),
            ("one aggregation in polars", f"{once:.2f} s"),
            ("great-expectations on pandas", f"{slow:.2f} s, {slow / seconds:.1f} times validate"),
        ),
    )


def _bare(file: Path) -> pl.DataFrame:
    of_all = [pl.col(name) for name in COLUMNS]
    asked = [pl.len()]
    asked += [column.null_count().name.suffix(".null") for column in of_all]
    asked += [column.min().name.suffix(".min") for column in of_all]
    asked += [column.max().name.suffix(".max") for column in of_all]
    asked += [pl.col(name).mean().name.suffix(".mean") for name in _NUMBERS]
    asked += [pl.col(name).std().name.suffix(".std") for name in _NUMBERS]
    asked += [pl.col(name).n_unique().name.suffix(".values") for name in _TEXTS]
    return pl.scan_parquet(file).select(asked).collect()


def _great_expectations(rows: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import great_expectations as gx

        context = gx.get_context(mode="ephemeral")
        asset = context.data_sources.add_pandas("pandas").add_dataframe_asset("day")
        batch = asset.add_batch_definition_whole_dataframe("whole").get_batch({"dataframe": rows})
        suite = gx.ExpectationSuite(name="suite", expectations=list(_expectations(gx.expectations)))
        found = batch.validate(suite)
    if not found.success:
        raise RuntimeError("a good day does not pass")


def _expectations(kinds: Any) -> list[Any]:
    made = [kinds.ExpectTableRowCountToBeBetween(min_value=1)]
    made += [kinds.ExpectColumnValuesToNotBeNull(column=name) for name in COLUMNS]
    made += [kinds.ExpectColumnValuesToBeBetween(column=name, min_value=-1e9, max_value=1e9) for name in _NUMBERS]
    made += [kinds.ExpectColumnMeanToBeBetween(column=name, min_value=-1e9, max_value=1e9) for name in _NUMBERS]
    made += [kinds.ExpectColumnStdevToBeBetween(column=name, min_value=0, max_value=1e9) for name in _NUMBERS]
    made += [kinds.ExpectColumnUniqueValueCountToBeBetween(column=name, min_value=1) for name in _TEXTS]
    return made
