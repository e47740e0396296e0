"""The scores of a champion that knows other classes than the pipeline file."""

from typing import Any

import numpy as np
import pytest

from ratchet.contracts.pipeline import PipelineSpec
from tasks.evaluate.classes import same_classes
from tests.shop import SPEC


def spec(classes: int) -> PipelineSpec:
    label: dict[str, Any] = {"role": "label", "type": "int64", "in": list(range(classes))}
    columns = {**SPEC["columns"], "clicked": label}
    return PipelineSpec.model_validate({**SPEC, "columns": columns, "train": {"objective": "multiclass"}})


def test_a_class_that_a_model_lacks_has_no_chance() -> None:
    assert same_classes(np.array([[0.25, 0.75]]), spec(3)).tolist() == [[0.25, 0.75, 0.0]]


def test_the_chance_of_a_class_that_is_gone_goes_to_the_others_in_proportion() -> None:
    found = same_classes(np.array([[0.1, 0.3, 0.6], [0.0, 0.0, 1.0]]), spec(2))
    assert found == pytest.approx(np.array([[0.25, 0.75], [0.5, 0.5]]))


def test_scores_of_the_same_classes_and_of_rankings_stay_as_they_are() -> None:
    scores = np.array([[0.2, 0.8]])
    assert same_classes(scores, spec(2)).tolist() == scores.tolist()
    assert same_classes(scores[0], PipelineSpec.model_validate(SPEC)).tolist() == scores[0].tolist()
