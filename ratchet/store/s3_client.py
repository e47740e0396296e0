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
import botocore.session
from boto3.exceptions import Boto3Error
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,  # noqa: A004 - botocore's, which is no OSError
    CredentialRetrievalError,
    HTTPClientError,
    IncompleteReadError,
    MetadataRetrievalError,
    NoAuthTokenError,
    NoCredentialsError,
    ResponseStreamingError,
    SSOError,
    TokenRetrievalError,
)
from botocore.loaders import Loader
from urllib3.exceptions import HTTPError

from ratchet.contracts.errors import ConfigurationError, NoAnswer, RatchetError
from ratchet.store.bucket_service import service_of
from ratchet.store.renewed_keys import RenewedKeys, ask_heads_again, follow_keys
from ratchet.store.rewritten_files import whole

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 30  # without a byte
TRIES = 5
CONNECTIONS = 16
ABSENT = frozenset({"NoSuchKey", "404", "NotFound"})
CUT = (ConnectionError, HTTPClientError, IncompleteReadError, ResponseStreamingError, HTTPError)
"""Errors of a connection that was not made, or broke; of one that is encrypted, botocore passes on urllib3's own."""
_TRANSIENT = frozenset(
    {"SlowDown", "RequestTimeout", "Throttling", "ThrottlingException", "TooManyRequests", "BadDigest", "409"}
    | {"ConditionalRequestConflict", "OperationAborted", "IncompleteBody"}
)
_LATER = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})
"""Statuses that ask for another try. The answer to a HEAD request has nothing else."""
_NO_KEYS = (
    NoCredentialsError,
    CredentialRetrievalError,
    MetadataRetrievalError,
    NoAuthTokenError,
    SSOError,
    TokenRetrievalError,
)
"""A source of keys that has none at the moment, such as an instance's role or a file that is being replaced."""
_BARE = frozenset({"400", "403"})
"""What botocore gives as the code of a refusal without a body."""
_MENDED = frozenset({"400"})
"""Such a refusal, if the next request was none: what was wrong with it is over."""
_UNKNOWN_KEYS = frozenset({"SignatureDoesNotMatch", "InvalidAccessKeyId", "403"})
"""Refusals of keys that are wrong, or that were read from a file that was half written; with a status alone also of
keys that have expired, where the next request had new ones and was none."""
GIVE_KEYS = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, write a shared credentials file, or check the role of this "
    "machine; run again if no retry follows"
)
"""What to do where there are no keys."""
_RENEW = "renew the AWS credentials; run again if no retry follows"
_SET_CLOCK = "set the clock of this machine; run again if no retry follows"
_RENEWABLE = {
    **dict.fromkeys(("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "InvalidToken"), _RENEW),
    **dict.fromkeys(("RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture"), _SET_CLOCK),
}
"""Answers that end when a person acts, and what that is. They say nothing about what was asked for."""
_Result = TypeVar("_Result")


class _Models(Loader):
    """What botocore knows of services, read once for all connections: to read it takes longer than all else of one."""

    @property
    def search_paths(self) -> list[str]:
        """Where it is. A copy, since each session of boto3 adds a folder that a client does not need."""
        return [*super().search_paths]


_models = _Models()


class Connection:
    """A client of one bucket's service, with the standard AWS settings: environment, shared files, instance roles.

    With an address of its own (AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or in the bucket's profile) the path names the
    bucket, as servers other than AWS expect.
    """

    def __init__(self, bucket: str) -> None:
        self._bucket = bucket
        service = service_of(bucket)
        config = Config(
            connect_timeout=CONNECT_TIMEOUT_S,
            read_timeout=READ_TIMEOUT_S,
            max_pool_connections=CONNECTIONS,
            retries=None if "AWS_MAX_ATTEMPTS" in os.environ else {"mode": "standard", "total_max_attempts": TRIES},
            s3={"addressing_style": "path"} if service.endpoint else None,
        )

        def load() -> botocore.session.Session:
            core = botocore.session.Session(profile=service.profile)
            if core.get_config_variable("data_path") is None:
                core.register_component("data_loader", _models)
            with loading_errors(f"bucket {bucket}"):
                follow_keys(core)
                core.get_credentials()  # a process or a container's role is asked here, and the client takes its answer
            return core

        try:
            core = whole(load, BotoCoreError)
            self._session = boto3.session.Session(botocore_session=core)
            region = self._session.region_name or "us-east-1"
            address = service.endpoint if service.profile else None
            self.client: S3Client = self._session.client("s3", region_name=region, config=config, endpoint_url=address)
            ask_heads_again(self.client)
        except (BotoCoreError, ValueError) as error:
            raise ConfigurationError(f"S3 cannot be set up: {error}", remedy="correct the AWS settings") from error

    @property
    def _where(self) -> str:
        return f"bucket {self._bucket} at {self.endpoint}"

    @property
    def endpoint(self) -> str:
        """The address of the service."""
        return self.client.meta.endpoint_url

    def delta_options(self) -> dict[str, str]:
        """Storage options for a Delta table. They contain credentials."""
        with loading_errors(self._where):
            credentials = self._session.get_credentials()
            if credentials is None:
                raise NoCredentialsError
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
            with key_errors(self._where):
                yield
        except (BotoCoreError, ClientError, Boto3Error, HTTPError) as error:
            cause = _cause(error)
            if key and isinstance(cause, ClientError) and error_code(cause) in ABSENT:
                raise FileNotFoundError(f"s3://{self._bucket}/{key} is not in the store") from error
            raise self.explain(cause) from error

    def explain(self, error: BaseException) -> RatchetError:
        """The error for people that an error of the client means."""
        where = self._where
        if isinstance(error, ClientError):
            error = self._with_body(error)
            code, status = error_code(error), error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            message = error.response.get("Error", {}).get("Message", "")
            if code == "NoSuchBucket" or code in ABSENT:
                return ConfigurationError(
                    f"{where}: the bucket does not exist", remedy="create the bucket, or correct its name"
                )
            if _passes(code, status) or code in _MENDED:
                return NoAnswer(f"{where}: answered {code}: {message}", remedy=_RENEWABLE.get(code))
            if code in _UNKNOWN_KEYS and self._keys_are_fresh():
                return NoAnswer(f"{where}: answered {code}: {message}", remedy=_RENEW)
            return ConfigurationError(
                f"{where}: refused with {code}: {message}",
                remedy="check the AWS credentials, the region, and the rights to get, put, delete and list",
            )
        if isinstance(error, (*CUT, Boto3Error)):
            return NoAnswer(f"{where}: does not answer: {error}")
        return ConfigurationError(f"{where}: {error}", remedy="correct the AWS settings")

    def _keys_are_fresh(self) -> bool:
        keys = self._session.get_credentials()
        return isinstance(keys, RenewedKeys) and keys.is_fresh()

    def _with_body(self, error: ClientError) -> ClientError:
        """The same refusal with the service's code: the answer to a HEAD request has a status alone.

        So expired keys and a wrong clock look like a wrong request (400) or a missing right (403).
        """
        if error_code(error) in _BARE:
            try:
                self.client.list_objects_v2(Bucket=self._bucket, MaxKeys=1)
            except ClientError as spoken:
                return spoken
            except BotoCoreError:
                return error
        return error


def no_answer(error: BaseException) -> str:
    """What an error of another library's client says, if it means that a bucket gave it no answer; else nothing."""
    cause = _cause(error)
    if isinstance(cause, ClientError):
        status = cause.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return str(cause) if _passes(error_code(cause), status) else ""
    return str(cause) if isinstance(cause, (*CUT, *_NO_KEYS)) else ""


def _passes(code: str, status: int) -> bool:
    """Whether an answer ends without a change of what was asked for."""
    return status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _LATER or code in _TRANSIENT | _RENEWABLE.keys()


@contextmanager
def key_errors(where: str) -> Iterator[None]:
    """Raise NoAnswer where the source of the keys has none at the moment, or has only expired ones."""
    try:
        yield
    except _NO_KEYS as error:
        raise NoAnswer(f"{where}: there are no credentials: {error}", remedy=GIVE_KEYS) from error
    except RuntimeError as error:
        if "refreshed credentials" not in str(error):  # botocore's, for a source that still has the old ones
            raise
        raise NoAnswer(f"{where}: {error}", remedy=_RENEW) from error


@contextmanager
def loading_errors(where: str) -> Iterator[None]:
    """Raise NoAnswer where keys are loaded and their source fails: a service, or a process of the AWS settings.

    A process may be absent, or print half a document. Errors of the settings themselves stay botocore's.
    """
    try:
        with key_errors(where):
            yield
    except (ClientError, *CUT) as error:  # of the service that gives the keys
        raise NoAnswer(f"{where}: {error}", remedy="check the role that gives this machine its keys") from error
    except BotoCoreError:
        raise
    except (OSError, ValueError) as error:
        raise NoAnswer(f"{where}: the credentials cannot be loaded: {error}", remedy=GIVE_KEYS) from error


def error_code(error: ClientError) -> str:
    """The service's code for an error; the HTTP status if the answer had no body."""
    return str(error.response.get("Error", {}).get("Code", ""))


def retry_unavailable(once: Callable[[], _Result]) -> _Result:
    """Retry a download that was cut off. The client itself retries only until the first byte of an answer."""
    for attempt in range(1, TRIES):
        try:
            return once()
        except CUT:
            pause(attempt)
    return once()


def pause(attempt: int) -> None:
    """Wait a random time, longer after each attempt: up to 0.2, 0.4, 0.8, ... seconds."""
    time.sleep(random.uniform(0, 0.1 * 2**attempt))


def _cause(error: BaseException) -> BaseException:
    """The cause of an error; boto3's transfers wrap it in another error."""
    inner = error.__cause__ or error.__context__
    return inner if isinstance(error, Boto3Error) and isinstance(inner, (ClientError, BotoCoreError)) else error
