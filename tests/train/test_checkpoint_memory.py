"""A checkpoint takes the memory of one copy of the state and a little more, whatever the store."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.s3 import S3Server

MIB = 1 << 20
SIZE, PART = 256, 16
MORE = 96 * MIB
"""The buffers of an upload, 8 at once of 16 MiB to S3, of which a part has one; those of the memory's allocator."""


@pytest.mark.parametrize("kind", ["file", "s3"])
def test_saving_takes_one_copy_of_the_state_and_the_newest_alone_stays(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    uri, environment = (tmp_path / "store").as_uri(), dict(os.environ)
    if kind == "s3":
        uri = request.getfixturevalue("s3_uri")
        server: S3Server = request.getfixturevalue("s3_server")
        environment |= server.environment
    command = [sys.executable, "-m", "tests.train.large_state", uri, str(tmp_path), str(SIZE), str(PART)]
    ended = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert found["state"] <= found["stored"] < 1.01 * found["state"]
    assert found["memory"] <= found["state"] + MORE
