"""The stack's passwords and keys: generated once at random, and given to each service in its own files.

`made.json` holds the generated values; every other file follows from it and the settings, and is rewritten each time.
"""

import base64
import hashlib
import json
import os
import secrets
import string
from collections.abc import Mapping
from configparser import ConfigParser
from io import StringIO
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from ratchet.contracts.environment import variable
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.fingerprint import fingerprint
from ratchet.contracts.setting_values import installation_of
from team import s3_logins
from team.certificate import self_signed
from team.s3_rights import IDENTITIES, seaweed_actions
from team.settings import Settings
from team.source_variables import shell_lines

ADMIN, WATCH = "admin", "ratchet-watch"
"""The first user, of Airflow and of MLflow; the user of Airflow that the watch logs in as."""
PEOPLE_KEY = "AIRFLOW_PEOPLE_KEY"
"""The file with the key that signs people's log-ins in a browser, for Airflow's server alone."""
_GENERATED = (
    "postgres", "airflow-database", "mlflow-database", "redis", "airflow-admin", "airflow-watch", "mlflow-admin",
    "mlflow-stages", "jwt", "session", "people", "mlflow-session",
)  # fmt: skip
WORKERS = (
    "AIRFLOW__CELERY__BROKER_URL", "AIRFLOW__CELERY__RESULT_BACKEND", "AIRFLOW__API__SECRET_KEY",
    "RATCHET_INSTALLATION", "s3-worker", "s3-orchestrator", "mlflow-credentials", "pipelines-credentials",
    variable("airflow_api"),
)  # fmt: skip
"""The files that a host needs which only works. No key that signs tokens or log-ins is among them, but the log-in of
the watch. Airflow's `[api] secret_key` signs what asks a worker for the log of a task; see `team.webserver_config`."""
_LETTERS = string.ascii_letters + string.digits
_LENGTH = 32


