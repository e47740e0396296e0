"""Backups: the databases, the buckets, and the secrets that open them, in one folder.

The databases are dumped before the buckets are read, and results in the store never change. So a backup has every
result that its dumps name.
"""

import hashlib
import json
import shutil
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator
from configparser import ConfigParser
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from ratchet.contracts.errors import ConfigurationError, CorruptArtifact
from team.settings import BACKUPS
from team.stack import Stack

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

_DATABASES = ("airflow", "mlflow")
_MANIFEST = "manifest.json"
_METADATA = "RATCHET.metadata"
_LARGEST_PUT = 5 << 30
"""S3's own limit."""


def save(stack: Stack, console: Console) -> Path:
    """Back up a running stack into a new folder, named by the time and readable by its owner only."""
    _own_only(stack)
    place = stack.home.parent / BACKUPS / datetime.now(UTC).strftime("%Y-%m-%dT%H%M%SZ")
    unfinished = place.with_name(f".{place.name}")
    unfinished.mkdir(parents=True, mode=0o700)
    try:
        _save_all(stack, unfinished, console)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    unfinished.rename(place)
    return place


def _save_all(stack: Stack, unfinished: Path, console: Console) -> None:
    for name in _DATABASES:
        with _timer(console, f"database {name}"), (unfinished / f"{name}.dump").open("xb") as out:
            stack.compose("exec", "-T", "postgres", "pg_dump", "-U", "postgres", "-Fc", "--create", name, stdout=out)
    client = _client(stack)
    for bucket in _buckets(stack):
        with _timer(console, f"bucket {bucket}"):
            _save_bucket(client, bucket, unfinished / f"{bucket}.tar")
    shutil.copytree(stack.secrets, unfinished / "secrets")
    (unfinished / _MANIFEST).write_text(json.dumps(_digests(unfinished), indent=1), encoding="utf-8")


def restore(stack: Stack, folder: Path, console: Console) -> None:
    """Restore a backup: its secrets, then, with all services stopped, its databases and buckets.

    Other objects in the buckets stay. Raises CorruptArtifact for a damaged folder, before anything changes.
    """
    _own_only(stack)
    check(folder, [*(f"{name}.dump" for name in _DATABASES), *(f"{bucket}.tar" for bucket in _buckets(stack))])
    stack.compose("down", "--remove-orphans")
    stack.secrets.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    shutil.rmtree(stack.secrets, ignore_errors=True)
    shutil.copytree(folder / "secrets", stack.secrets)
    for path in stack.secrets.iterdir():  # a copy by root belongs to root
        shutil.chown(path, stack.owner if path.name != "made.json" else stack.secrets.stat().st_uid)
    with _timer(console, "starting the database and S3"):
        stack.compose("up", "--detach", "postgres", "s3")
        stack.wait_for("postgres", "s3")
    _roles(stack)
    for name in _DATABASES:
        with _timer(console, f"database {name}"), (folder / f"{name}.dump").open("rb") as dump:
            stack.compose(
                "exec", "-T", "postgres", "pg_restore", "-U", "postgres", "-d", "postgres",
                "--clean", "--if-exists", "--create", "--exit-on-error", stdin=dump,
            )  # fmt: skip
    client = _client(stack)
    for bucket in _buckets(stack):
        with _timer(console, f"bucket {bucket}"):
            _restore_bucket(client, bucket, folder / f"{bucket}.tar")


def _roles(stack: Stack) -> None:
    """Create the roles that own the databases, with the passwords of the secrets. Dumps of databases have no roles."""
    made: dict[str, str] = json.loads((stack.secrets / "made.json").read_text(encoding="utf-8"))
    lines = [f"ALTER ROLE postgres PASSWORD '{made['postgres']}';"]  # all passwords are letters and digits
    for name in _DATABASES:
        missing = f"WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{name}')"
        lines += [f"SELECT 'CREATE ROLE {name}' {missing}\\gexec"]
        lines += [f"ALTER ROLE {name} LOGIN PASSWORD '{made[f'{name}-database']}';"]
    with tempfile.TemporaryFile() as words:
        words.write("\n".join(lines).encode())
        words.seek(0)
        stack.compose("exec", "-T", "postgres", "psql", "-q", "-v", "ON_ERROR_STOP=1", "-U", "postgres", stdin=words)


