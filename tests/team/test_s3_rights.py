"""The rights of each user of S3: the stack's own server and IAM policies give the same, by evaluators of their own."""

import json
import tarfile
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from moto.core import set_initial_no_auth_action_count
from moto.iam.access_control import IAMPolicy, PermissionResult

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.stages import STAGES
from team import s3_logins
from team.s3_rights import iam_policies, seaweed_actions
from team.settings import Settings

STORE = Path(__file__).resolve().parents[1] / "stores" / "ff9b446" / "store.tar.xz"
SETTINGS = Settings(store="s3://shop-ratchet", data="s3://lake/raw", artifacts="s3://shop-mlflow", source_roots="s3://lake/raw, s3://erp")  # fmt: skip


def permitted(policy: Any, action: str, place: str) -> bool:
    """What moto's evaluator of IAM says."""
    said = IAMPolicy(json.dumps(policy)).is_action_permitted(f"s3:{action}", f"arn:aws:s3:::{place}")
    return said is PermissionResult.PERMITTED


def allowed(actions: list[str], right: str, bucket: str, key: str) -> bool:
    """What SeaweedFS says: a right is one of a bucket, or of BUCKET/PATTERN."""
    places = [action.partition(":")[2] for action in actions if action.partition(":")[0] == right]
    return any(fnmatchcase(f"{bucket}/{key}", place) or place == bucket for place in places)


def keys_of_a_real_store() -> list[str]:
    with tarfile.open(STORE) as packed:
        return [file.name.partition("/")[2] for file in packed if file.isfile() and file.name.startswith("store/")]


