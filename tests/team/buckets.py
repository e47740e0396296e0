"""What tests of buckets share."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client


def contents(client: "S3Client", bucket: str) -> dict[str, bytes]:
    """The content of each object."""
    listed = client.list_objects_v2(Bucket=bucket).get("Contents", [])
    return {each["Key"]: client.get_object(Bucket=bucket, Key=each["Key"])["Body"].read() for each in listed}


def stored(client: "S3Client", bucket: str, objects: Mapping[str, bytes]) -> None:
    """Put objects."""
    for key, content in objects.items():
        client.put_object(Bucket=bucket, Key=key, Body=content)
