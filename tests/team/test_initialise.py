"""The first step of the stack: the buckets that are missing are made, wherever S3 is."""

import boto3
import pytest
from moto import mock_aws

from ratchet.contracts.errors import Unavailable
from team import initialise


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "RATCHET_STORE": "s3://shop-store",
        "RATCHET_DATA": "s3://shop-lake/raw",
        "RATCHET_ARTIFACTS": "s3://shop-mlflow",
        "RATCHET_LOGS": "",
    }.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize("region", ["us-east-1", "eu-central-1"])
def test_buckets_are_made_in_the_region_of_the_settings(region: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", region)
    with mock_aws():
        for _ in range(2):
            initialise._buckets()
        client = boto3.client("s3", region_name=region)
        made = {each["Name"] for each in client.list_buckets()["Buckets"]}
        assert made == {"shop-lake", "shop-mlflow", "shop-store"}
        where = client.get_bucket_location(Bucket="shop-store")["LocationConstraint"]
        assert (where or "us-east-1") == region


@pytest.mark.usefixtures("settings")
def test_a_bucket_that_cannot_be_made_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("RATCHET_STORE", "s3://a")
    monkeypatch.setattr(initialise, "_PATIENCE_S", -1)
    with mock_aws(), pytest.raises(Unavailable, match="cannot create bucket a: "):
        initialise._buckets()
