"""The table and the JSON of `ratchet history`, and how the verbs of production read their argument."""

import json
from pathlib import Path

import pytest

from ratchet.cli.main import main
from ratchet.cli.model_version import split
from ratchet.contracts.errors import ConfigurationError
from ratchet.production.release import release
from ratchet.production.rollback import rollback
from ratchet.store.file import FileStore
from tests.production.registered import MODEL, promote, registered


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    made = registered(tmp_path / "store")
    for number, name in enumerate("ab"):
        promote(made, name, after=number)
    rollback(made, MODEL, by="ann", because="clicks fell")
    release(made, MODEL, version="2", by="bob", because="it was the logging")
    return made


def test_history_has_a_line_for_each_record_and_names_what_was_released(
    store: FileStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["history", MODEL, "--store", store.uri]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert lines[3].split()[:3] == ["3", "rollback", "1"]
    assert lines[3].endswith("ann       clicks fell")
    assert lines[4].split()[:4] == ["4", "release", "of", "2"]


def test_history_as_json_has_every_field_and_the_dates_in_office(
    store: FileStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["history", MODEL, "--store", store.uri, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [record["number"] for record in shown] == [1, 2, 3, 4]
    assert shown[2]["bans"][0]["version"] == "2"
    assert shown[2]["in_office"]["last"] is None


def test_a_model_that_never_was_is_an_error_also_as_json(store: FileStore, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "nobody", "--store", store.uri, "--json"]) == 64
    said = capsys.readouterr()
    assert "never in production" not in said.err
    assert "no model 'nobody' was ever in production" in json.loads(said.out)["error"]["cause"]


@pytest.mark.parametrize(
    ("given", "version", "found"), [("m@3", None, ("m", "3")), ("m", None, ("m", None)), ("m@03", True, ("m", "3"))]
)
def test_a_model_and_its_version_are_told_from_each_other(
    given: str, version: bool | None, found: tuple[str, str | None]
) -> None:
    assert split(given, version=version) == found


@pytest.mark.parametrize(
    ("given", "version", "form"),
    [
        ("m@3", False, "MODEL"),
        ("m", True, "MODEL@VERSION"),
        ("m@", None, "MODEL or MODEL@VERSION"),
        ("m@x", None, "MODEL"),
    ],
)
def test_another_form_is_refused(given: str, version: bool | None, form: str) -> None:
    with pytest.raises(ConfigurationError, match=f"is not {form}"):
        split(given, version=version)


def test_a_path_is_no_model() -> None:
    with pytest.raises(ConfigurationError, match="cannot be part of a path"):
        split("../m", version=None)
