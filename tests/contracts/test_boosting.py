"""A key that has no effect on boosted trees is refused with them, and their keys are refused without them."""

import pytest

from ratchet.contracts.errors import PipelineInvalid
from ratchet.contracts.kinds import most_rounds
from ratchet.contracts.loading import loads
from ratchet.contracts.pipeline import PipelineSpec

TEXT = """\
name: small
source: {kind: files, uri: "/data/{date}.csv"}
columns:
  x: {role: numeric, type: float64}
  y: {role: label, type: int64}
train:
  objective: binary
  model: {kind: lightgbm}
"""
KEYS = "rounds, leaves, rate, min_rows"
REFUSED = [
    ({"train.steps": 100}, f"train.steps: 100 has no effect with kind lightgbm, which has {KEYS}; to do: set train.model.rounds in its place"),
    ({"train.learning_rate": 0.1}, "to do: set train.model.rate in its place"),
    ({"train.patience": 3, "train.valid_days": 0}, "train.patience: 3 has no effect with kind lightgbm and valid_days: 0, as nothing measures a plateau; to do: leave it out"),
    ({"train.optimizer": "sgd"}, f"train.optimizer: sgd has no effect with kind lightgbm, which has {KEYS}; to do: leave it out"),
    ({"train.precision": "bf16"}, f"bf16 has no effect with kind lightgbm, which has {KEYS}; to do: leave it out"),
    ({"train.curriculum": {"by": "age", "half_life_days": 3}}, "train.curriculum: it has no effect with kind lightgbm"),
    ({"train.model.hidden": [8]}, "train.model.hidden: (8,) has no effect with kind lightgbm"),
    ({"train.init": "champion"}, "train.init: champion: trees are grown from nothing, and lightgbm cannot begin with a model; allowed: fresh"),
    ({"resources.train": {"gpus": 1}}, "resources.train.gpus: 1: lightgbm trains in one process, on the cores of resources.train.cpus; allowed: 0"),
    ({"resources.train": {"processes": 2}}, "resources.train.processes: 2: lightgbm trains in one process"),
    ({"train.model.kind": "mlp", "train.model.leaves": 9}, "train.model.leaves: 9 has no effect: only lightgbm has leaves; to do: leave it out, or set kind: lightgbm"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "message"), REFUSED)
def test_what_has_no_effect_is_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(PipelineInvalid) as raised:
        loads(TEXT, "p.yaml", given)
    (line,) = str(raised.value).splitlines()
    assert message in line


def test_beside_a_key_that_is_invalid_itself_the_others_are_still_checked() -> None:
    with pytest.raises(PipelineInvalid) as raised:
        loads(TEXT, "p.yaml", {"train.patience": 0, "train.epochs": 3})
    assert ["train.patience" in line for line in sorted(str(raised.value).splitlines())] == [False, True]


def test_what_trees_have_is_accepted() -> None:
    given = {
        "train.model.rounds": 50,
        "train.model.leaves": 7,
        "train.model.rate": 0.3,
        "train.model.min_rows": 5,
        "train.model.min_count": 9,
        "train.seed": 3,
        "train.valid_days": 2,
        "train.patience": 4,
        "train.refit": True,
        "train.checkpoint": {"every": "1m", "steps": 5, "keep": 1},
        "train.watchdog": "5m",
    }
    spec = loads(TEXT, "p.yaml", given)
    assert spec.train.model.is_boosted
    assert PipelineSpec.model_validate_json(spec.model_dump_json(by_alias=True)) == spec


def test_rounds_are_those_of_the_file_or_depend_on_whether_a_plateau_is_seen() -> None:
    assert [most_rounds(30, measured=seen) for seen in (True, False)] == [30, 30]
    assert [most_rounds("auto", measured=seen) for seen in (True, False)] == [2000, 200]
