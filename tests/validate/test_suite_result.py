"""The checks of a night in great-expectations' form: the library itself reads them, also those of a refused night."""

import json
import os
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ratchet.contracts.errors import DataRejected
from tests.world import LAST, World, clicks, rows


def loaded(world: World) -> Any:
    """What great-expectations reads of the newest run."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from great_expectations.core.expectation_validation_result import expectationSuiteValidationResultSchema

        text = world.store.read("runs/clicks/run-1/validate-great-expectations.json")
        return expectationSuiteValidationResultSchema.load(json.loads(text))


def test_the_library_reads_the_checks_of_a_refused_and_of_an_accepted_night(tmp_path: Path) -> None:
    world = clicks(tmp_path)
    world.document["columns"]["price"] |= {"min": 0, "max_null": "5%"}
    world.document["validate"] = {
        "expectations": [{"type": "expect_column_max_to_be_between", "column": "price", "max_value": 1e9}]
    }
    world.put_window(600)
    published = world.run("validate", inputs={"ingest": world.run("ingest")})
    found = loaded(world)
    assert found.success
    assert found.statistics["unsuccessful_expectations"] == 0
    assert published.result.outputs["great-expectations.json"].bytes > 0
    world.put(LAST, pa.table({**rows(600), "price": [-3.5] + [1.0 + i % 97 for i in range(599)]}))
    with pytest.raises(DataRejected):
        world.run("validate", inputs={"ingest": world.run("ingest")})
    found = loaded(world)
    assert not found.success
    (broken,) = [one for one in found.results if not one.success]
    assert broken.expectation_config.type == "expect_column_values_to_be_between"
    assert broken.expectation_config.kwargs == {"column": "price", "min_value": 0.0}
    assert broken.result["observed_value"] == "least -3.5"
    assert found.statistics["evaluated_expectations"] == len(found.results)
    kinds = {one.expectation_config.type: one.expectation_config.kwargs for one in found.results}
    assert kinds["expect_column_values_to_not_be_null"] == {"column": "price", "mostly": 0.95}
    assert kinds["expect_column_max_to_be_between"] == {"column": "price", "max_value": 1e9}
    assert {"expect_ratchet_times", "expect_ratchet_label_rate", "expect_ratchet_drift"} <= set(kinds)
