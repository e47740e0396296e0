"""Both examples, by every runner, with every kind of store: the same numbers each time."""

from pathlib import Path

import boto3
import pytest

from tests.runs.nights import DAY, run, sample
from tests.s3 import S3Server

pytestmark = [pytest.mark.docker, pytest.mark.heavy, pytest.mark.xdist_group("examples")]
EXAMPLES = {"search-ranking": "ndcg@10", "payments-fraud": "pr_auc"}
STAGES = ["ingest", "validate", "features", "train", "evaluate", "register", "report"]


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    folder.parent.chmod(0o755)  # containers are not root, and pytest's own folders are for their owner alone
    folder.parent.parent.chmod(0o755)
    folder.chmod(0o755)
    return sample(folder, rows_per_day=6000)


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_runner_and_every_store_give_the_same_model_and_the_same_verdict(
    example: str, data: Path, tmp_path: Path, s3_server: S3Server, s3_uri: str, stage_image: str
) -> None:
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    client = boto3.client("s3", **_client_settings(s3_server))
    for path in data.rglob("*.parquet"):
        client.upload_file(str(path), s3_server.bucket, f"source-{example}/{path.relative_to(data)}")
    in_s3 = f"s3://{s3_server.bucket}/source-{example}"
    image = {"RATCHET_STAGE_IMAGE": stage_image}
    bucket = {**image, **s3_server.environment}
    calls = {
        "process, folder": run(example, str(data), str(tmp_path / "one")),
        "docker, folder": run(example, str(data), str(tmp_path / "two"), runner="docker", environment=image),
        "process, S3": run(example, in_s3, f"{s3_uri}/one", environment=bucket),
        "docker, S3": run(example, in_s3, f"{s3_uri}/two", runner="docker", environment=bucket),
    }
    for how, ended in calls.items():
        assert ended.code == 0, f"{how}: {ended.err}"
        said = ended.json
        assert [stage["name"] for stage in said["stages"]] == STAGES
        assert {stage["state"] for stage in said["stages"]} == {"done"}
        assert said["verdict"] == "promote"
        assert said["model"] == {"name": example, "version": "1"}
        assert said["metrics"] == calls["process, folder"].json["metrics"], how
    metrics = calls["process, folder"].json["metrics"]
    metric = EXAMPLES[example]
    assert metrics["candidate"][metric] > 1.15 * metrics["baseline"][metric]
    page = Path(calls["docker, folder"].json["report"])
    assert example in page.read_text(encoding="utf-8")
    assert DAY.isoformat() in page.read_text(encoding="utf-8")


def _client_settings(server: S3Server) -> dict[str, str]:
    return {
        "endpoint_url": server.endpoint,
        "aws_access_key_id": "test",
        "aws_secret_access_key": "test-secret",
        "region_name": "us-east-1",
    }
