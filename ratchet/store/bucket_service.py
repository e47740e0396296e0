"""The S3 service that has a bucket: the usual one, or that of the AWS profile `ratchet-bucket-NAME`.

A profile is a section of AWS's shared files. It has keys, and with `endpoint_url` the address of another service, such
as lakeFS or MinIO, so that a source may be elsewhere than the store.
"""

from dataclasses import dataclass

from ratchet.contracts.environment import environment
from ratchet.contracts.errors import ConfigurationError
from ratchet.store.rewritten_files import whole

_AWS = "https://s3.amazonaws.com"
_ENDPOINT = "endpoint_url"


@dataclass(frozen=True, slots=True)
class BucketService:
    """profile, region: the bucket's own, if it has one. endpoint: the address of a service that is not AWS."""

    profile: str | None
    endpoint: str | None
    region: str | None = None

    @property
    def url(self) -> str:
        """Its address."""
        return self.endpoint or _AWS


def service_of(bucket: str) -> BucketService:
    """Find it. Raises ConfigurationError for shared files that cannot be read."""
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session

    name = f"ratchet-bucket-{bucket}"
    usual = environment().s3_endpoint

    def read() -> BucketService:
        if name not in Session().available_profiles:
            return BucketService(profile=None, endpoint=usual)
        own = Session(profile=name).get_scoped_config()
        return BucketService(profile=name, endpoint=own.get(_ENDPOINT, usual), region=own.get("region"))

    try:
        return whole(read, BotoCoreError)
    except BotoCoreError as error:
        raise ConfigurationError(f"S3 cannot be set up: {error}", remedy="correct the AWS settings") from error
