"""A real S3 server process on loopback, one for each test worker, and stores of every kind."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

_SERVER = Path(__file__).with_name("s3_server.py")
_BUCKET = "ratchet-test"


class S3Server(NamedTuple):
    """Where the server is, and the environment in which a process finds it."""

    endpoint: str
    bucket: str
    environment: dict[str, str]


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """The server, with one empty bucket."""
    with s3_running(tmp_path_factory.mktemp("s3") / "log") as server:
        yield server


@contextmanager
def s3_running(log: Path) -> Iterator[S3Server]:
    """The same for a block. log: what the server prints."""
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(_SERVER), _BUCKET],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env={**os.environ, "MOTO_S3_CUSTOM_ENDPOINTS": "", "NO_PROXY": "*"},
        )
    try:
        assert process.stdout is not None
        # The server says where it is once it listens, or ends; it ends by itself when this process does.
        endpoint = process.stdout.readline().decode().strip()
        if not endpoint:
            pytest.fail(f"the S3 server did not start:\n{log.read_text(errors='replace')}")
        yield S3Server(
            endpoint,
            _BUCKET,
            {
                "AWS_ENDPOINT_URL": endpoint,
                "AWS_ACCESS_KEY_ID": "test",
                "AWS_SECRET_ACCESS_KEY": "test-secret",
                "AWS_DEFAULT_REGION": "us-east-1",
                "AWS_EC2_METADATA_DISABLED": "true",
                "AWS_CONFIG_FILE": os.devnull,
                "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
                "NO_PROXY": "127.0.0.1",
            },
        )
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def s3(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server, with this process's AWS settings leading to it and to nothing else."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return s3_server


@pytest.fixture
def s3_uri(s3: S3Server) -> str:
    """An empty prefix of the bucket that no other test uses."""
    return f"s3://{s3.bucket}/{uuid.uuid4().hex}"


@pytest.fixture(params=["file", "s3", "mem"])
def store_uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store of each kind in turn."""
    match request.param:
        case "s3":
            return str(request.getfixturevalue("s3_uri"))
        case "mem":
            return f"mem://{uuid.uuid4().hex}"
        case _:
            return (tmp_path / "store").as_uri()
