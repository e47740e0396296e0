"""Every environment variable of Ratchet: its name, its type, what it does and its default.

No other module of the library, the stages, the plugin and the embedded set-up spells one of these names.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ratchet.contracts.collection import Policy, parse_policy
from ratchet.contracts.digest_time import DigestTime, parse_digest
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.quantities import Memory, Slots
from ratchet.contracts.setting_values import InstallationName, Names, Places, SecretAddress, VariableNames, WebAddress

PREFIX = "RATCHET_"
ALERTS = f"{PREFIX}ALERTS_"
"""What the variables begin with that hold the addresses of one receiver of alerts each."""
SOURCE_SECRETS = f"{PREFIX}SOURCE_"
"""What the variables begin with that an `sql` source may read without being listed; no message shows their values."""
SOURCE_ADDRESSES = f"{PREFIX}DATA"
"""The variable that every source may read, and, with `_` behind it, what more of them begin with: addresses."""
FOREIGN = ("AIRFLOW_", "AWS_", "MLFLOW_", "WANDB_", ALERTS)
"""No source reads variables that begin with these, whatever is allowed: some are keys to this installation."""
INTERNAL = "Ratchet sets it for the processes that it starts; no person does."
"""Marks the fields that are no settings of a person."""
_PYDANTIC = "Value error, "
"""With this pydantic begins the message of a ValueError."""


class Environment(BaseModel):
    """What the environment says. A variable is RATCHET_ and the field's name in upper case, or the field's alias.

    A variable that is empty counts as unset, but for RATCHET_GPUS: an empty list means no devices.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, alias_generator=lambda name: f"{PREFIX}{name.upper()}"
    )

    store: str | None = Field(
        None, description="The store: a folder, or s3://bucket/prefix. Airflow needs it. Default: .ratchet/store."
    )
    installation: InstallationName = Field(
        None,
        examples=["production"],
        description="The name of this installation, where several share a store: no other one takes over its runs and "
        "leases. Default: none; in Airflow a digest of its [api_auth] jwt_secret.",
    )
    data: str | None = Field(
        None, description="The folder or URI of the sources, for pipelines that name it in source.uri. Default: none."
    )
    source_variables: VariableNames = Field(
        (),
        examples=["SHOP_PASSWORD,CRM_*"],
        description=f"Variables, with commas, that an sql source may read as ${{NAME}}, besides {SOURCE_ADDRESSES} and "
        f"those that begin with {SOURCE_SECRETS}. CRM_* allows every name that begins with CRM_. Default: none.",
    )
    source_roots: Places = Field(
        (),
        examples=["/data,s3://sources"],
        description="Folders and s3:// prefixes, with commas, below which files of sources must lie. Default: any.",
    )
    tracking_uri: str | None = Field(
        None,
        alias="MLFLOW_TRACKING_URI",
        repr=False,  # it may hold a password
        description="The MLflow server. Default: runs and models are tracked in the store.",
    )
    wandb_mode: str | None = Field(
        None,
        alias="WANDB_MODE",
        description="online, or offline: the metrics of a training go to Weights & Biases while it runs, too. Default: "
        "online where WANDB_API_KEY is set, else not.",
    )
    wandb_api_key: str | None = Field(
        None,
        alias="WANDB_API_KEY",
        repr=False,
        description="The key of Weights & Biases, for its library. Default: none.",
    )
    wandb_project: str | None = Field(
        None, alias="WANDB_PROJECT", description="The project in Weights & Biases. Default: the pipeline's name."
    )
    runner: Literal["docker", "process"] | None = Field(
        None,
        examples=["docker"],
        description="How Airflow's tasks run stages: docker or process. Default: docker where an engine is set "
        "up: DOCKER_HOST, or its usual socket.",
    )
    stage_image: str | None = Field(
        None, description="The image of the stages. Default: the one that scripts/images.sh built last."
    )
    stage_image_gpu: str | None = Field(
        None,
        description="The image of the stages of a pipeline that trains on a GPU. Default: RATCHET_STAGE_IMAGE, else "
        "the one that VARIANT=gpu scripts/images.sh built last.",
    )
    pipelines: Path | None = Field(
        None,
        description="The folder of the pipelines of which Airflow makes DAGs, and where commands look for a name. "
        "Default: pipelines beside the DAG file.",
    )
    commit: str | None = Field(
        None,
        description="The commit of the pipelines in the records of runs, where they are in no git checkout, as in an "
        "image. Default: the commit that git reports, or that the service `pipelines` has fetched.",
    )
    gpus: str | None = Field(
        None,
        examples=["0,1"],
        description="The GPUs that stages on this host may use: indices or UUIDs with commas; empty: none. Default: "
        "those that nvidia-smi lists.",
    )
    pool_cpu: Slots = Field(
        None, description="Slots of the pool ratchet_cpu. Default: 4; of this host with make serve and make up."
    )
    pool_gpu: Slots = Field(
        None, description="GPUs for all runs, those for backfills included. Default: as RATCHET_GPUS, else 1."
    )
    pool_backfill: Slots = Field(None, description="Slots of the pool ratchet_backfill. Default: as RATCHET_POOL_CPU.")
    pool_backfill_gpu: Slots = Field(
        None, description="How many of RATCHET_POOL_GPU are for backfills alone. Default: none."
    )
    alert_log: Path | None = Field(
        None, description="The file to which each alert is appended. Default: alerts.jsonl in $AIRFLOW_HOME."
    )
    watch_seconds: float = Field(
        300, gt=0, examples=["300"], description="Seconds between two checks for late or stuck runs. Default: 300."
    )
    airflow_api: SecretAddress = Field(
        None,
        repr=False,
        examples=["http://ratchet-watch:PASSWORD@localhost:8080"],
        description="Airflow's server as the watch and the reaper ask it, with a user who may read, and the password; "
        "the same for Airflow's server itself. A secret. Default: none.",
    )
    heartbeat_url: SecretAddress = Field(
        None,
        repr=False,  # who knows it can keep the alarm silent
        examples=["https://hc-ping.com/..."],
        description="An address outside that the watch asks for (GET) each minute while it sees that all is well; a "
        "service there alarms when it hears nothing. A secret. Default: none.",
    )
    digest: Annotated[DigestTime | None, BeforeValidator(parse_digest)] = Field(
        None,
        examples=["07:30 Europe/Berlin"],
        description="The time of day, and its time zone (UTC without one), at which each receiver of alerts is sent a "
        "digest: what ran, how it ended, and what waits for a person. Default: none.",
    )
    public_airflow_url: WebAddress = Field(
        None,
        examples=["https://airflow.example.org"],
        description="The address at which people open Airflow, with its base path (none in the team set-up): for "
        "links in alerts. Default: Airflow's [api] base_url.",
    )
    public_mlflow_url: WebAddress = Field(
        None,
        examples=["https://mlflow.example.org"],
        description="The address at which people open MLflow: for links. Default: MLFLOW_TRACKING_URI.",
    )
    operators: Names = Field(
        (),
        description="People, with commas, by their Airflow names, who may change production. Default: whom it lets.",
    )
    defer_seconds: float = Field(
        0,
        ge=0,
        examples=["60"],
        description="Seconds after which a task of Airflow leaves its container to RATCHET_FOLLOWER. 0: never. "
        "Default: 0; with `make serve` and `make up`: 60.",
    )
    follower: Literal["triggerer", "host"] = Field(
        "triggerer",
        examples=["host"],
        description="Who follows it then: triggerer, which needs this host's engine and a worker's environment; host: "
        "python -m ratchet_airflow.follower, beside the engine. Default: triggerer.",
    )
    gc: Annotated[Policy, BeforeValidator(parse_policy)] = Field(
        Policy(),
        examples=["weekly,results=30,runs=730,last=14,grace=7,airflow=90"],
        description="What stays, and for how many days; weekly: the DAG ratchet-gc deletes the rest, and old rows of "
        "Airflow go; images: images of stages, too. Default: results=30,runs=730,last=14,grace=7,airflow=90.",
    )
    stage_network: str | None = Field(
        None,
        description="The engine's network for stages that need an address. Default: bridge, or host for a loopback "
        "address.",
    )
    cache_volume: str | None = Field(
        None, description="The engine's volume in which stages keep what they download from S3. Default: no cache."
    )
    cache: Path | None = Field(
        None,
        description="The folder in which stages that run as processes, and Airflow's workers, keep what they download "
        "from S3. Default: no cache.",
    )
    cache_limit: Memory = Field(
        20 << 30, examples=["20g"], description="The size that such a cache may reach, like 512m or 20g. Default: 20g."
    )
    mlflow_credentials: Path | None = Field(
        None,
        description="A file like MLflow's ~/.mlflow/credentials, for the stages register and report. Default: no "
        "password.",
    )
    endpoint_url: str | None = Field(
        None, alias="AWS_ENDPOINT_URL", description="The address of an S3 server that is not AWS. Default: AWS."
    )
    endpoint_url_s3: str | None = Field(
        None,
        alias="AWS_ENDPOINT_URL_S3",
        description="The same for S3 alone; it comes first. Default: AWS_ENDPOINT_URL.",
    )

    pools_given: Annotated[Names, INTERNAL] = Field((), description="The pools whose slots a person has set.")
    request: Annotated[Path | None, INTERNAL] = Field(None, description="The file with the request of the stage.")
    secrets: Annotated[Path | None, INTERNAL] = Field(None, description="The folder with the secrets of the stage.")
    gpu_devices: Annotated[str | None, INTERNAL] = Field(
        None, description="The GPUs of the stage, by the host's names. Inside a container they count from 0."
    )

    @property
    def s3_endpoint(self) -> str | None:
        """The S3 server, where it is not AWS."""
        return self.endpoint_url_s3 or self.endpoint_url