def _digests(folder: Path) -> dict[str, str]:
    """SHA-256 of each file by its path, secrets included."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): _sha256(path) for path in files}


def check(folder: Path, needed: Iterable[str] = ()) -> None:
    """Raises ConfigurationError if it is not a backup or one of another set-up, CorruptArtifact if it is damaged.

    needed: the files that a restore reads.
    """
    manifest = folder / _MANIFEST
    if not manifest.is_file():
        raise ConfigurationError(
            f"{folder} is not a backup: it has no {_MANIFEST}", remedy="name a folder of `make backup`"
        )
    try:
        files: dict[str, str] = json.loads(manifest.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CorruptArtifact(f"{manifest} is damaged: {error}", remedy="restore another backup") from error
    absent = [name for name in (*needed, "secrets/made.json") if name not in files]
    if absent:
        raise ConfigurationError(
            f"{folder} has no {', '.join(absent)}", remedy="restore it with the .env that it was made with"
        )
    for name, sha256 in files.items():
        if not (folder / name).is_file() or _sha256(folder / name) != sha256:
            raise CorruptArtifact(f"{folder / name} is missing or damaged", remedy="restore another backup")


def _own_only(stack: Stack) -> None:
    if {"postgres", "s3"} & set(stack.settings.elsewhere):
        raise ConfigurationError(
            "the database or S3 of this set-up is elsewhere", remedy="back it up there; see docs/team.md"
        )


def _save_bucket(client: "S3Client", bucket: str, file: Path) -> None:
    """Save the objects in the order of their writing, which some readers rely on."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    objects = sorted(
        (found for page in pages for found in page.get("Contents", [])), key=lambda each: each["LastModified"]
    )
    with tarfile.open(file, "x", format=tarfile.PAX_FORMAT) as tar:
        for found in objects:
            try:
                answer = client.get_object(Bucket=bucket, Key=found["Key"])
            except client.exceptions.NoSuchKey:  # deleted since
                continue
            entry = tarfile.TarInfo(found["Key"])
            entry.size, entry.mtime = answer["ContentLength"], int(found["LastModified"].timestamp())
            entry.pax_headers = {_METADATA: json.dumps(answer["Metadata"])}
            tar.addfile(entry, answer["Body"])


def _restore_bucket(client: "S3Client", bucket: str, file: Path) -> None:
    from boto3.s3.transfer import TransferConfig

    # One request for each object that fits in one, so that its ETag is the digest of its content, as before.
    whole = TransferConfig(multipart_threshold=_LARGEST_PUT)
    if bucket not in {found["Name"] for found in client.list_buckets()["Buckets"]}:
        client.create_bucket(Bucket=bucket)
    with tarfile.open(file) as tar:
        for entry in tar:
            content = tar.extractfile(entry)
            if content is not None:
                metadata = json.loads(entry.pax_headers.get(_METADATA, "{}"))
                client.upload_fileobj(content, bucket, entry.name, ExtraArgs={"Metadata": metadata}, Config=whole)


def _client(stack: Stack) -> "S3Client":
    import boto3
    from botocore.config import Config

    parser = ConfigParser(interpolation=None)
    parser.read(stack.secrets / "s3-admin")
    client: S3Client = boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{stack.settings.s3_port}",
        region_name=stack.settings.s3_region,
        aws_access_key_id=parser["default"]["aws_access_key_id"],
        aws_secret_access_key=parser["default"]["aws_secret_access_key"],
        config=Config(s3={"addressing_style": "path"}),
    )
    return client


def _buckets(stack: Stack) -> list[str]:
    settings = stack.settings
    return sorted(
        {place.removeprefix("s3://").split("/")[0] for place in (settings.store, settings.data, settings.artifacts)}
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _timer(console: Console, what: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    console.print(f"{what}: {time.monotonic() - began:.1f} s")
