"""The value of a source's variable is found nowhere: not in what a run prints, and in no file of the store."""

import json
from pathlib import Path

import pytest

from tests.runs.nights import CallResult, ratchet

CANARY = "hunter2-of-the-shop"
TEXT = """\
name: shop
source: {{kind: {kind}, uri: '{uri}'{more}, window_days: 3}}
columns:
  x: {{role: numeric, type: float64}}
  y: {{role: label, type: int64}}
train: {{objective: binary}}
"""
QUERY = ", query: 'SELECT * FROM shop WHERE day = :date'"


def run(folder: Path, kind: str, uri: str, **environment: str) -> CallResult:
    """A run of a pipeline with this source, with --json."""
    (folder / "shop").mkdir()
    text = TEXT.format(kind=kind, uri=uri, more=QUERY if kind == "sql" else "")
    (folder / "shop" / "pipeline.yaml").write_text(text, encoding="utf-8")
    store = ("--store", str(folder / "store"), "--runner", "process", "--date", "2026-03-20", "--json")
    return ratchet("run", str(folder / "shop"), *store, environment=environment)


def leaks(folder: Path, ended: CallResult) -> list[str]:
    """Where the value is found."""
    files = [file for file in (folder / "store").rglob("*") if file.is_file() and CANARY.encode() in file.read_bytes()]
    shown = [name for name, text in (("stdout", ended.out), ("stderr", ended.err)) if CANARY in text]
    return [*shown, *(str(file.relative_to(folder)) for file in files)]


def test_a_stage_that_fails_with_a_secret_in_its_hands_names_the_variable_alone(tmp_path: Path) -> None:
    uri = "sqlite:////nowhere/${RATCHET_SOURCE_PASSWORD}/shop.db"
    ended = run(tmp_path, "sql", uri, RATCHET_SOURCE_PASSWORD=CANARY)
    assert ended.code != 0
    assert "${RATCHET_SOURCE_PASSWORD}" in ended.json["error"]["cause"]
    (plan,) = (tmp_path / "store" / "runs" / "shop").glob("*/plan.json")
    assert json.loads(plan.read_text(encoding="utf-8"))["spec"]["source"]["uri"] == uri
    assert leaks(tmp_path, ended) == []


@pytest.mark.parametrize("name", ["AIRFLOW__CORE__FERNET_KEY", "AWS_SECRET_ACCESS_KEY", "SHOP_PASSWORD", "HOME"])
@pytest.mark.parametrize("uri", ["/nope/${%s}/{date}", "s3://${%s}/{date}"])
def test_an_address_cannot_carry_a_secret_into_a_message_or_out_of_the_installation(
    name: str, uri: str, tmp_path: Path
) -> None:
    ended = run(tmp_path, "files", uri % name, **{name: CANARY, "RATCHET_SOURCE_VARIABLES": "SHOP_*"})
    assert ended.code == 64
    assert ended.json["error"]["cause"].partition(":2: ")[2].startswith(f"source.uri: ${{{name}}} is ")
    assert leaks(tmp_path, ended) == []


def test_a_password_in_the_file_stops_the_run_and_is_not_repeated(tmp_path: Path) -> None:
    ended = run(tmp_path, "sql", f"postgresql://me:{CANARY}@host/shop")
    assert ended.code == 64
    assert "source.uri: has a password as plain text" in ended.json["error"]["cause"]
    assert leaks(tmp_path, ended) == []
