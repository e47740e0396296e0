"""Settings that the release of a plan did not have, also those of the entries of lists, are no parts of fingerprints."""

from pydantic import Field

from ratchet.contracts.checks import Validate
from ratchet.contracts.document import Document
from ratchet.contracts.fingerprint import flatten
from ratchet.contracts.loading import loads
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.stored import read_stored
from ratchet.runs.code_of_plan import known_parts
from tests.runs.test_requests import SPEC, plan


class Inner(Document):
    """added: of this release."""

    size: int
    added: str = "new"


class Entry(Document):
    """The entry of a list."""

    name: str
    inner: Inner
    by_name: dict[str, Inner] = Field(default_factory=dict)
    added: int = 7


class Settings(Document):
    """Stands for the part of a pipeline file that has a list of tables."""

    tables: tuple[Entry, ...]
    number: int = 1


def test_an_entry_of_a_list_has_the_keys_that_it_was_written_with() -> None:
    written = b"""{"tables": [{"name": "a", "inner": {"size": 1}, "by_name": {"x": {"size": 2}}},
                              {"name": "b", "inner": {"size": 3, "added": "own"}, "added": 8}]}"""
    of_before = read_stored(Settings, written, where="x")
    made = plan(code={"train": "0" * 64})
    made = made.model_copy(update={"spec": made.spec.model_copy(update={"train": of_before})})
    parts = flatten(of_before, "config.train")
    assert '"added": 7' in parts["config.train.tables"]
    assert known_parts(made, "train", parts) == {
        "config.train.tables": '[{"by_name": {"x": {"size": 2}}, "inner": {"size": 1}, "name": "a"}, '
        '{"added": 8, "inner": {"added": "own", "size": 3}, "name": "b"}]'
    }


def test_lists_that_were_written_whole_stay_as_they_are() -> None:
    spec = loads(SPEC.replace("slices: [country]", "slices: [country, {column: x, bins: 4}, {where: 'x > 1'}]"))
    argument = {"type": "expect_column_max_to_be_between", "column": "x", "max_value": 3, "meta": {"a": [1]}}
    spec = spec.model_copy(update={"validate_": Validate.model_validate({"expectations": [argument]})})
    read = read_stored(PipelineSpec, spec.model_dump_json(by_alias=True).encode(), where="x")
    made = plan(code={"train": "0" * 64}).model_copy(update={"spec": read})
    parts = {**flatten(spec.validate_, "config.validate"), **flatten(spec.gate, "config.gate")}
    assert "meta" in parts["config.validate.expectations"]
    assert known_parts(made, "train", parts) == parts
