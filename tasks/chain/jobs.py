"""From a stage's request to the job that a runner is given: what the stage may see, reach and use."""

import json
import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tasks.contracts.endpoints import network_for
from tasks.contracts.errors import ConfigurationError
from tasks.contracts.fingerprint import digest
from tasks.contracts.operations import Stage
from tasks.contracts.request import StageRequest
from tasks.contracts.source import FilesSource
from tasks.runners.job import Job, Mount
from tasks.runtime.store.base import Store
from tasks.runtime.store.file import FileStore

CREDENTIALS = "aws-credentials"
ENVIRONMENT = "environment.json"
_S3_SETTINGS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION", "MLFLOW_S3_ENDPOINT_URL")
_TRACKING_STAGES: frozenset[Stage] = frozenset({"register", "report"})


def job_for(request: StageRequest, store: Store, image: str | None) -> Job:
    """The job of a request; image None runs it as a process.

    A stage sees the store, and ingest the source, read-only. It gets a network only if one of these, or the tracking
    server of the stages that talk to it, is reached through one.
    """
    urls, mounts, user = [], [], "10001:10001"
    uses_s3 = request.store.startswith("s3:")
    if isinstance(store, FileStore):
        store.prepare()
        mounts.append(Mount(path=str(store.root), read_only=False))
        if image is not None:
            user = "{}:{}".format(*store.owner())
    if request.stage == "ingest":
        uses_s3 = uses_s3 or request.source_root.startswith("s3:")
        mounts += _source_mounts(request)
        if request.spec.source.kind == "sql":
            urls.append(_expanded(request.spec.source.uri))
    if uses_s3:
        urls.append(_s3_endpoint())
    if request.stage in _TRACKING_STAGES and (request.tracking_uri or "").startswith("http"):
        urls.append(request.tracking_uri or "")
    settings = request.spec.stages[request.stage]
    return Job(
        name=f"{request.spec.name}.{request.stage}.{request.data_date}",
        request=request.model_dump_json(by_alias=True).encode(),
        image=image,
        resources=request.spec.resources[request.stage],
        labels={
            "ratchet.pipeline": request.spec.name,
            "ratchet.stage": request.stage,
            "ratchet.run": request.run_id,
            "ratchet.attempt": request.attempt,
            "ratchet.fingerprint": request.fingerprint,
            "ratchet.store": store_label(request.store),
            "ratchet.grace": f"{settings.grace:.0f}",
        },
        mounts=tuple(mounts),
        secrets=_secrets(request, uses_s3=uses_s3),
        env={name: os.environ[name] for name in _S3_SETTINGS if uses_s3 and name in os.environ},
        network=network_for(urls),
        timeout_s=settings.timeout,
        grace_s=settings.grace,
        user=user,
    )


def store_label(uri: str) -> str:
    """What tells the containers of one installation from those of another: a digest, since a URI can name people."""
    return digest(uri.encode())[:16]


def _source_mounts(request: StageRequest) -> list[Mount]:
    parts = urlsplit(request.source_root)
    if parts.scheme not in {"", "file"}:
        return []
    folder = unquote(parts.path) if parts.scheme else request.source_root
    if not Path(folder).is_dir():
        raise ConfigurationError(f"source.uri: {folder} is not a folder", remedy="see where the source's files are")
    return [Mount(path=os.path.abspath(folder), read_only=True)]  # noqa: PTH100 - a link stays the path that the stage is told


def _s3_endpoint() -> str:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or "https://s3.amazonaws.com"


def _secrets(request: StageRequest, *, uses_s3: bool) -> dict[str, bytes]:
    """Files for the stage alone: S3 credentials, and what the URI of a database takes from the environment."""
    secrets: dict[str, bytes] = {}
    if uses_s3:
        secrets[CREDENTIALS] = _credentials()
    if request.stage == "ingest" and not isinstance(request.spec.source, FilesSource):
        names = re.findall(r"\$\{(\w+)\}", request.spec.source.uri)
        secrets[ENVIRONMENT] = json.dumps({name: os.environ[name] for name in names if name in os.environ}).encode()
    return secrets


def _credentials() -> bytes:
    from botocore.session import get_session  # noqa: PLC0415 - slow to import, and only S3 needs it

    found = get_session().get_credentials()
    if found is None:
        raise ConfigurationError("S3 needs credentials", remedy="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    frozen = found.get_frozen_credentials()
    lines = ["[default]", f"aws_access_key_id = {frozen.access_key}", f"aws_secret_access_key = {frozen.secret_key}"]
    if frozen.token:
        lines.append(f"aws_session_token = {frozen.token}")
    return "\n".join(lines).encode()


def _expanded(uri: str) -> str:
    return re.sub(r"\$\{(\w+)\}", lambda found: os.environ.get(found.group(1), ""), uri)
