"""Whose keys a stage is given."""

import threading
from pathlib import Path

import pytest

from ratchet.contracts.errors import ConfigurationError, Unavailable
from ratchet.runs.credentials import mlflow_credentials, s3_credentials
from ratchet.store.opening import open_store
from tests.ports import hold, number
from tests.s3 import S3Server

KEYS = """[default]
aws_access_key_id = everything
aws_secret_access_key = s1
[ratchet-train]
aws_access_key_id = training
aws_secret_access_key = s2
aws_session_token = t2
[ratchet-report]
region = eu-west-1
"""


@pytest.fixture
def keys(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with profiles, and keys in the environment, too."""
    assert s3.environment["AWS_ACCESS_KEY_ID"] == "test"
    (tmp_path / "keys").write_text(KEYS)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "keys"))


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is broken for good is found so without a wait."""
    monkeypatch.setattr("ratchet.store.rewritten_files._PAUSE_S", 0.0)


@pytest.mark.usefixtures("keys")
def test_a_stage_with_a_profile_of_its_own_gets_its_keys_and_no_others() -> None:
    assert s3_credentials("train", ["data"]) == (
        b"[default]\naws_access_key_id = training\naws_secret_access_key = s2\naws_session_token = t2"
    )


@pytest.mark.usefixtures("keys")
def test_a_stage_without_one_gets_those_that_the_usual_settings_lead_to(monkeypatch: pytest.MonkeyPatch) -> None:
    assert b"= test\n" in s3_credentials("features", ["data"])
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    assert b"= everything\n" in s3_credentials("features", ["data"])
    monkeypatch.setenv("AWS_PROFILE", "ratchet-train")
    assert b"= training\n" in s3_credentials("features", ["data"])


@pytest.mark.usefixtures("keys")
def test_a_bucket_with_a_profile_has_its_own_keys_and_address(tmp_path: Path) -> None:
    own = "[ratchet-bucket-lake]\naws_access_key_id = lake\naws_secret_access_key = s3\nendpoint_url = http://lake:1\n"
    (tmp_path / "keys").write_text(f"{KEYS}{own}")
    default = "[default]\naws_access_key_id = training\naws_secret_access_key = s2\naws_session_token = t2\n"
    assert s3_credentials("train", ["data", "lake"]).decode() == default + own.strip()
    assert s3_credentials("train", ["lake"]).decode() == own.strip()


@pytest.mark.usefixtures("keys")
def test_a_profile_without_keys_and_a_machine_without_any_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unavailable, match="the profile ratchet-report has no keys"):
        s3_credentials("report", ["data"])
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(Unavailable, match="S3 needs credentials"):
        s3_credentials("train", ["data"])


@pytest.mark.usefixtures("keys", "at_once")
def test_a_file_that_is_none_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("hunter2 = 1")
    with pytest.raises(ConfigurationError, match="S3 cannot be set up") as refused:
        s3_credentials("train", ["data"])
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "half", ["[default]\naws_access_key_id = AK", KEYS + "[rat", "[default]\naws_access_key_id = a\nhunter2"]
)
def test_a_file_that_is_written_in_place_is_waited_for(
    half: str, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "keys"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    for ask in (lambda: open_store(f"s3://{s3.bucket}/x"), lambda: s3_credentials("train", ["data"])):
        file.write_text(half)
        rest = threading.Timer(0.1, file.write_text, [KEYS])
        rest.start()
        ask()
        rest.join()
    assert b"= training\n" in s3_credentials("train", ["data"])


@pytest.mark.parametrize("process", ["sh -c 'exit 3'", 'echo \'{"Version": 1, "Acc\'', "/nonexistent/keys"])
def test_a_program_that_gives_no_keys_now_may_give_them_soon(
    process: str, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text(f"[default]\ncredential_process = {process}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    for ask in (lambda: open_store(f"s3://{s3.bucket}/x"), lambda: s3_credentials("train", ["data"])):
        with pytest.raises(Unavailable, match="credentials"):
            ask()


def test_a_role_of_a_container_that_does_not_answer_may_answer_soon(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with hold() as gone:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"http://127.0.0.1:{number(gone)}/keys")
        with pytest.raises(Unavailable, match="credentials"):
            open_store(f"s3://{s3.bucket}/x")


@pytest.mark.usefixtures("keys", "at_once")
def test_settings_that_are_wrong_stay_wrong(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    for ask in (lambda: open_store(f"s3://{s3.bucket}/x"), lambda: s3_credentials("features", ["data"])):
        with pytest.raises(ConfigurationError, match="no-such-profile"):
            ask()


def test_mlflows_file_is_handed_on_without_what_else_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "credentials"
    monkeypatch.delenv("RATCHET_MLFLOW_CREDENTIALS", raising=False)
    assert mlflow_credentials() is None
    monkeypatch.setenv("RATCHET_MLFLOW_CREDENTIALS", str(file))
    file.write_text("[other]\nx = 1\n[mlflow]\nmlflow_tracking_username = stage\nmlflow_tracking_password = a%%b=c\n")
    assert mlflow_credentials() == b"[mlflow]\nmlflow_tracking_username = stage\nmlflow_tracking_password = a%%b=c\n"


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    "text", ["", "hunter2", "[mlflow]\nmlflow_tracking_username = hunter2", "[mlflow]\nhunter2", "\xff"]
)
def test_a_file_without_what_mlflow_needs_is_refused_and_not_quoted(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "credentials"
    file.write_bytes(text.encode("latin-1"))
    monkeypatch.setenv("RATCHET_MLFLOW_CREDENTIALS", str(file))
    with pytest.raises(ConfigurationError, match=r"RATCHET_MLFLOW_CREDENTIALS: .*mlflow_tracking_password") as refused:
        mlflow_credentials()
    assert "hunter2" not in str(refused.value)


def test_a_file_for_mlflow_that_is_not_there_may_be_there_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_MLFLOW_CREDENTIALS", str(tmp_path / "credentials"))
    with pytest.raises(Unavailable, match="No such file"):
        mlflow_credentials()