def test_a_policy_gives_what_the_stacks_own_server_gives_for_each_key_of_a_real_store() -> None:
    policies, actions = iam_policies(SETTINGS), seaweed_actions(SETTINGS)
    assert set(policies) == set(actions)
    admin = policies.pop("admin")  # who makes the buckets, and does nothing else
    assert permitted(admin, "CreateBucket", "shop-mlflow")
    assert not permitted(admin, "GetObject", "shop-mlflow/a")
    keys = keys_of_a_real_store()
    assert len(keys) > 100
    writers: dict[str, set[str]] = {}
    for name, policy in policies.items():
        for bucket, key in [
            *(("shop-ratchet", key) for key in keys),
            ("lake", "a"),
            ("erp", "a"),
            ("shop-mlflow", "a"),
        ]:
            may = permitted(policy, "PutObject", f"{bucket}/{key}")
            assert (
                may
                == permitted(policy, "DeleteObject", f"{bucket}/{key}")
                == allowed(actions[name], "Write", bucket, key)
            )
            assert permitted(policy, "GetObject", f"{bucket}/{key}") == allowed(actions[name], "Read", bucket, key)
            if may:
                writers.setdefault(f"{bucket}/{key}", set()).add(name)
        for bucket in ("shop-ratchet", "lake", "erp", "shop-mlflow"):
            assert permitted(policy, "ListBucket", bucket) == allowed(actions[name], "List", bucket, "")
    for key in keys:  # what a stage wrote, it may write; only trainings share a place
        stages = writers[f"shop-ratchet/{key}"] - {"orchestrator"}
        place = key.split("/")[0]
        assert (len(stages) > 0) == (
            place in {"published", "tables", "checkpoints", "ledger", "versions"}
        ) or place == "runs"
        assert len(stages) <= 1 or stages == {"ratchet-train", "ratchet-refit"}, key
    assert "lake/a" not in writers


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_writes_its_results_and_neither_those_of_others_nor_the_ledger(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    with mock_aws():
        _check_stage(stage)


def _check_stage(stage: str) -> None:
    iam, admin = boto3.client("iam", "us-east-1"), boto3.client("s3", "us-east-1")
    admin.create_bucket(Bucket="shop-ratchet")
    iam.create_user(UserName=stage)
    policy = json.dumps(iam_policies(SETTINGS)[f"ratchet-{stage}"])
    iam.put_user_policy(UserName=stage, PolicyName="ratchet", PolicyDocument=policy)
    key = iam.create_access_key(UserName=stage)["AccessKey"]
    client = boto3.client(
        "s3", "us-east-1", aws_access_key_id=key["AccessKeyId"], aws_secret_access_key=key["SecretAccessKey"]
    )

    def writes(place: str) -> bool:
        try:
            client.put_object(Bucket="shop-ratchet", Key=place, Body=b"x")
        except ClientError as error:
            return error.response["Error"]["Code"] != "AccessDenied"
        return bool(client.get_object(Bucket="shop-ratchet", Key=place)["Body"].read() == b"x")

    def check() -> None:
        other = "evaluate" if stage != "evaluate" else "train"
        assert writes(paths.manifest(paths.published("p", stage, "0a")))
        assert not writes(paths.manifest(paths.published("p", other, "0a")))
        assert not writes(paths.plan("p", "r"))
        assert writes("ledger/m/00000001.json") == (stage == "register")
        assert "ResponseMetadata" in client.list_objects_v2(Bucket="shop-ratchet")

    set_initial_no_auth_action_count(0)(check)()  # from here on moto asks the policies


def test_copies_of_backups_need_their_prefix_alone(tmp_path: Path) -> None:
    settings = Settings(backups_to="s3://copies/ratchet/", backups_key=tmp_path)
    policy = iam_policies(settings)["backups"]
    for action in ("GetObject", "PutObject", "DeleteObject"):
        assert permitted(policy, action, "copies/ratchet/shop/2026/a.sealed")
        assert not permitted(policy, action, "copies/other")
    assert permitted(policy, "ListBucket", "copies")


def test_each_service_gets_its_own_user_of_an_s3_elsewhere() -> None:
    users = ("admin", "orchestrator", "reader", "mlflow", "ratchet-train", "ratchet-report")
    text = "".join(f"[{name}]\naws_access_key_id = AK-{name}\n" for name in users)
    files = s3_logins.of_elsewhere(text, "file")
    held = {name: [user for user in users if f"AK-{user}\n" in content] for name, content in files.items()}
    assert held == {
        "s3-admin": ["admin"],
        "s3-orchestrator": ["orchestrator"],
        "s3-reader": ["reader"],
        "s3-mlflow": ["mlflow"],
        "s3-worker": ["orchestrator", "ratchet-train", "ratchet-report"],
    }
    of_a_bucket = f"{text}[ratchet-bucket-lake]\naws_access_key_id = AK-lake\nendpoint_url = https://lake.example\n"
    files = s3_logins.of_elsewhere(of_a_bucket, "file")  # plans and ingest read sources
    assert {name for name, content in files.items() if "lake.example" in content} == {"s3-worker", "s3-orchestrator"}
    chained = f"{text}[ratchet-train2]\nsource_profile = admin\n"
    assert set(s3_logins.of_elsewhere(chained, "file").values()) == {chained}


def test_where_store_models_and_logs_share_a_bucket_nobody_gets_the_whole_of_it_for_a_prefix() -> None:
    settings = Settings(store="s3://one", artifacts="s3://one/mlflow/", data="s3://two/raw", logs="s3://two/logs")
    policies, actions = iam_policies(settings), seaweed_actions(settings)
    places = (
        "one/mlflow/1/model",
        "one/ledger/m/1.json",
        "one/mlflow2/a",
        "two/logs/a.log",
        "two/raw/a",
        "two/logs2/a",
    )
    for name, writes in (
        ("mlflow", {"one/mlflow/1/model"}),
        ("orchestrator", {"one/mlflow/1/model", "one/ledger/m/1.json", "one/mlflow2/a", "two/logs/a.log"}),
        ("reader", set()),
    ):
        assert {place for place in places if permitted(policies[name], "PutObject", place)} == writes
        assert {place for place in places if allowed(actions[name], "Write", *place.split("/", 1))} == writes
    assert permitted(policies["mlflow"], "ListBucket", "one")


def test_who_collects_garbage_may_see_uploads_that_nobody_finished() -> None:
    policies = iam_policies(SETTINGS)
    may = {name for name, said in policies.items() if permitted(said, "ListBucketMultipartUploads", "shop-ratchet")}
    assert may == {"orchestrator"}
    assert permitted(policies["orchestrator"], "AbortMultipartUpload", "shop-ratchet/published/a")


def test_a_policy_fits_into_a_user_and_does_not_grow_with_pipelines() -> None:
    for policy in iam_policies(SETTINGS).values():
        assert len("".join(json.dumps(policy).split())) < 1024  # AWS allows 2,048, and 6,144 in a managed policy


def test_a_credentials_file_without_a_user_that_services_need_is_refused_before_they_start() -> None:
    with pytest.raises(ConfigurationError, match="my-file has no profile admin, reader, and no default"):
        s3_logins.of_elsewhere("[orchestrator]\naws_access_key_id = AK\n", "my-file")
    assert "AK" in s3_logins.of_elsewhere("[default]\naws_access_key_id = AK\n", "my-file")["s3-admin"]
    assert s3_logins.of_elsewhere("", "my-file")["s3-admin"] == ""  # a role of the host
