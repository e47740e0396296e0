"""A pipeline with a refit: its stages, its limits, and where the files of its models are."""

import pytest

from ratchet.contracts.errors import PipelineInvalid
from ratchet.contracts.gate_keys import gate_keys
from ratchet.contracts.loading import loads
from ratchet.contracts.refit import maker
from ratchet.contracts.stages import REGULAR, STAGES, section, stage_module

TEXT = """\
name: small
source: {kind: files, uri: '/data/{date}'}
columns:
  x: {role: numeric, type: float64}
  y: {role: label, type: int64}
train: {objective: binary}
resources: {train: {gpus: 1, memory: 9g}}
stages: {train: {retries: 7, timeout: 2h}}
"""


def test_a_run_has_a_refit_only_where_the_file_asks_for_one() -> None:
    assert loads(TEXT).sequence == REGULAR
    assert "refit" not in REGULAR
    with_refit = loads(TEXT, overrides={"train.refit": True}).sequence
    assert with_refit == STAGES
    assert with_refit.index("evaluate") + 1 == with_refit.index("refit") == with_refit.index("register") - 1


def test_a_refit_has_the_resources_and_limits_of_train() -> None:
    spec = loads(TEXT, overrides={"train.refit": True})
    assert spec.resources_of("refit") == spec.resources["train"] == spec.resources_of("train")
    assert spec.settings_of("refit") == spec.stages["train"]
    assert spec.settings_of("refit").retries == 7
    assert section("refit") == "train"
    assert stage_module("refit").startswith("tasks.train.")


@pytest.mark.parametrize("key", ["resources", "stages"])
def test_a_refit_has_no_section_of_its_own(key: str) -> None:
    with pytest.raises(PipelineInvalid, match=rf"{key}\.refit"):
        loads(TEXT.replace(f"{key}: {{", f"{key}: {{refit: {{}}, "))


def test_to_ship_other_bits_than_the_measured_ones_is_a_change_of_the_gate() -> None:
    assert gate_keys(["train.refit", "train.epochs"]) == ("train.refit",)


def test_the_files_of_a_model_are_those_of_its_refit() -> None:
    assert maker({"train": "t"}) == "t"
    assert maker({"train": "t", "refit": "r"}) == "r"
    with pytest.raises(KeyError):
        maker({"ingest": "i"})
