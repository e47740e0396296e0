"""From a stage's request to the job for a runner: what the stage may see, reach and use."""

import json
import os
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ratchet.contracts.endpoints import network_for
from ratchet.contracts.environment import environment, variable
from ratchet.contracts.errors import ConfigurationError, Unavailable
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.labels import STAGE_USER, Label
from ratchet.contracts.quantities import show_memory
from ratchet.contracts.request import StageRequest
from ratchet.contracts.source import Source, SqlSource
from ratchet.contracts.source_uri import DatabasePlace, database_place
from ratchet.contracts.stages import Stage
from ratchet.runners.job import CACHE, Job, Mount
from ratchet.runs.credentials import mlflow_credentials, s3_credentials
from ratchet.runtime.further_days import of_join
from ratchet.runtime.source_reach import check_reach
from ratchet.runtime.source_variables import allowed_names, expand
from ratchet.store.base import Store
from ratchet.store.bucket_service import service_of
from ratchet.store.file import FileStore

CREDENTIALS = "aws-credentials"
MLFLOW_CREDENTIALS = "mlflow-credentials"
ENVIRONMENT = "environment.json"
NETWORK_SETTING = variable("stage_network")
_S3_SETTINGS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION", "MLFLOW_S3_ENDPOINT_URL")
_BUILT_IN = frozenset({"none", "bridge", "host", "default"})
_TRACKING_STAGES: frozenset[Stage] = frozenset({"register", "report"})


def job_for(request: StageRequest, store: Store, image: str | None) -> Job:
    """The job of a request; image None runs it as a process.

    A stage sees the store; ingest sees its sources too, read-only, if it needs them. A stage gets a network only if it
    reaches the store, the source or the tracking server through one: RATCHET_STAGE_NETWORK where it is set. With a
    store in S3 it gets the volume RATCHET_CACHE_VOLUME.
    """
    urls, mounts, user = [], [], f"{STAGE_USER}:{STAGE_USER}"
    places = [request.store]
    if isinstance(store, FileStore):
        store.prepare()
        mounts.append(Mount(path=str(store.root), read_only=False))
        if image is not None:
            user = "{}:{}".format(*store.owner())
    for name, source, root, days in request.sources_read:
        with of_join(name) if name else nullcontext():
            check_reach(source, root, days, store)
            places.append(root)
            if source.kind == "sql":
                place = database_place(expand(source.uri, secret=True))
                urls += [f"database://{host}" for host in place.hosts]
                mounts += _database_mounts(place, source.uri)
            else:
                mounts += _source_mounts(root)
    buckets = [urlsplit(place).netloc for place in places if place.startswith("s3:")]
    urls += [service_of(bucket).url for bucket in buckets]
    tracks = request.stage in _TRACKING_STAGES and (request.tracking_uri or "").startswith("http")
    if tracks:
        urls.append(request.tracking_uri or "")
    cache = environment().cache_volume if image is not None and buckets else None
    settings = request.spec.settings_of(request.stage)
    return Job(
        name=f"{request.spec.name}.{request.stage}.{request.data_date}",
        request=request.model_dump_json(by_alias=True).encode(),
        image=image,
        resources=request.spec.resources_of(request.stage),
        labels={
            Label.PIPELINE: request.spec.name,
            Label.STAGE: request.stage,
            Label.RUN: request.run_id,
            Label.ATTEMPT: request.attempt,
            Label.FINGERPRINT: request.fingerprint,
            Label.STORE: store_label(request.store),
            Label.GRACE: f"{settings.grace:.0f}",
        },
        mounts=tuple(dict.fromkeys(mounts)),
        secrets=_secrets(request, buckets, tracks=tracks),
        env={
            **{name: os.environ[name] for name in _S3_SETTINGS if buckets and name in os.environ},
            **(_cache_settings() if cache else {}),
        },
        network=network_for(urls) if image is None else _network(urls),
        cache=cache,
        timeout_s=settings.timeout,
        grace_s=settings.grace,
        user=user,
    )


def store_label(uri: str) -> str:
    """The label that separates the containers of two installations: a digest, since a URI can name people."""
    return digest(uri.encode())[:16]


def _source_mounts(root: str) -> list[Mount]:
    parts = urlsplit(root)
    if parts.scheme not in {"", "file"}:
        return []
    folder = unquote(parts.path) if parts.scheme else root
    if not Path(folder).is_dir():
        raise Unavailable(  # the plan has listed it
            f"source.uri: the folder {folder} is not there", remedy="check that the disk of the source is mounted"
        )
    return [Mount(path=os.path.abspath(folder), read_only=True)]  # noqa: PTH100 - a link keeps the path that is in the request


def _database_mounts(place: DatabasePlace, uri: str) -> list[Mount]:
    """The folder of a database that is a file: SQLite has its journal beside it. uri: as the pipeline file has it."""
    if place.file is None:
        return []
    if not place.file.is_file():
        raise ConfigurationError(
            f"source.uri: the {place.kind} database {uri!r} does not exist",
            remedy="name the file of the database",
        )
    return [Mount(path=str(place.file.parent), read_only=True)]


def _network(urls: list[str]) -> str:
    """The network that reaches all of these URLs. Raises ConfigurationError if the one that is set cannot."""
    needed = network_for(urls)
    name = environment().stage_network
    if not name or needed == "none":
        return needed
    if name in _BUILT_IN:
        raise ConfigurationError(
            f"{NETWORK_SETTING} = {name} is no network of its own",
            remedy="name a network for stages (`docker network create --internal NAME`), or unset it",
        )
    if needed == "host":
        raise ConfigurationError(
            f"{NETWORK_SETTING} = {name}, and S3, MLflow or the source is at a loopback address, which it cannot reach",
            remedy="use their addresses in that network, or unset it",
        )
    return name


def _cache_settings() -> dict[str, str]:
    return {variable("cache"): CACHE, variable("cache_limit"): show_memory(environment().cache_limit)}


def _secrets(request: StageRequest, buckets: Sequence[str], *, tracks: bool) -> dict[str, bytes]:
    """Files for the stage alone: keys of S3 and MLflow, and the variables in the URIs of the sources."""
    secrets: dict[str, bytes] = {}
    if buckets:
        secrets[CREDENTIALS] = s3_credentials(request.stage, buckets)
    if tracks and (found := mlflow_credentials()):
        secrets[MLFLOW_CREDENTIALS] = found
    variables: dict[str, str] = {}
    for name, source, _, _ in request.sources_read:
        with of_join(name) if name else nullcontext():
            variables |= _source_variables(source)
    if variables:
        secrets[ENVIRONMENT] = json.dumps(variables).encode()
    return secrets


def _source_variables(source: Source) -> dict[str, str]:
    """The variables in a source's URI, for a stage that does not have the environment of this process."""
    is_sql = isinstance(source, SqlSource)
    names = [*allowed_names(source.uri, secret=is_sql), *([variable("source_variables")] if is_sql else [])]
    return {name: os.environ[name] for name in names if name in os.environ}
