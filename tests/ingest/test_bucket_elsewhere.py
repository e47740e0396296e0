"""A source in a bucket of another service than the store's: its address and keys are those of the bucket's profile."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.contracts import summaries
from ratchet.contracts.errors import ConfigurationError
from ratchet.store.bucket_service import service_of
from ratchet.store.opening import open_store
from tests.s3 import S3Server
from tests.world import LAST, clicks, rows

NOWHERE = "http://127.0.0.1:9"


def _elsewhere(s3: S3Server, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual settings lead nowhere, the bucket's profile to the server."""
    own = f"aws_access_key_id = test\naws_secret_access_key = test-secret\nendpoint_url = {s3.endpoint}\n"
    (folder / "keys").write_text(f"[ratchet-bucket-{s3.bucket}]\n{own}")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "keys"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", NOWHERE)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "another")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")


def test_a_day_is_read_with_the_profile_of_its_bucket(
    s3: S3Server, s3_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _elsewhere(s3, tmp_path, monkeypatch)
    pq.write_table(pa.table(rows(60, LAST)), tmp_path / "day.parquet")
    open_store(s3_uri).upload(tmp_path / "day.parquet", f"{LAST}.parquet")
    world = clicks(
        tmp_path,
        source={"kind": "files", "uri": f"{s3_uri}/{{date}}.parquet", "window_days": 3, "missing_days": "skip"},
    )
    assert summaries.snapshot(world.run("ingest").result).rows == 60
    assert service_of(s3.bucket).url == s3.endpoint
    assert service_of("another-bucket").url == NOWHERE


def test_a_file_that_is_none_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ratchet.store.rewritten_files._PAUSE_S", 0.0)
    (tmp_path / "keys").write_text("hunter2 = 1")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "keys"))
    with pytest.raises(ConfigurationError, match="S3 cannot be set up") as refused:
        open_store("s3://bucket/x")
    assert "hunter2" not in str(refused.value)
