"""Whose keys a stage is given."""

from pathlib import Path

import pytest

from ratchet.contracts.errors import ConfigurationError
from ratchet.runs.credentials import mlflow_credentials, s3_credentials
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


@pytest.mark.usefixtures("keys")
def test_a_stage_with_a_profile_of_its_own_gets_its_keys_and_no_others() -> None:
    assert s3_credentials("train") == (
        b"[default]\naws_access_key_id = training\naws_secret_access_key = s2\naws_session_token = t2"
    )


@pytest.mark.usefixtures("keys")
def test_a_stage_without_one_gets_those_that_the_usual_settings_lead_to(monkeypatch: pytest.MonkeyPatch) -> None:
    assert b"= test\n" in s3_credentials("features")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    assert b"= everything\n" in s3_credentials("features")
    monkeypatch.setenv("AWS_PROFILE", "ratchet-train")
    assert b"= training\n" in s3_credentials("features")


@pytest.mark.usefixtures("keys")
def test_a_profile_without_keys_and_a_machine_without_any_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="the profile ratchet-report has no keys"):
        s3_credentials("report")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(ConfigurationError, match="S3 needs credentials"):
        s3_credentials("train")


@pytest.mark.usefixtures("keys")
def test_a_file_that_is_none_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("hunter2 = 1")
    with pytest.raises(ConfigurationError, match="S3 credentials for train") as refused:
        s3_credentials("train")
    assert "hunter2" not in str(refused.value)


def test_mlflows_file_is_handed_on_without_what_else_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "credentials"
    monkeypatch.delenv("RATCHET_MLFLOW_CREDENTIALS", raising=False)
    assert mlflow_credentials() is None
    monkeypatch.setenv("RATCHET_MLFLOW_CREDENTIALS", str(file))
    file.write_text("[other]\nx = 1\n[mlflow]\nmlflow_tracking_username = stage\nmlflow_tracking_password = a%%b=c\n")
    assert mlflow_credentials() == b"[mlflow]\nmlflow_tracking_username = stage\nmlflow_tracking_password = a%%b=c\n"


@pytest.mark.parametrize(
    "text", [None, "", "hunter2", "[mlflow]\nmlflow_tracking_username = hunter2", "[mlflow]\nhunter2", "\xff"]
)
def test_a_file_without_what_mlflow_needs_is_refused_and_not_quoted(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "credentials"
    if text is not None:
        file.write_bytes(text.encode("latin-1"))
    monkeypatch.setenv("RATCHET_MLFLOW_CREDENTIALS", str(file))
    with pytest.raises(ConfigurationError, match=r"RATCHET_MLFLOW_CREDENTIALS: .*mlflow_tracking_password") as refused:
        mlflow_credentials()
    assert "hunter2" not in str(refused.value)
