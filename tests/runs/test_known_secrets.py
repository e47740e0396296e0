"""No secret of a stage is in a line that has been masked, in whatever form it was printed."""

import json
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.contracts.masking import SHORTEST, Mask
from ratchet.contracts.source import DeltaSource, FilesSource, SqlSource
from ratchet.runners.log.lines import Line
from ratchet.runs.events import parse
from ratchet.runs.known_secrets import secrets_of

SQL = SqlSource(kind="sql", uri="postgresql://${SHOP_USER}:${SHOP_LOGIN}@db/shop", query="SELECT :date")
FILES = FilesSource(kind="files", uri="${PLACE}/{date}.csv")
AWS = b"[default]\naws_access_key_id = AKIAEXAMPLE\naws_secret_access_key = abc/def+ghi==\n"
MLFLOW = b"[mlflow]\nmlflow_tracking_username = tracker\nmlflow_tracking_password = 50%% off!\n"


def event(**fields: object) -> str:
    return json.dumps({"time": "t", "level": "info", "stage": "train", "event": "info", **fields})


@given(st.text(min_size=SHORTEST), st.text(), st.text())
def test_a_secret_is_in_no_text_that_is_masked(secret: str, before: str, after: str) -> None:
    shown = Mask([secret]).text(before + secret + after)
    assert secret not in shown.replace("***", "\0")


@pytest.mark.parametrize("secret", ["hunter2!", 'quo"te\\back', "ümläut/plus+sign", "two words", "%41%42"])
def test_a_secret_is_masked_as_it_is_printed_in_json_in_a_url_and_by_repr(secret: str) -> None:
    mask = Mask([secret])
    for form in (secret, quote(secret), quote(secret, safe=""), repr({"password": secret}), json.dumps([secret])):
        assert mask.line(f"connect {form} now").count("***") == 1
        inner = parse(Line("stdout", mask.line(event(message=f"connect {form} now", traceback=f"x\n{form}"))))
        assert inner.message.count("***") == inner.fields["traceback"].count("***") == 1


@pytest.mark.parametrize("secret", ["failure", "message", "cause", "error", "train", "event"])
def test_an_event_stays_an_event_when_a_secret_is_a_word_of_the_protocol(secret: str) -> None:
    line = json.dumps({"level": "error", "event": "failure", "message": secret, "cause": secret})
    masked = parse(Line("stdout", Mask([secret]).line(line)))
    assert (masked.name, masked.level, masked.message) == ("failure", "error", "***")
    assert secret not in masked.fields.values()


def test_what_holds_no_secret_is_the_same_line() -> None:
    line = event(message="epoch 2 of 3", loss=0.5)
    assert Mask(["hunter2!"]).line(line) is line


def test_the_secrets_are_those_of_the_files_the_source_and_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in {
        "SHOP_USER": "shopkeeper", "SHOP_LOGIN": "open sesame", "GITHUB_TOKEN": "ghp_12345", "PLACE": "/data",
        "SIGNING_KEY": "first line\nsecond line", "METADATA_CONN": "postgresql://airflow:s3cret@db/airflow",
        "SSH_KEY": f"{tmp_path}", "EDITOR": "emacs", "AWS_SECRET_ACCESS_KEY": "/kQ9xEXAMPLE",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    found = secrets_of(
        [FILES, SQL], {"aws-credentials": AWS, "mlflow-credentials": MLFLOW, "environment.json": b'{"A": "from file"}'}
    )
    expected = {"shopkeeper", "open sesame", "ghp_12345", "second line", "s3cret", "AKIAEXAMPLE", "abc/def+ghi==",
                "50% off!", "from file", "/kQ9xEXAMPLE"}  # fmt: skip
    assert expected <= found
    assert not found & {"/data", "emacs", f"{tmp_path}"}
    assert "/data" not in secrets_of([FILES], {})


def test_of_a_file_of_keys_the_region_the_address_and_the_user_are_shown() -> None:
    place = b"aws_security_token = token2\nendpoint_url = http://lake:9000\nregion = eu-west-1\n"
    mlflow = MLFLOW.replace(b"tracker", b"mlflow")
    mask = Mask(secrets_of([], {"aws-credentials": AWS + place, "mlflow-credentials": mlflow}))
    shown = "bucket raw at http://lake:9000 (region eu-west-1): mlflow.exceptions.MlflowException"
    assert mask.text(shown) == shown
    assert mask.text("AKIAEXAMPLE abc/def+ghi== token2, 50% off!") == "*** *** ***, ***"


def test_an_address_is_shown_unless_it_has_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_DATA", "/lake")
    monkeypatch.setenv("RATCHET_DATA_SHOP", "postgresql://me:hunter2!@db/shop")
    names = {"RATCHET_SOURCE_VARIABLES": "SHOP_*", "RATCHET_DATA": "/lake", "RATCHET_SOURCE_FILE": "shop.db"}
    for source in (
        DeltaSource(kind="delta", uri="${RATCHET_DATA}/t"),
        SqlSource(kind="sql", uri="sqlite:///${RATCHET_DATA}/${RATCHET_SOURCE_FILE}", query="SELECT :date"),
    ):
        mask = Mask(secrets_of([source], {"environment.json": json.dumps(names).encode()}))
        assert (
            mask.text("/lake/t: no such table in shop.db; allowed: SHOP_*")
            == "/lake/t: no such table in ***; allowed: SHOP_*"
        )
    hidden = secrets_of([SqlSource(kind="sql", uri="${RATCHET_DATA_SHOP}", query="SELECT :date")], {})
    assert "postgresql://me:hunter2!@db/shop" in hidden


def test_a_password_in_a_url_is_masked_whoever_wrote_it() -> None:
    shown = Mask([]).text("cannot connect to postgresql://me:pass:word@db:5432/shop, see https://docs/a@b")
    assert shown == "cannot connect to postgresql://me:***@db:5432/shop, see https://docs/a@b"