class _PartialEnvironment(Environment):
    """An environment in which some variables are wrong. To read one of them raises its ConfigurationError."""

    wrong: Mapping[str, str] = Field(alias="wrong")

    def __getattribute__(self, name: str) -> Any:
        values = super().__getattribute__("__dict__")
        if name in values.get("wrong", {}):
            raise ConfigurationError(values["wrong"][name], remedy=_remedy(name))
        return super().__getattribute__(name)


def environment() -> Environment:
    """What the environment says now.

    A wrong value stops only what needs it: reading its field raises ConfigurationError. So `--help` works, and an alert
    goes out, whatever else is wrong.
    """
    given = {
        name: value for name in _FIELDS if (value := os.environ.get(name)) or (value == "" and name == _MAY_BE_EMPTY)
    }
    try:
        return Environment.model_validate(given)
    except ValidationError as error:
        wrong = {str(each["loc"][0]): _said(str(each["loc"][0]), each["input"], each["msg"]) for each in error.errors()}
        right = {name: value for name, value in given.items() if name not in wrong}
        return _PartialEnvironment.model_validate(
            {**right, "wrong": {_FIELDS[name]: said for name, said in wrong.items()}}
        )


def variable(field: str) -> str:
    """The name of the variable that a field is read from."""
    return str(Environment.model_fields[field].alias)


