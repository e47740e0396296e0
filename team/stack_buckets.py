"""The stack's own S3: a client of it, its buckets, and whose the objects in them are."""

from configparser import ConfigParser
from typing import TYPE_CHECKING, Literal

from team.stack import Stack

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

Owner = Literal["store", "artifacts", "data"]


def s3_address(stack: Stack) -> str:
    """The address of S3 on this host."""
    return f"http://127.0.0.1:{stack.settings.s3_port}"


def s3_client(stack: Stack) -> "S3Client":
    """A client of the stack's S3 with all rights."""
    import boto3
    from botocore.config import Config

    parser = ConfigParser(interpolation=None)
    parser.read(stack.secrets / "s3-admin")
    client: S3Client = boto3.client(
        "s3",
        endpoint_url=s3_address(stack),
        region_name=stack.settings.s3_region,
        aws_access_key_id=parser["default"]["aws_access_key_id"],
        aws_secret_access_key=parser["default"]["aws_secret_access_key"],
        config=Config(s3={"addressing_style": "path"}),
    )
    return client


def buckets(stack: Stack) -> list[str]:
    """Each bucket once, in the order in which they are saved: the store's first, that of the data last."""
    return list(dict.fromkeys(bucket for bucket, _ in _places(stack).values()))


def further_sources(stack: Stack) -> list[str]:
    """The buckets of RATCHET_SOURCE_ROOTS that nothing else is in."""
    return [bucket for bucket in stack.settings.source_buckets if bucket not in buckets(stack)]


def in_store(stack: Stack, key: str) -> tuple[str, str]:
    """Bucket and key of an object of the store."""
    bucket, prefix = _places(stack)["store"]
    return bucket, f"{prefix}/{key}" if prefix else key


def owner(stack: Stack, bucket: str, key: str) -> Owner:
    """Whose object it is, by the longest prefix of the settings. What is in none of them is somebody's data."""
    fitting: list[tuple[int, Owner]] = [
        (len(prefix), name)
        for name, (place, prefix) in _places(stack).items()
        if place == bucket and (not prefix or f"{key}/".startswith(f"{prefix}/"))
    ]
    return max(fitting, default=(0, "data"), key=lambda each: each[0])[1]


def _places(stack: Stack) -> dict[Owner, tuple[str, str]]:
    """Bucket and prefix of each."""

    def place(address: str) -> tuple[str, str]:
        bucket, _, prefix = address.removeprefix("s3://").partition("/")
        return bucket, prefix.strip("/")

    settings = stack.settings
    return {"store": place(settings.store), "artifacts": place(settings.artifacts), "data": place(settings.data)}
