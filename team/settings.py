"""The settings of the team set-up: the keys of .env, each with a default."""

import math
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from ratchet.contracts.collection import parse_policy
from ratchet.contracts.digest_time import parse_digest
from ratchet.contracts.environment import variable
from ratchet.contracts.quantities import parse_memory
from team.setting_checks import check_logs, check_pipelines, check_reachable, check_root, check_server

_SCHEMES = {
    "database_url": ("postgresql", "postgres"),
    "s3_endpoint": ("http", "https"),
    "mlflow_url": ("http", "https"),
    "backups_endpoint": ("http", "https"),
}
_OF_CONTAINERS = (
    "store", "data", "source_variables", "gpus", "cache_limit", "operators", "gc",
    "digest", "public_airflow_url", "public_mlflow_url",
    "pool_cpu", "pool_gpu", "pool_backfill", "pool_backfill_gpu",
)  # fmt: skip
"""Settings that containers read under the same names."""
_WORKER_MIB, _TASK_MIB = 1024, 256
"""Memory of a worker, and of each of its tasks. A task that follows a container was measured at 151 MiB."""
_LEAST_PARALLEL = 32
"""Tasks that Airflow hands out at once, where workers may be on other hosts."""
_READY = 1.25
"""Tasks that Airflow hands out at once for each that the workers run: a few wait for the next free worker. Of those
that are handed out the broker keeps the order; of all others Airflow takes a night's before a backfill's."""
BACKUPS = "backups"
"""The folder of backups, beside those of the installations."""


