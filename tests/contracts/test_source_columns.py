import json
from typing import Any

import pytest
from pydantic import ValidationError

from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.source_columns import as_written
from tests.world import SPEC

TEXTS = ["no", "yes"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"names": {"prize": "x"}}, "prize is no column of the source"),
        ({"names": {"price": "country"}}, "country is country and price; a column is read once"),
        ({"names": {"price": "x", "country": "x"}}, "x is country and price; a column is read once"),
        ({"codes": {"clickd": TEXTS}}, "clickd is no column of the source"),
        ({"codes": {"price": TEXTS}}, "codes are whole numbers, and price is float64"),
        ({"codes": {"clicked": ("a", "a")}}, "names a text twice"),
    ],
)
def test_names_and_codes_are_of_columns(changes: dict[str, Any], said: str) -> None:
    document = json.loads(json.dumps(SPEC))
    document["source"] |= {"uri": "/{date}.csv", **changes}
    with pytest.raises(ValidationError) as error:
        PipelineSpec.model_validate(document)
    assert said in str(error.value)


def test_columns_may_swap_their_names() -> None:
    document = json.loads(json.dumps(SPEC))
    document["source"]["uri"] = "/{date}.csv"
    assert as_written(PipelineSpec.model_validate(document).source) == {}
    document["source"]["names"] = {"price": "price"}
    assert as_written(PipelineSpec.model_validate(document).source) == {}
    document["source"] |= {"names": {"price": "country", "country": "price"}, "codes": {"clicked": TEXTS}}
    source = PipelineSpec.model_validate(document).source
    assert as_written(source) == {"names": source.names, "codes": {"clicked": tuple(TEXTS)}}
