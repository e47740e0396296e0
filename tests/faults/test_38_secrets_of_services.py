"""The keys of S3 and of MLflow, which a whole run in containers uses, are found nowhere that it leaves anything."""

import base64
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import HTTPError

import boto3
import pytest

from ratchet.contracts.labels import Label
from ratchet.contracts.stages import REGULAR
from ratchet.runners.docker import DockerRunner
from ratchet.runs.jobs import store_label
from tests.faults.inspected import inspected
from tests.readable import readable_by_all
from tests.runs.nights import DAY, ROOT, SMALL, sample
from tests.s3 import S3Server

pytestmark = [pytest.mark.docker, pytest.mark.heavy]
S3_CANARY, MLFLOW_CANARY = "canary-51c8e0d7s3", "canary-90ab77e2mlflow"
CANARIES = (S3_CANARY, MLFLOW_CANARY, base64.b64encode(f"ratchet:{MLFLOW_CANARY}".encode()).decode())
PIPELINE = "search-ranking"


@contextmanager
def asking_for_a_password(server: str) -> Iterator[tuple[str, list[int]]]:
    """The address of a door before MLflow that asks for its password, and what it answered so far."""
    wanted, answered = f"Basic {CANARIES[-1]}", []

    class Door(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.headers.get("Authorization") != wanted:
                return self._answer(401, b"who are you?")
            given = {name: value for name, value in self.headers.items() if name.lower() in {"content-type", "accept"}}
            asked = urllib.request.Request(server + self.path, body or None, given, method=self.command)
            try:
                with urllib.request.urlopen(asked, timeout=60) as found:
                    return self._answer(found.status, found.read())
            except HTTPError as error:
                return self._answer(error.code, error.read())

        do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

        def _answer(self, status: int, body: bytes) -> None:
            answered.append(status)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Door) as door:
        thread = threading.Thread(target=door.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{door.server_port}", answered
        finally:
            door.shutdown()
            thread.join()


def test_the_keys_of_s3_and_of_mlflow_are_found_nowhere(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    s3_server: S3Server,
    s3_uri: str,
    mlflow_server: str,
    stage_image: str,
) -> None:
    readable_by_all(tmp_path)
    credentials = tmp_path / "mlflow-credentials"
    keys = {"mlflow_tracking_username": "ratchet", "mlflow_tracking_password": MLFLOW_CANARY}
    credentials.write_text("\n".join(["[mlflow]", *(f"{key} = {value}" for key, value in keys.items())]))
    with asking_for_a_password(mlflow_server) as (tracking, answered):
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("RATCHET_", "MLFLOW_"))},
            **s3_server.environment,
            "AWS_SECRET_ACCESS_KEY": S3_CANARY,
            "MLFLOW_TRACKING_URI": tracking,
            "RATCHET_MLFLOW_CREDENTIALS": str(credentials),
            "RATCHET_DATA": str(sample(tmp_path / "data")),
            "RATCHET_STAGE_IMAGE": stage_image,
            "PYTHONPATH": str(ROOT),
        }
        words = ["run", PIPELINE, "--store", s3_uri, "--runner", "docker", "--date", f"{DAY}", "--json", *SMALL]
        label = f"{Label.STORE}={store_label(s3_uri)}"
        with (tmp_path / "said").open("wb") as said, inspected(label, time.time()) as containers:
            command = [sys.executable, "-m", "ratchet.cli.main", *words]
            done = subprocess.run(command, env=environment, cwd=tmp_path, stdout=said, stderr=said, check=False)
        output = (tmp_path / "said").read_text()
        assert done.returncode == 0, output
    seen = "\n".join(containers)
    assert 200 in answered
    assert 401 not in answered  # the password was there when it was asked for
    assert {stage for stage in REGULAR if f'"{Label.STAGE}": "{stage}"' in seen} == set(REGULAR)

    settings = {"endpoint_url": s3_server.endpoint, "region_name": "us-east-1"}
    client = boto3.client("s3", aws_access_key_id="x", aws_secret_access_key="x", **settings)
    prefix = s3_uri.removeprefix(f"s3://{s3_server.bucket}/")
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=s3_server.bucket, Prefix=prefix)
    keys_there = [entry["Key"] for page in pages for entry in page["Contents"]]
    stored = {key: client.get_object(Bucket=s3_server.bucket, Key=key)["Body"].read() for key in keys_there}
    assert any(key.endswith("/page.html") for key in stored)
    image = [["docker", "image", "inspect", stage_image], ["docker", "history", "--no-trunc", stage_image]]
    places = {
        "what it said": output.encode(),
        "docker inspect": seen.encode(),
        **{" ".join(words): subprocess.run(words, capture_output=True, check=True).stdout for words in image},
        **stored,
        **{
            str(file): file.read_bytes()
            for folder in (tmp_path, *tmp_path_factory.getbasetemp().glob("mlflow-server*"))
            for file in folder.rglob("*")
            if file.is_file() and file != credentials
        },
    }
    found = [place for place, content in places.items() if any(canary.encode() in content for canary in CANARIES)]
    assert found == []
    assert DockerRunner().find({Label.STORE: store_label(s3_uri)}) == []