class Settings(BaseModel):
    """The keys of .env in lower case, without `RATCHET_`; docs/team.md explains each.

    A setting that names another server (database_url, s3_endpoint, mlflow_url) replaces the service of the stack. With
    main_host this host runs only a worker of the stack there.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    project: str = Field("ratchet", pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")
    airflow_port: int = Field(8080, ge=1, le=65535)
    mlflow_port: int = Field(5000, ge=1, le=65535)
    s3_port: int = Field(8333, ge=1, le=65535)
    redis_port: int = Field(6379, ge=1, le=65535)
    listen: str | None = None
    main_host: str | None = None
    workers: int = Field(1, ge=0, le=64)
    gpu_workers: int = Field(1, ge=0, le=64)
    worker_tasks: int = Field(8, ge=1, le=256)
    worker_cpus: float | None = Field(None, ge=0.1)
    service_cpus: float | None = Field(None, ge=0.1)
    heartbeat_timeout: int = Field(60, ge=10)
    store: str = Field("s3://ratchet", pattern=r"^s3://[a-z0-9.-]{3,63}$")
    data: str = Field("s3://sources", pattern=r"^s3://[a-z0-9.-]{3,63}(/.*)?$")
    source_roots: str | None = Field(
        None, pattern=r"^s3://[a-z0-9.-]{3,63}(/[^,]*)?(,\s*s3://[a-z0-9.-]{3,63}(/[^,]*)?)*$"
    )
    source_variables: str | None = Field(None, pattern=r"^[A-Za-z_]\w*\*?(,\s*[A-Za-z_]\w*\*?)*$")
    source_credentials: Path | None = None
    artifacts: str = Field("s3://mlflow", pattern=r"^s3://[a-z0-9.-]{3,63}(/.*)?$")
    pipelines: str | None = Field(None, repr=False)
    pipelines_branch: str | None = Field(None, pattern=r"^[^\s-]\S*$")
    pipelines_subfolder: str | None = Field(None, pattern=r"^[^/\s][^\s]*$")
    pipelines_credentials: Path | None = None
    logs: str | None = Field(None, pattern=r"^s3://[a-z0-9.-]{3,63}(/[^\s]*)?$")
    logs_keep_days: int = Field(30, ge=1)
    container_logs: str = Field("20m", pattern=r"^[1-9][0-9]*[kmg]$")
    gpus: str | None = None
    operators: str | None = Field(None, pattern=r"^[^,\s][^,]*(,[^,]+)*$")
    gc: str | None = None
    heartbeat_url: str | None = Field(None, pattern=r"^https?://\S+$", repr=False)
    digest: str | None = None
    public_airflow_url: str | None = Field(None, pattern=r"^https?://[^\s/@?#]+(/[^\s?#]*)?$")
    public_mlflow_url: str | None = Field(None, pattern=r"^https?://[^\s/@?#]+(/[^\s?#]*)?$")
    stages_open: bool = False
    cache_limit: str = "20g"
    stage_max_memory: str = "64g"
    stage_max_shm: str = "16g"
    stage_max_cpus: int = Field(64, ge=1, le=1024)
    stage_max_pids: int = Field(4096, ge=16, le=65_536)
    max_stages: int = Field(64, ge=1, le=10_000)
    engine_socket: str | None = Field(None, pattern="^/")
    pool_cpu: int | None = Field(None, ge=1)
    pool_gpu: int | None = Field(None, ge=1)
    pool_backfill: int | None = Field(None, ge=1)
    pool_backfill_gpu: int | None = Field(None, ge=1)
    database_url: str | None = None
    s3_endpoint: str | None = None
    s3_region: str = "us-east-1"
    s3_credentials: Path | None = None
    mlflow_url: str | None = None
    mlflow_credentials: Path | None = None
    backups_to: str | None = Field(None, pattern=r"^(s3://[a-z0-9.-]{3,63}(/[^\s]*)?|[/~].*)$")
    backups_key: Path | None = None
    backups_credentials: Path | None = None
    backups_endpoint: str | None = None
    backups_keep: int = Field(7, ge=1)

    @field_validator(*_SCHEMES)
    @classmethod
    def _url_with_host(cls, url: str | None, info: ValidationInfo) -> str | None:
        if url is not None:
            check_server(url, _SCHEMES[str(info.field_name)])
        return url

    @field_validator("public_airflow_url")
    @classmethod
    def _root_of_an_address(cls, url: str | None) -> str | None:
        check_root(url)
        return url

    @field_validator("pipelines")
    @classmethod
    def _place_of_pipelines(cls, place: str | None) -> str | None:
        if place is not None:
            check_pipelines(place)
        return place

    @field_validator("gc")
    @classmethod
    def _policy(cls, text: str | None) -> str | None:
        parse_policy(text)
        return text

    @field_validator("digest")
    @classmethod
    def _time_of_digest(cls, text: str | None) -> str | None:
        parse_digest(text)
        return text

    @field_validator("listen", "main_host")
    @classmethod
    def _reachable_by_others(cls, address: str | None) -> str | None:
        check_reachable(address)
        return address

    @field_validator("project")
    @classmethod
    def _not_the_backups(cls, project: str) -> str:
        if project == BACKUPS:
            raise ValueError("the folder of backups has this name")
        return project

    @field_validator("cache_limit", "stage_max_memory", "stage_max_shm")
    @classmethod
    def _amount_of_memory(cls, limit: str) -> str:
        parse_memory(limit)
        return limit

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        ports = [self.airflow_port, self.mlflow_port, self.s3_port, *([self.redis_port] if self.listen else [])]
        if len(set(ports)) < len(ports):
            raise ValueError(
                "RATCHET_AIRFLOW_PORT, RATCHET_MLFLOW_PORT and RATCHET_S3_PORT: all ports must differ, "
                f"not {', '.join(map(str, ports))}"
            )
        if (self.s3_endpoint is None) != (self.s3_credentials is None):
            raise ValueError("RATCHET_S3_ENDPOINT and RATCHET_S3_CREDENTIALS: set both, or neither")
        check_logs(self.logs_place, [self.store, self.artifacts, self.data, *(self.source_roots or "").split(",")])
        if self.backups_to is not None and self.backups_key is None:
            raise ValueError(
                "RATCHET_BACKUPS_TO: copies are sealed, since they have every secret; set RATCHET_BACKUPS_KEY to a "
                "key file: `openssl rand -hex 32 > FILE` makes one"
            )
        of_git: dict[str, object] = {"BRANCH": self.pipelines_branch, "SUBFOLDER": self.pipelines_subfolder}
        of_git |= {"CREDENTIALS": self.pipelines_credentials}
        if not self.has_git and (said := [f"RATCHET_PIPELINES_{name}" for name, value in of_git.items() if value]):
            raise ValueError(
                f"{', '.join(said)}: only with the https:// address of a git repository in RATCHET_PIPELINES"
            )
        if self.main_host is not None and self.listen is None:
            raise ValueError(
                "RATCHET_LISTEN: with RATCHET_MAIN_HOST, set the address under which that host reaches this one"
            )
        if self.main_host is not None and self.gpu_workers != 1:
            raise ValueError(
                "RATCHET_GPU_WORKERS: with RATCHET_MAIN_HOST there is one worker here, which takes every device"
            )
        return self

    @property
    def has_git(self) -> bool:
        """Whether the pipelines come from a git repository, and not from a folder of the host."""
        return (self.pipelines or "").startswith("http")

    @property
    def pipelines_folder(self) -> str:
        """The folder with the pipelines on the host; relative to the checkout, if it is the checkout's own."""
        return str(Path(self.pipelines).expanduser()) if self.pipelines and not self.has_git else "./dags/pipelines"

    @property
    def logs_place(self) -> str | None:
        """Where the logs of tasks go. At an S3 elsewhere nobody has chosen a bucket for them."""
        return self.logs or (None if self.s3_endpoint else "s3://logs")

    @property
    def source_names(self) -> tuple[str, ...]:
        """The further variables that an sql source may read."""
        return tuple(name.strip() for name in (self.source_variables or "").split(",") if name.strip())

    @property
    def source_buckets(self) -> tuple[str, ...]:
        """The buckets that a source may lie in, each once."""
        roots = (self.source_roots or self.data).split(",")
        return tuple(dict.fromkeys(urlsplit(root.strip()).netloc for root in (self.data, *roots)))

    @property
    def files(self) -> tuple[str, ...]:
        """The files that Compose reads, in the checkout."""
        if self.main_host is not None:
            return ("docker-compose.yaml", "docker/compose-worker.yaml")
        return ("docker-compose.yaml", *(["docker/compose-hosts.yaml"] if self.listen else []))

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """The services of the stack that servers elsewhere replace."""
        named = {"postgres": self.database_url, "s3": self.s3_endpoint, "mlflow": self.mlflow_url}
        return tuple(service for service, url in named.items() if url)

    @property
    def stage_network(self) -> str:
        """The network of stage containers: closed, unless they have to reach servers outside."""
        is_open = self.stages_open or self.main_host or {"s3", "mlflow"} & set(self.elsewhere)
        return f"{self.project}_open" if is_open else f"{self.project}_stages"

    def variables(self) -> dict[str, str]:
        """The variables of docker-compose.yaml."""
        named = {
            **{variable(field): getattr(self, field) for field in _OF_CONTAINERS},
            variable("source_roots"): self.source_roots or self.data,
            variable("endpoint_url"): self.s3_endpoint or self._on_main_host(self.s3_port),
            variable("tracking_uri"): self.mlflow_url or self._on_main_host(self.mlflow_port),
            variable("public_mlflow_url"): self._mlflow_page,
            "RATCHET_AIRFLOW_ORIGIN": self._airflow_origin,
            "RATCHET_MLFLOW_HOST": urlsplit(self._mlflow_page).netloc.lower(),
            "RATCHET_MLFLOW_ORIGIN": "{0.scheme}://{0.netloc}".format(urlsplit(self._mlflow_page.lower())),
            "COMPOSE_PROJECT_NAME": self.project,
            "RATCHET_PIPELINES_FROM": "pipelines" if self.has_git else self.pipelines_folder,
            "RATCHET_PIPELINES_AT": "/srv/pipelines/current" if self.has_git else "/srv/pipelines",
            "RATCHET_PIPELINES_URL": self.pipelines if self.has_git else None,
            "RATCHET_PIPELINES_BRANCH": self.pipelines_branch,
            "RATCHET_PIPELINES_SUBFOLDER": self.pipelines_subfolder,
            "RATCHET_AIRFLOW_PORT": self.airflow_port,
            "RATCHET_MLFLOW_PORT": self.mlflow_port,
            "RATCHET_S3_PORT": self.s3_port,
            "RATCHET_WORKER_TASKS": self.worker_tasks,
            "RATCHET_WORKER_MEMORY": f"{_WORKER_MIB + _TASK_MIB * self.worker_tasks}m",
            "RATCHET_PARALLELISM": self._handed_out,
            "RATCHET_HEARTBEAT_TIMEOUT": self.heartbeat_timeout,
            "RATCHET_ARTIFACTS": self.artifacts,
            "RATCHET_LOGS": self.logs_place or "",
            "RATCHET_LOGS_KEEP_DAYS": self.logs_keep_days,
            "RATCHET_CONTAINER_LOGS": self.container_logs,
            "RATCHET_STAGE_MAX_MEMORY": self.stage_max_memory,
            "RATCHET_STAGE_MAX_SHM": self.stage_max_shm,
            "RATCHET_STAGE_MAX_CPUS": self.stage_max_cpus,
            "RATCHET_STAGE_MAX_PIDS": self.stage_max_pids,
            "RATCHET_MAX_STAGES": self.max_stages,
            "RATCHET_ENGINE_SOCKET": self.engine_socket,
            "RATCHET_STAGE_NETWORK": f"{self.project}_stages",
            "RATCHET_OPEN_NETWORK": f"{self.project}_open",
            "RATCHET_STAGES_RUN_ON": self.stage_network,
            "RATCHET_REDIS_PORT": self.redis_port,
            "RATCHET_LISTEN": self.listen,
            "RATCHET_MAIN_HOST": self.main_host,
            "AWS_REGION": self.s3_region,
        }
        return {name: str(value) for name, value in named.items() if value is not None}

    @property
    def _airflow_origin(self) -> str:
        """Where Airflow's server sends people to log in: it serves the root of an address, whatever a proxy does."""
        return "{0.scheme}://{0.netloc}".format(
            urlsplit(self.public_airflow_url or f"http://127.0.0.1:{self.airflow_port}")
        )

    @property
    def _mlflow_page(self) -> str:
        """Where people open MLflow."""
        here = f"http://{self.main_host or '127.0.0.1'}:{self.mlflow_port}"
        return self.public_mlflow_url or self.mlflow_url or here

    @property
    def _handed_out(self) -> int:
        here = math.ceil((self.workers + self.gpu_workers) * self.worker_tasks * _READY)
        # On other hosts trainings hold theirs for hours; the others must not wait for these.
        return max(_LEAST_PARALLEL, here + (self.pool_gpu or 0)) if self.listen else here

    def _on_main_host(self, port: int) -> str | None:
        return f"http://{self.main_host}:{port}" if self.main_host else None
