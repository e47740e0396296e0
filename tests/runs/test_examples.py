"""Both examples, by every runner, with every kind of store: the same numbers each time."""

from pathlib import Path

import boto3
import pytest

from tests.readable import readable_by_all
from tests.runs.nights import DAY, run, sample
from tests.s3 import S3Server

pytestmark = [pytest.mark.docker, pytest.mark.heavy]
EXAMPLES = {"search-ranking": "ndcg@10", "payments-fraud": "pr_auc"}
WAYS = {
    "search-ranking": (("process", "folder"), ("docker", "S3")),
    "payments-fraud": (("process", "S3"), ("docker", "folder")),
}
"""Each runner and each kind of store for each example, and each runner with each kind of store for one of them."""
STAGES = ["ingest", "validate", "features", "train", "evaluate", "register", "report"]


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    return sample(readable_by_all(folder))


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_runner_and_every_store_give_the_same_model_and_the_same_verdict(
    example: str, data: Path, tmp_path: Path, s3_server: S3Server, s3_uri: str, stage_image: str
) -> None:
    readable_by_all(tmp_path)
    client = boto3.client("s3", **_client_settings(s3_server))
    for path in data.rglob("*.parquet"):
        client.upload_file(str(path), s3_server.bucket, f"source-{example}/{path.relative_to(data)}")
    in_s3 = f"s3://{s3_server.bucket}/source-{example}"
    data_and_store = {"folder": (str(data), str(tmp_path / "store")), "S3": (in_s3, s3_uri)}
    settings = {"folder": {"RATCHET_STAGE_IMAGE": stage_image}}
    settings["S3"] = {**settings["folder"], **s3_server.environment}
    calls = {
        (runner, kind): run(example, *data_and_store[kind], runner=runner, environment=settings[kind])
        for runner, kind in WAYS[example]
    }
    for how, ended in calls.items():
        assert ended.code == 0, f"{how}: {ended.err}"
        said = ended.json
        assert [stage["name"] for stage in said["stages"]] == STAGES
        assert {stage["state"] for stage in said["stages"]} == {"done"}
        assert said["verdict"] == "promote"
        assert said["model"] == {"name": example, "version": "1"}
    metrics, again = (ended.json["metrics"] for ended in calls.values())
    assert metrics == again
    metric = EXAMPLES[example]
    assert metrics["candidate"][metric] > 1.05 * metrics["baseline"][metric]
    (page,) = [Path(ended.json["report"]) for (_, kind), ended in calls.items() if kind == "folder"]
    assert example in page.read_text(encoding="utf-8")
    assert DAY.isoformat() in page.read_text(encoding="utf-8")


def _client_settings(server: S3Server) -> dict[str, str]:
    return {
        "endpoint_url": server.endpoint,
        "aws_access_key_id": "test",
        "aws_secret_access_key": "test-secret",
        "region_name": "us-east-1",
    }