def source_variables() -> tuple[str, ...]:
    """The variables that an sql source may read beyond addresses; `*` at the end of one allows what begins so."""
    return (f"{SOURCE_SECRETS}*", *environment().source_variables)


def is_setting(name: str) -> bool:
    """Whether a variable belongs to this installation, so that no source may read it."""
    return name.startswith(FOREIGN) or (name in _FIELDS and name != SOURCE_ADDRESSES)


def alert_variable(receiver: str) -> str:
    """The variable with the addresses of a receiver that `alerts.to` names: `ml-ops` -> `RATCHET_ALERTS_ML_OPS`."""
    return f"{ALERTS}{receiver.upper().replace('-', '_')}"


def alert_urls(receiver: str) -> list[str] | None:
    """The Apprise URLs of a receiver; they may hold passwords. Empty if the variable is empty, None if it is unset."""
    given = os.environ.get(alert_variable(receiver))
    return None if given is None else given.split()


def _said(name: str, value: object, message: str) -> str:
    own = message.removeprefix(_PYDANTIC)
    return f"{name}: {own}" if own != message else f"{name}: {value!r}: {message[:1].lower()}{message[1:]}"


def _remedy(field: str) -> str:
    (example,) = Environment.model_fields[field].examples or [""]
    return f"set it like {variable(field)}={example}, or unset it"


_FIELDS = {str(field.alias): name for name, field in Environment.model_fields.items()}
"""The fields by the names of their variables."""
_MAY_BE_EMPTY = variable("gpus")