def write(folder: Path, settings: Settings, owner: int) -> None:
    """Write all files and generate missing secrets. owner: the user id of the services, which alone can read them.

    Raises ConfigurationError if the folder belongs to another user.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.stat().st_uid != os.getuid():
        raise ConfigurationError(f"{folder} belongs to another user", remedy="run this as its owner, or remove it")
    folder.chmod(0o700)
    made = _secrets(folder)
    for name, content in contents(made, settings).items():
        _write(folder / name, content, owner)


def hand_out(folder: Path, target: Path, settings: Settings) -> None:
    """Write into a new folder what a worker on another host needs: its secrets and the shared settings.

    Raises ConfigurationError if no other host can reach this one, or the folder exists.
    """
    if settings.listen is None:
        raise ConfigurationError(
            "no other host can reach this one", remedy="set RATCHET_LISTEN in .env to its address; then `make up`"
        )
    if not (folder / "made.json").is_file():
        raise ConfigurationError(f"there are no secrets in {folder}", remedy="run `make up`, which makes them")
    files = contents(_secrets(folder), settings)
    try:
        target.mkdir(mode=0o700)
    except OSError as error:
        raise ConfigurationError(
            f"{target} cannot be made: {(error.strerror or '').lower()}", remedy="name a new folder"
        ) from error
    for name in WORKERS:
        content = files[name].replace("@redis:6379", f"@{settings.listen}:{settings.redis_port}")
        content = content.replace("@api-server:8080", f"@{settings.listen}:{settings.airflow_port}")
        _write(target / name, content, os.getuid())
    shared = {
        "RATCHET_MAIN_HOST": settings.listen,
        "RATCHET_PROJECT": settings.project,
        "RATCHET_AIRFLOW_PORT": settings.airflow_port,
        "RATCHET_MLFLOW_PORT": settings.mlflow_port,
        "RATCHET_S3_PORT": settings.s3_port,
        "RATCHET_REDIS_PORT": settings.redis_port,
        "RATCHET_S3_REGION": settings.s3_region,
        "RATCHET_STORE": settings.store,
        "RATCHET_DATA": settings.data,
        "RATCHET_LOGS": settings.logs_place,
        "RATCHET_LOGS_KEEP_DAYS": settings.logs_keep_days,
        "RATCHET_HEARTBEAT_TIMEOUT": settings.heartbeat_timeout,
        "RATCHET_PUBLIC_AIRFLOW_URL": settings.public_airflow_url,
        "RATCHET_PUBLIC_MLFLOW_URL": settings.public_mlflow_url,
        "RATCHET_PIPELINES": settings.pipelines,
        "RATCHET_PIPELINES_BRANCH": settings.pipelines_branch,
        "RATCHET_PIPELINES_SUBFOLDER": settings.pipelines_subfolder,
    }
    lines = ["# Add RATCHET_LISTEN, the address of the worker's host, and save this file as .env there."]
    lines += [f"{name}={value}" for name, value in shared.items() if value is not None]
    (target / "env").write_text("\n".join([*lines, ""]), encoding="utf-8")


def take(folder: Path, owner: int) -> None:
    """On a host that only has a worker: check that its files are there, and let only the services read them."""
    missing = [name for name in WORKERS if not (folder / name).is_file()]
    if missing:
        raise ConfigurationError(
            f"{', '.join(missing)}: not in {folder}",
            remedy="run `python -m team worker-files FOLDER` on the main host; copy its files here, encrypted",
        )
    folder.chmod(0o700)
    for name in WORKERS:
        _write(folder / name, (folder / name).read_text(encoding="utf-8"), owner)


def contents(made: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """The files by name."""
    database = settings.database_url
    airflow = _database(database, "airflow", made["airflow-database"], driver="postgresql+psycopg2")
    mlflow = _database(database, "mlflow", made["mlflow-database"], driver="postgresql")
    broker = f"redis://:{made['redis']}@redis:6379"
    files = {
        "postgres-password": made["postgres"],
        "airflow-admin-password": made["airflow-admin"],
        variable("airflow_api"): f"http://{WATCH}:{made['airflow-watch']}@api-server:8080",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": airflow,
        "AIRFLOW__CORE__FERNET_KEY": made["fernet"],
        "AIRFLOW__API_AUTH__JWT_SECRET": made["jwt"],
        "RATCHET_INSTALLATION": installation_of(made["jwt"]),
        "AIRFLOW__API__SECRET_KEY": made["session"],
        PEOPLE_KEY: made["people"],
        "AIRFLOW__CELERY__BROKER_URL": f"{broker}/0",
        "AIRFLOW__CELERY__RESULT_BACKEND": f"{broker}/1",
        "REDISCLI_AUTH": made["redis"],
        "redis.conf": f"requirepass {made['redis']}\ndir /data\nappendonly yes\nsave 60 1\n",
        "MLFLOW_BACKEND_STORE_URI": mlflow,
        "MLFLOW_FLASK_SERVER_SECRET_KEY": made["mlflow-session"],
        "mlflow-auth.ini": _ini(
            "mlflow",
            default_permission="READ",
            database_uri=mlflow.replace("%", "%%"),  # MLflow reads the file with interpolation
            admin_username=ADMIN,
            admin_password=made["mlflow-admin"],
            authorization_function="mlflow.server.auth:authenticate_request_basic_auth",
            grant_default_workspace_access="false",
            auth_cache_ttl_seconds="60",
        ),
        "mlflow-credentials": _ini(
            "mlflow", mlflow_tracking_username="ratchet", mlflow_tracking_password=made["mlflow-stages"]
        ),
        "mlflow-admin-password": made["mlflow-admin"],
        "source-variables": "",
        "pipelines-credentials": "",
        variable("heartbeat_url"): settings.heartbeat_url or "",
        **_s3(made, settings),
    }
    if settings.s3_credentials is not None:
        given = _given(settings.s3_credentials, "RATCHET_S3_CREDENTIALS")
        files |= s3_logins.of_elsewhere(given, str(settings.s3_credentials))
    if settings.mlflow_credentials is not None:
        files["mlflow-credentials"] = _given(settings.mlflow_credentials, "RATCHET_MLFLOW_CREDENTIALS")
    if settings.pipelines_credentials is not None:
        given = _given(settings.pipelines_credentials, "RATCHET_PIPELINES_CREDENTIALS")
        files["pipelines-credentials"] = _login(given, settings.pipelines_credentials)
    if settings.source_credentials is not None:
        given = _given(settings.source_credentials, "RATCHET_SOURCE_CREDENTIALS")
        files["source-variables"] = shell_lines(given, settings)
    return files


def digest(folder: Path) -> str:
    """A digest that changes with the secrets and reveals nothing of them. Empty if there are none."""
    files = sorted(folder.glob("[!.]*"))
    return (
        fingerprint({path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files})[:16] if files else ""
    )


def _secrets(folder: Path) -> dict[str, str]:
    file = folder / "made.json"
    try:
        found: dict[str, str] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    except ValueError as error:
        raise ConfigurationError(
            f"{file} is damaged: {error}", remedy="take it from a backup: `make restore`"
        ) from error
    missing = {
        name: _random_word() for name in (*_GENERATED, *(f"s3-{name}" for name in IDENTITIES)) if name not in found
    }
    if "s3-certificate" not in found:
        certificate, key = self_signed("s3")
        missing |= {"s3-certificate": certificate.decode(), "s3-key": key.decode()}
    if "fernet" not in found:
        missing["fernet"] = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
    if missing:
        _write(file, json.dumps({**found, **missing}, indent=1, sort_keys=True), os.getuid())
    return {**found, **missing}


def _random_word() -> str:
    """Letters and digits only: safe in a URL, in SQL and in a configuration file. About 190 bits."""
    return "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))


def _database(given: str | None, name: str, password: str, *, driver: str) -> str:
    if given is None:
        return f"{driver}://{name}:{password}@postgres:5432/{name}"
    parts = urlsplit(given)
    # Every character but letters and digits is encoded: Airflow reads a bare $ as a variable.
    login = ":".join(quote(unquote(part), safe="") for part in (parts.username, parts.password) if part is not None)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    query = f"?{parts.query}" if parts.query else ""
    return f"{driver}://{login}{'@' if login else ''}{host}:{parts.port or 5432}/{name}{query}"


def _s3(made: Mapping[str, str], settings: Settings) -> dict[str, str]:
    identities = [
        {"name": name, "credentials": [{"accessKey": name, "secretKey": made[f"s3-{name}"]}], "actions": actions}
        for name, actions in seaweed_actions(settings).items()
    ]
    return {
        "s3.json": json.dumps({"identities": identities}, indent=1),
        "s3.crt": made["s3-certificate"],
        "s3.key": made["s3-key"],
        **s3_logins.of_the_stack({name: made[f"s3-{name}"] for name in IDENTITIES}),
    }


def _ini(section: str, **values: str) -> str:
    parser = ConfigParser(interpolation=None)
    parser[section] = values
    text = StringIO()
    parser.write(text)
    return text.getvalue()


def _given(file: Path, setting: str) -> str:
    try:
        return file.expanduser().read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"{setting}: {file} cannot be read: {error.strerror}", remedy="name a file that you may read"
        ) from error


def _login(given: str, file: Path) -> str:
    """A line USER:TOKEN."""
    user, colon, token = given.strip().partition(":")
    if not (user and colon and token) or len(given.split()) != 1:
        raise ConfigurationError(
            f"RATCHET_PIPELINES_CREDENTIALS: {file} is not one line USER:TOKEN",
            remedy="write one; the user is x-access-token at GitHub and oauth2 at GitLab",
        )
    return given.strip()


def _write(file: Path, content: str, owner: int) -> None:
    """Replace a file if its content has changed, in one step, readable by its owner only."""
    if file.is_file() and file.read_text(encoding="utf-8") == content and file.stat().st_uid == owner:
        file.chmod(0o400)
        return
    temporary = file.with_name(f".{file.name}-{secrets.token_hex(4)}")
    temporary.touch(mode=0o600)
    temporary.write_text(content, encoding="utf-8")
    os.chown(temporary, owner, -1)
    temporary.chmod(0o400)
    temporary.replace(file)
