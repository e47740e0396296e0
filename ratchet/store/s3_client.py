"""A connection to S3: settings, bounded retries, and its errors as ours."""

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

import boto3
from boto3.exceptions import Boto3Error
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,  # noqa: A004 - botocore's, which is no OSError
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    ResponseStreamingError,
)

from ratchet.contracts.environment import environment
from ratchet.contracts.errors import ConfigurationError, RatchetError, Unavailable

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 30  # without a byte
TRIES = 5
CONNECTIONS = 16
ABSENT = frozenset({"NoSuchKey", "404", "NotFound"})
_CUT = (ConnectionError, HTTPClientError, IncompleteReadError, ResponseStreamingError)
_TRANSIENT = frozenset(
    {"SlowDown", "RequestTimeout", "Throttling", "ThrottlingException", "TooManyRequests", "BadDigest", "409"}
    | {"ConditionalRequestConflict", "OperationAborted", "IncompleteBody"}
)
_RENEW = "renew the AWS credentials; run again if no retry follows"
_RENEWABLE = {
    **dict.fromkeys(("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"), _RENEW),
    "RequestTimeTooSkewed": "set the clock of this machine; run again if no retry follows",
}
"""Answers that end when a person acts, and what that is. They say nothing about what was asked for."""
_Result = TypeVar("_Result")


class Connection:
    """A client of one bucket's service, with the standard AWS settings: environment, shared files, instance roles.

    With AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL the path names the bucket, as servers other than AWS expect.
    """

    def __init__(self, bucket: str) -> None:
        self._bucket = bucket
        own = environment().s3_endpoint
        config = Config(
            connect_timeout=CONNECT_TIMEOUT_S,
            read_timeout=READ_TIMEOUT_S,
            max_pool_connections=CONNECTIONS,
            retries=None if "AWS_MAX_ATTEMPTS" in os.environ else {"mode": "standard", "total_max_attempts": TRIES},
            s3={"addressing_style": "path"} if own else None,
        )
        try:
            self._session = boto3.session.Session()
            region = self._session.region_name or "us-east-1"
            self.client: S3Client = self._session.client("s3", region_name=region, config=config)
        except (BotoCoreError, ValueError) as error:
            raise ConfigurationError(f"S3 cannot be set up: {error}", remedy="correct the AWS settings") from error

    @property
    def endpoint(self) -> str:
        """The address of the service."""
        return self.client.meta.endpoint_url

    def delta_options(self) -> dict[str, str]:
        """Storage options for a Delta table. They contain credentials."""
        credentials = self._session.get_credentials()
        if credentials is None:
            raise self.explain(NoCredentialsError())
        frozen = credentials.get_frozen_credentials()
        options = {
            "AWS_REGION": self.client.meta.region_name,
            "AWS_ACCESS_KEY_ID": frozen.access_key or "",
            "AWS_SECRET_ACCESS_KEY": frozen.secret_key or "",
            # Without it, commits to S3 need a lock table in another service.
            "aws_conditional_put": "etag",
        }
        if frozen.token:
            options["AWS_SESSION_TOKEN"] = frozen.token
        place = urlsplit(self.endpoint)
        if not (place.hostname or "").endswith((".amazonaws.com", ".amazonaws.com.cn")):
            options["AWS_ENDPOINT_URL"] = self.endpoint
        if place.scheme == "http":
            options["AWS_ALLOW_HTTP"] = "true"
        return options

    @contextmanager
    def store_errors(self, key: str = "") -> Iterator[None]:
        """Turn the client's errors into ours, and an absent object into FileNotFoundError."""
        try:
            yield
        except (BotoCoreError, ClientError, Boto3Error) as error:
            cause = _cause(error)
            if key and isinstance(cause, ClientError) and error_code(cause) in ABSENT:
                raise FileNotFoundError(f"s3://{self._bucket}/{key} is not in the store") from error
            raise self.explain(cause) from error

    def explain(self, error: BaseException) -> RatchetError:
        """The error for people that an error of the client means."""
        where = f"bucket {self._bucket} at {self.endpoint}"
        if isinstance(error, ClientError):
            code, status = error_code(error), error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            message = error.response.get("Error", {}).get("Message", "")
            if code == "NoSuchBucket" or code in ABSENT:
                return ConfigurationError(
                    f"{where}: the bucket does not exist", remedy="create the bucket, or correct its name"
                )
            if status >= HTTPStatus.INTERNAL_SERVER_ERROR or code in _TRANSIENT | _RENEWABLE.keys():
                return Unavailable(f"{where}: answered {code}: {message}", remedy=_RENEWABLE.get(code))
            return ConfigurationError(
                f"{where}: refused with {code}: {message}",
                remedy="check the AWS credentials, the region, and the rights to get, put, delete and list",
            )
        if isinstance(error, (*_CUT, Boto3Error)):
            return Unavailable(f"{where}: does not answer: {error}")
        if isinstance(error, NoCredentialsError):
            return ConfigurationError(
                f"{where}: there are no credentials",
                remedy="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write a shared credentials file",
            )
        return ConfigurationError(f"{where}: {error}", remedy="correct the AWS settings")


def error_code(error: ClientError) -> str:
    """The service's code for an error; the HTTP status if the answer had no body."""
    return str(error.response.get("Error", {}).get("Code", ""))


def retry_unavailable(once: Callable[[], _Result]) -> _Result:
    """Retry a download that was cut off. The client itself retries only until the first byte of an answer."""
    for attempt in range(1, TRIES):
        try:
            return once()
        except _CUT:
            pause(attempt)
    return once()


def pause(attempt: int) -> None:
    """Wait a random time, longer after each attempt: up to 0.2, 0.4, 0.8, ... seconds."""
    time.sleep(random.uniform(0, 0.1 * 2**attempt))


def _cause(error: BaseException) -> BaseException:
    """The cause of an error; boto3's transfers wrap it in another error."""
    inner = error.__cause__ or error.__context__
    return inner if isinstance(error, Boto3Error) and isinstance(inner, (ClientError, BotoCoreError)) else error
