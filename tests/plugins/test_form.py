"""The trigger form."""

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import ParamValidationError

from ratchet.contracts.gate_keys import gate_keys
from ratchet.contracts.loading import load
from ratchet_airflow import form
from tests.dags.pipelines import write


def filled(folder: Path, given: dict[str, Any], **changes: str) -> dict[str, Any]:
    """What the form hands on for what a person gave."""
    fields = ParamsDict(form.params(load(write(folder, "search-ranking", **changes))))
    fields.update(given)
    return fields.validate()


def test_an_empty_form_changes_nothing(tmp_path: Path) -> None:
    assert form.overrides(filled(tmp_path, {})) == {}


def test_what_is_filled_in_becomes_the_value_of_its_key(tmp_path: Path) -> None:
    given = {"date": "2026-11-20", "window_days": 5, "epochs": 1, "learning_rate": 0.01, "seed": 0, "rebuild": True}
    assert form.overrides(filled(tmp_path, given)) == {
        "source.window_days": 5,
        "train.epochs": 1,
        "train.learning_rate": 0.01,
        "train.seed": 0,
    }


@pytest.mark.parametrize(
    "given",
    [
        {"date": "yesterday"},
        {"date": ""},
        {"date": "2026-13-01"},
        {"epochs": 0},
        {"epochs": "many"},
        {"learning_rate": 0},
        {"seed": -1},
        {"promote": "now"},
        {"rebuild": "perhaps"},
        {"window_days": 1.5},
    ],
)
def test_nonsense_is_refused_by_the_form(tmp_path: Path, given: dict[str, Any]) -> None:
    with pytest.raises(ParamValidationError):
        filled(tmp_path, given)


def test_no_field_and_no_key_of_a_conf_changes_the_gate(tmp_path: Path) -> None:
    assert gate_keys(form.KEYS.values()) == ()
    for key, value in {"gate.confidence": "80%", "confidence": "80%", "register.promote": "auto", "gate": {}}.items():
        assert form.overrides({**filled(tmp_path, {}), key: value}) == {}


def test_a_run_can_wait_for_approval_only_where_the_file_has_it(tmp_path: Path) -> None:
    assert filled(tmp_path, {"promote": "approve"}, promote="approve")["promote"] == "approve"
    with pytest.raises(ParamValidationError):
        filled(tmp_path, {"promote": "approve"}, promote="auto")


@pytest.mark.parametrize("file", ["approve", "never"])
def test_a_run_can_ask_for_no_more_than_the_file_allows(tmp_path: Path, file: str) -> None:
    assert filled(tmp_path, {"promote": "never"}, promote=file)["promote"] == "never"
    with pytest.raises(ParamValidationError):
        filled(tmp_path, {"promote": "auto"}, promote=file)


def test_every_field_says_what_it_does(tmp_path: Path) -> None:
    fields = form.params(load(write(tmp_path, "search-ranking")))
    assert all(field.schema["title"] and field.schema["description_md"] for field in fields.values())
