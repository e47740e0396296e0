"""Documents of other releases: keys of newer ones are left out, and what a reader must know is refused by name."""

import json
import tomllib
from pathlib import Path

import pytest
from pydantic import ValidationError

from ratchet.contracts.checks import Validate
from ratchet.contracts.errors import CorruptArtifact, OtherRelease
from ratchet.contracts.exits import ExitCode
from ratchet.contracts.loading import loads
from ratchet.contracts.plan_changes import SourceChange
from ratchet.contracts.release_number import RELEASE
from ratchet.contracts.request import RunPlan, SourceDay
from ratchet.contracts.stored import KNOWN, read_stored, take, with_unknown
from tests.contracts.test_request import SPEC

DAY = b'{"day": "2026-11-20", "files": [{"key": "k", "bytes": 1, "identity": "i", "colour": 1}], "shape": {"a": 1}}'


def test_keys_of_newer_releases_are_left_out_at_each_depth() -> None:
    found = read_stored(SourceDay, DAY, where="days/x")
    assert found == SourceDay(day="2026-11-20", files=({"key": "k", "bytes": 1, "identity": "i"},))  # type: ignore[arg-type] # pydantic makes them
    assert take(SourceChange, {"at": "2026-11-20T00:00:00Z", "days": [], "by": "?"}).days == ()
    with pytest.raises(ValidationError):
        take(SourceChange, {"at": "when?"})
    with pytest.raises(
        OtherRelease, match=r"^the change cannot be read by Ratchet .*: at: .*; another release wrote it"
    ):
        take(SourceChange, {"at": "when?", "days": []}, where="the change")


def test_the_arguments_of_an_expectation_are_no_keys_of_a_newer_release() -> None:
    written = Validate.model_validate(
        {
            "expectations": [
                {"type": "expect_column_max_to_be_between", "column": "x", "max_value": 3, "meta": {"a": [1]}}
            ]
        }
    )
    found = read_stored(Validate, written.model_dump_json().encode(), where="x")
    assert found == written
    assert found.expectations[0].arguments() == {"column": "x", "max_value": 3, "meta": {"a": [1]}}
    assert found.model_dump_json() == written.model_dump_json()
    assert take(Validate, json.loads(written.model_dump_json())) == written


def test_what_a_reader_must_know_is_refused_by_name_unless_it_is_known() -> None:
    data = json.dumps({**json.loads(DAY), "needs": {"zoned-days": "0.9"}}).encode()
    with pytest.raises(OtherRelease) as raised:
        read_stored(SourceDay, data, where="s3://b/days/x")
    assert str(raised.value) == (
        f"s3://b/days/x was written by Ratchet 0.9 or newer and needs zoned-days; this is Ratchet {RELEASE}; "
        "to do: upgrade to 0.9 or newer"
    )
    assert raised.value.code is ExitCode.UNAVAILABLE
    assert read_stored(SourceDay, data, where="x", known={*KNOWN, "zoned-days"}).files


@pytest.mark.parametrize("needs", [b'{"needs": 1,', b'["needs"]', b'"needs"'])
def test_a_word_that_is_no_mapping_is_no_need(needs: bytes) -> None:
    with pytest.raises(CorruptArtifact):
        read_stored(SourceDay, needs, where="days/x")


def test_a_document_that_cannot_be_read_is_named_with_its_key_and_no_bytes_are_one() -> None:
    with pytest.raises(OtherRelease, match=r"^runs/x cannot be read by Ratchet .*: day: .*another release wrote it;"):
        read_stored(SourceDay, b'{"day": 12.5, "files": []}', where="runs/x")
    with pytest.raises(CorruptArtifact, match=r"^runs/x is damaged: Invalid JSON") as raised:
        read_stored(RunPlan, b'{"run_id": "r"', where="runs/x")
    assert not isinstance(raised.value, OtherRelease)


def test_files_that_people_write_refuse_unknown_keys() -> None:
    with pytest.raises(Exception, match=r"train\.colour"):
        loads(SPEC.replace("objective: binary", "objective: binary, colour: red"))


def test_the_release_is_that_of_the_package() -> None:
    text = (Path(__file__).resolve().parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert tomllib.loads(text)["project"]["version"] == RELEASE


def test_what_a_reader_does_not_know_is_written_again_at_each_depth() -> None:
    written = json.loads(DAY) | {"needs": {"known": "0.2"}, "more": [1]}
    written["files"] += [{"key": "l", "bytes": 2, "identity": "j", "colour": 2}]
    before = read_stored(SourceDay, json.dumps(written).encode(), where="x", known={"known"})
    after = before.model_copy(update={"files": (before.files[1], before.files[0].model_copy(update={"bytes": 3}))})
    again = with_unknown(before, written, after, lambda plain: [plain])
    assert (again["more"], again["needs"]) == ([[1]], [{"known": "0.2"}])
    assert [file.get("colour") for file in again["files"]] == [[2], None]  # one that was changed is a new one
    assert with_unknown(before, written, before)["shape"] == {"a": 1}
    assert read_stored(SourceDay, json.dumps(again).encode(), where="x", known={"known"}) == after
