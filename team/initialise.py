"""`python -m team.initialise`: the stack's first step, safe to run again.

Waits for the database, the broker and S3; migrates Airflow's and MLflow's databases; makes the buckets, the pools, the
first user of Airflow and that of the watch, and the user of MLflow that stages log in as; waits for pipelines from git.
Runs in a container of the Airflow image.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from configparser import ConfigParser
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ratchet.contracts.errors import RatchetError, Unavailable
from team.secret_files import ADMIN, WATCH

_SECRETS = Path("/run/secrets")
_PATIENCE_S = 180
_READER, _READS = "Ratchet watch", ("DAGs", "DAG Runs", "Task Instances", "Audit Logs")
"""The role of the watch in Airflow, and all that it may read."""
_OWN_DATABASE, _OWN_MLFLOW = "postgres", "mlflow"
"""The hosts of the stack's own servers."""


def main() -> int:
    """Run each step and print it."""
    try:
        with _step("waiting for the database, the broker and S3"):
            for variable in (
                "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN",
                "MLFLOW_BACKEND_STORE_URI",
                "AIRFLOW__CELERY__BROKER_URL",
                "AWS_ENDPOINT_URL",
            ):
                _wait_for(os.environ[variable])
        if _host("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN") == _OWN_DATABASE:
            with _step("databases and their roles"):
                _databases()
        with _step("buckets"):
            _buckets()
        if _host("MLFLOW_TRACKING_URI") == _OWN_MLFLOW:
            with _step("MLflow's database and its user"):
                _mlflow()
        with _step("Airflow's database"):
            _run("airflow", "db", "migrate")
        with _step("Airflow's pools, first user and watch"):
            _airflow()
        with _step("waiting for the pipelines"):
            _wait_for_pipelines(Path(os.environ["RATCHET_PIPELINES"]))
    except RatchetError as error:
        print(f"init: {error}", file=sys.stderr)
        return int(error.code)
    return 0


@contextmanager
def _step(what: str) -> Iterator[None]:
    print(f"init: {what} ...", flush=True)
    began = time.monotonic()
    yield
    print(f"init: {what}: done in {time.monotonic() - began:.1f} s", flush=True)


def _host(variable: str) -> str | None:
    return urlsplit(os.environ[variable]).hostname


def _databases() -> None:
    """A role and a database each for Airflow and MLflow; neither role may open the other database."""
    import psycopg2
    from psycopg2 import sql

    password = (_SECRETS / "postgres-password").read_text(encoding="utf-8")
    connection = psycopg2.connect(host=_OWN_DATABASE, user="postgres", password=password, dbname="postgres")
    connection.autocommit = True  # a database is made outside of any transaction
    with connection.cursor() as cursor:
        for variable in ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "MLFLOW_BACKEND_STORE_URI"):
            parts = urlsplit(os.environ[variable])
            name = sql.Identifier(parts.username or "")
            cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [parts.username])
            make = "ALTER ROLE {} LOGIN PASSWORD {}" if cursor.fetchone() else "CREATE ROLE {} LOGIN PASSWORD {}"
            cursor.execute(sql.SQL(make).format(name, sql.Literal(parts.password)))
            cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", [parts.username])
            if not cursor.fetchone():
                cursor.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(name, name))
            cursor.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(name))
    connection.close()


def _wait_for(url: str) -> None:
    """Wait until a server listens there. The URL may hold a password, so no error shows it."""
    parts = urlsplit(url)
    usual = {"https": 443, "http": 80, "redis": 6379}.get(parts.scheme, 5432)
    host, port = parts.hostname or "", parts.port or usual
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            socket.create_connection((host, port), timeout=5).close()
        except OSError as error:
            if time.monotonic() > until:
                raise Unavailable(
                    f"{host}:{port} does not answer: {error}", remedy="run `make ps` and `make logs`"
                ) from error
            time.sleep(1)
        else:
            return


def _wait_for_pipelines(folder: Path) -> None:
    """Wait for the first fetch from git. Later ones change the folder while all services run."""
    until = time.monotonic() + _PATIENCE_S
    while not folder.is_dir():
        if time.monotonic() > until:
            raise Unavailable("no pipelines were fetched", remedy="run `make logs SERVICE=pipelines`")
        time.sleep(1)


def _buckets() -> None:
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    region = os.environ.get("AWS_REGION") or "us-east-1"
    client = boto3.client("s3", region_name=region, config=Config(s3={"addressing_style": "path"}))
    place: Any = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
    until = time.monotonic() + _PATIENCE_S
    named = [
        urlsplit(os.environ[name]) for name in ("RATCHET_STORE", "RATCHET_DATA", "RATCHET_ARTIFACTS", "RATCHET_LOGS")
    ]
    for bucket in (each.netloc for each in named if each.scheme == "s3"):
        while True:
            try:
                try:
                    client.head_bucket(Bucket=bucket)
                except ClientError as error:
                    if error.response["ResponseMetadata"]["HTTPStatusCode"] != HTTPStatus.NOT_FOUND:
                        raise
                    client.create_bucket(Bucket=bucket, **place)
                break
            except (BotoCoreError, ClientError) as error:
                if time.monotonic() > until:
                    raise Unavailable(
                        f"cannot create bucket {bucket}: {error}", remedy="create it, or correct the S3 credentials"
                    ) from error
                time.sleep(1)


def _mlflow() -> None:
    from mlflow.server.auth.sqlalchemy_store import SqlAlchemyStore
    from mlflow.store.db import utils

    uri = os.environ["MLFLOW_BACKEND_STORE_URI"]
    engine = utils.create_sqlalchemy_engine_with_retry(uri)
    utils._safe_initialize_tables(engine)  # noqa: SLF001 - MLflow's `server` does the same
    utils._upgrade_db(engine)  # noqa: SLF001 - MLflow's `db upgrade` does the same
    store = SqlAlchemyStore()
    store.init_db(uri)
    parser = ConfigParser(interpolation=None)
    parser.read(_SECRETS / "mlflow-credentials")
    login = parser["mlflow"]
    user, password = login["mlflow_tracking_username"], login["mlflow_tracking_password"]
    if store.has_user(user):
        store.update_user(user, password)  # it may have been changed, by a stage or by a restore
    else:
        store.create_user(user, password)


def _pools() -> None:
    """Make Airflow's pools by its command line, since its server is not there yet."""
    from ratchet_airflow import pools

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pools.json"
        _run("airflow", "pools", "export", str(file))
        there = json.loads(file.read_text(encoding="utf-8"))
        changed = {
            pool.name: {"slots": pool.slots, "description": pool.description, "include_deferred": True}
            for pool in pools.to_write({name: int(each["slots"]) for name, each in there.items()})
        }
        if changed:
            file.write_text(json.dumps(changed), encoding="utf-8")
            _run("airflow", "pools", "import", str(file))


def _run(*words: str) -> None:
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def _airflow() -> None:
    from airflow.providers.fab.auth_manager.cli_commands.utils import (
        get_application_builder,
    )

    _pools()
    password = (_SECRETS / "airflow-admin-password").read_text(encoding="utf-8")
    of_watch = urlsplit(os.environ["RATCHET_AIRFLOW_API"]).password or ""
    with get_application_builder() as builder:
        manager = builder.sm
        if manager.find_user(ADMIN) is None:
            _add(manager, ADMIN, "Admin", manager.find_role("Admin"), password)
        manager.bulk_sync_roles([{"role": _READER, "perms": [("can_read", each) for each in _READS]}])
        user = manager.find_user(WATCH)
        if user is not None and not manager.check_password(WATCH, of_watch):
            manager.reset_password(user.id, of_watch)  # the secrets are others, as after a restore
        elif user is None:
            _add(manager, WATCH, "Watch", manager.find_role(_READER), of_watch)


def _add(manager: Any, name: str, last_name: str, role: Any, password: str) -> None:
    if not role or not manager.add_user(name, "Ratchet", last_name, f"{name}@localhost", role, password):
        raise Unavailable(f"cannot create Airflow's user {name}", remedy="read the log above")


if __name__ == "__main__":
    sys.exit(main())
