"""docker-compose.yaml: the policies that each service keeps, and that it fits the settings, the secrets and the stack."""

import json
import os
import re
import subprocess
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml
from flask import Flask

from ratchet.contracts.errors import ConfigurationError
from team import secret_files
from team.cpu_limits import cpu_limits, too_many
from team.engine_filter.policy import PREFIX
from team.engine_filter.policy import Policy as Filter
from team.settings import Settings
from team.stack import ONCE, WORKING, Stack, program

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "docker-compose.yaml"
LAID_OVER = (ROOT / "docker" / "compose-hosts.yaml", ROOT / "docker" / "compose-worker.yaml")
DOCUMENT: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = DOCUMENT["services"]
FOR_PEOPLE = {"made.json", "mlflow-admin-password"}
"""Files that no service gets: the record of what was drawn, and the password with which a person logs in."""


def secrets_of(service: str) -> set[str]:
    return {each if isinstance(each, str) else each["source"] for each in SERVICES[service].get("secrets", [])}


def environment_of(service: str) -> dict[str, str]:
    given: dict[str, str] = SERVICES[service].get("environment", {})
    return given


def test_a_service_that_lasts_has_a_health_check_and_is_started_again() -> None:
    lasting = {name for name, said in SERVICES.items() if said["restart"] == "unless-stopped" and "healthcheck" in said}
    assert lasting == set(SERVICES) - ONCE


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_has_few_rights_and_a_limit(service: str) -> None:
    said = SERVICES[service]
    assert said["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in said["security_opt"]
    assert said["read_only"] is True
    assert re.fullmatch(r"\d+[mg]|\$\{RATCHET_WORKER_MEMORY:-\d+m\}", said["mem_limit"])
    assert said["pids_limit"] > 0
    assert said["cpus"] == f"${{RATCHET_{'WORKER' if service.startswith('worker') else 'SERVICE'}_CPUS:-0}}"
    assert {"max-size", "max-file"} <= set(said["logging"]["options"])
    assert not {"privileged", "network_mode", "pid", "ipc", "devices", "userns_mode"} & set(said)
    leaves_root = {"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"}  # what an entry point needs for that
    assert set(said.get("cap_add", [])) <= leaves_root


@pytest.mark.parametrize("service", SERVICES)
def test_an_image_is_named_with_its_version(service: str) -> None:
    name = re.sub(r"^\$\{\w+:-(.*)\}$", r"\1", SERVICES[service]["image"])
    assert re.fullmatch(r"ratchet-\w+:\w+|[\w/]+:\d+\.\d+[\w.-]*", name)


@pytest.mark.parametrize("service", SERVICES)
def test_a_port_is_open_on_this_host_alone(service: str) -> None:
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[service].get("ports", []))


def test_only_the_filter_has_the_engines_socket() -> None:
    holders = {service for service in SERVICES for volume in SERVICES[service].get("volumes", []) if ".sock" in volume}
    assert holders == {"engine"}
    assert SERVICES["engine"]["networks"] == ["engine"]
    assert {service for service in SERVICES if "engine" in SERVICES[service]["networks"]} == {
        "engine", "follower", "reaper", "triggerer", "worker", "worker-gpu",
    }  # fmt: skip
    assert "ports" not in SERVICES["engine"]


def test_apart_from_the_socket_and_the_pipelines_nothing_of_the_host_is_mounted() -> None:
    mounted = {volume.split(":")[0] for each in SERVICES.values() for volume in each.get("volumes", [])}
    assert {name for name in mounted if not name.startswith("$")} <= set(DOCUMENT["volumes"])
    assert {name for name in mounted if name.startswith("$")} == {"${RATCHET_ENGINE_SOCKET", "${RATCHET_PIPELINES_FROM"}
    of_pipelines = [volume for each in SERVICES.values() for volume in each.get("volumes", []) if "PIPELINES" in volume]
    assert {volume.partition("}")[2] for volume in of_pipelines} == {":/srv/pipelines:ro"}


def test_stages_meet_s3_and_mlflow_alone() -> None:
    assert {service for service in SERVICES if "stages" in SERVICES[service]["networks"]} == {"s3", "mlflow"}


def test_only_the_front_and_what_was_asked_to_be_open_lead_outside() -> None:
    assert {name for name, said in DOCUMENT["networks"].items() if not said.get("internal")} == {"front", "open"}


@pytest.mark.parametrize("service", SERVICES)
def test_no_environment_holds_a_secret(service: str) -> None:
    for name, value in environment_of(service).items():
        assert name not in DOCUMENT["secrets"]
        assert not re.search("PASSWORD|SECRET|TOKEN|FERNET|_KEY$|CREDENTIALS", name) or value.startswith("/run/"), name
    said = json.dumps(SERVICES[service])
    assert not re.search(r"\w+://[^/@\s\"]*:[^/@\s\"]+@", said)  # a URL with a password


def test_a_service_has_only_the_secrets_that_it_needs() -> None:
    holders = {name: {service for service in SERVICES if name in secrets_of(service)} for name in DOCUMENT["secrets"]}
    assert holders["s3-admin"] == holders["postgres-password"] - {"postgres"} == {"init"}
    assert holders["airflow-admin-password"] == {"init"}
    assert holders[secret_files.PEOPLE_KEY] == {"api-server"}
    follow = {"worker", "worker-gpu", "triggerer", "follower"}
    assert holders["s3-worker"] == holders["mlflow-credentials"] - {"init"} == follow
    assert holders["s3.json"] == holders["s3.key"] == {"s3"}
    assert holders["mlflow-auth.ini"] == {"mlflow"}
    assert holders["source-variables"] == {"worker", "triggerer"}  # the queue of `gpu` has trainings alone
    assert secrets_of("worker") == secrets_of("worker-gpu") | {"source-variables"}
    assert secrets_of("engine") == set()
    assert secrets_of("reaper") == {"RATCHET_AIRFLOW_API", "RATCHET_INSTALLATION", "s3-orchestrator"}
    assert secrets_of("watch") == secrets_of("reaper") | {"RATCHET_HEARTBEAT_URL"}
    assert holders["RATCHET_HEARTBEAT_URL"] == {"watch"}  # who knows it can keep the alarm silent
    assert holders["pipelines-credentials"] == {"pipelines"}
    assert secrets_of("pipelines") == {"pipelines-credentials"}
    for worker in ("worker", "worker-gpu"):  # code that breaks out of a task does not hold the databases
        assert not {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AIRFLOW__CORE__FERNET_KEY"} & secrets_of(worker)
        assert "AIRFLOW__API_AUTH__JWT_SECRET" not in secrets_of(worker)  # nor makes it tokens of people


def test_the_page_says_what_a_worker_that_was_taken_over_can_do_with_each_secret_of_airflows() -> None:
    means = {
        "AIRFLOW__CELERY__BROKER_URL": "the password of Redis",
        "AIRFLOW__CELERY__RESULT_BACKEND": "the password of Redis",
        "AIRFLOW__API__SECRET_KEY": "the logs of tasks",
    }
    for worker in ("worker", "worker-gpu"):
        assert {name for name in secrets_of(worker) if name.startswith("AIRFLOW__")} == means.keys()
    page = (ROOT / "docs" / "team.md").read_text(encoding="utf-8")
    (said,) = re.findall(r"(?ms)^\*\*A worker that was taken over\*\*.*?\n\n", page)
    assert [words for words in means.values() if words not in said] == []
    decision = (ROOT / "docs" / "adr" / "083-the-signing-key-is-on-no-worker.md").read_text(encoding="utf-8")
    for text in (said, decision):
        assert "read the tokens of other tasks in the queues" in text
        assert re.search(r"signs no(ne|\stoken)", text)


def test_a_key_that_a_worker_has_signs_no_log_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's server reads the file after its `[api] secret_key`, which workers have for the logs of tasks."""
    file = Path(environment_of("api-server")["AIRFLOW__FAB__CONFIG_FILE"])
    monkeypatch.setenv(secret_files.PEOPLE_KEY, "of people")
    app = Flask("log-in")
    app.secret_key = "of logs"
    assert app.config.from_pyfile(str(ROOT / file.relative_to("/opt/ratchet/ours")))
    assert app.secret_key == "of people"


def test_the_triggerer_has_what_a_worker_follows_containers_with_and_the_databases() -> None:
    triggerer, worker = SERVICES["triggerer"], SERVICES["worker"]
    for part in ("networks", "volumes", "tmpfs", "depends_on"):
        assert triggerer[part] == worker[part]
    assert environment_of("worker").items() - environment_of("triggerer").items() == {("RATCHET_DEFER_SECONDS", "60")}
    for_tasks = {"AIRFLOW__CELERY__BROKER_URL", "AIRFLOW__CELERY__RESULT_BACKEND", "RATCHET_INSTALLATION"}
    assert secrets_of("worker") - secrets_of("triggerer") == for_tasks  # it gets no task, and begins no run
    assert secrets_of("triggerer") - secrets_of("worker") == secrets_of("scheduler") - secrets_of("worker") - {
        "s3-orchestrator"
    }


def test_every_secret_file_that_is_made_is_one_that_a_service_or_a_person_uses(tmp_path: Path) -> None:
    secret_files.write(tmp_path / "secrets", Settings(), os.getuid())
    made = {path.name for path in (tmp_path / "secrets").iterdir()}
    assert made - FOR_PEOPLE == set(DOCUMENT["secrets"])


def stack(**settings: Any) -> Stack:
    images = {"RATCHET_STAGE_IMAGE": "a:1", "RATCHET_STAGE_IMAGE_GPU": "a:2", "RATCHET_AIRFLOW_IMAGE": "b:1"}
    return Stack(ROOT, Settings(**settings), {**images, "RATCHET_GPUS_OF_WORKERS": "0"})


def test_every_variable_of_the_file_is_one_that_make_up_can_set() -> None:
    everything = stack(
        gpus="0", pool_cpu=1, pool_gpu=1, pool_backfill=1, pool_backfill_gpu=1, engine_socket="/run/docker.sock",
        s3_endpoint="https://s3.example", s3_credentials="c", mlflow_url="https://m.example", listen="10.0.0.2",
        main_host="10.0.0.1", source_variables="SHOP_*", operators="ada,ben", gc="weekly", digest="07:30",
        public_airflow_url="https://a.example",
        public_mlflow_url="https://m.example", pipelines="https://git.example/p.git",
        pipelines_branch="live", pipelines_subfolder="a/b", logs="s3://shop-logs",
    )  # fmt: skip
    text = "".join(file.read_text(encoding="utf-8") for file in (FILE, *LAID_OVER))
    text = re.sub(r"(?m)^\s*#.*$", "", text).replace("$$", "")
    asked = set(re.findall(r"\$\{(\w+)", text))
    assert asked
    assert asked <= set(everything.environment())
    said = {name for name in everything.settings.variables() if name != "COMPOSE_PROJECT_NAME"}
    assert said <= asked  # what no service asks for is said in vain


def test_the_defaults_of_the_file_are_those_of_the_settings() -> None:
    secrets = Stack(ROOT, Settings(), {}).secrets.relative_to(ROOT)
    variables = {**Settings().variables(), "RATCHET_SECRETS": f"./{secrets}"}
    text = FILE.read_text(encoding="utf-8")
    for name, default in re.findall(r"\$\{(\w+):-([^}]*)\}", text):
        assert default == variables.get(name, default), name


def config(stack: Stack) -> Any:
    try:
        compose = program()
    except ConfigurationError as error:
        pytest.skip(error.cause)
    named = [word for file in stack.settings.files for word in ("--file", str(ROOT / file))]
    ended = subprocess.run(
        [*compose, "--project-directory", str(ROOT), *named, "config"],
        env=stack.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "variable is not set" not in ended.stderr
    return yaml.safe_load(ended.stdout)


def test_the_filters_limits_are_its_own_defaults_unless_a_setting_says_otherwise() -> None:
    given = {name: value for name, value in environment_of("engine").items() if name.startswith(f"{PREFIX}MAX_")}
    assert set(given) == {f"{PREFIX}{name.upper()}" for name in Filter.model_fields if name.startswith("max_")}
    by_default = {name: re.sub(r"^\$\{\w+:-(.*)\}$", r"\1", value) for name, value in given.items()}
    installation = {f"{PREFIX}INSTALLATION": "ratchet"}
    assert Filter.load({**installation, **by_default}) == Filter.load(installation)


def test_what_stages_may_have_arrives_at_the_filter() -> None:
    made = config(
        stack(
            project="shop", mlflow_url="https://m.example", engine_socket="/run/user/1/docker.sock", stage_max_memory="128g",
            stage_max_shm="32g", stage_max_cpus=96, stage_max_pids=9000, max_stages=9,
        )
    )  # fmt: skip
    engine, worker = made["services"]["engine"], made["services"]["worker"]
    permits = Filter.load({key: value for key, value in engine["environment"].items() if key.startswith(PREFIX)})
    assert (permits.max_memory, permits.max_shm, permits.max_cpus) == (128 << 30, 32 << 30, 96)
    assert (permits.max_pids, permits.max_containers) == (9000, 9)
    assert permits.networks == (worker["environment"]["RATCHET_STAGE_NETWORK"],) == ("shop_open",)
    assert "/run/user/1/docker.sock" in str(engine["volumes"])


def test_cores_follow_from_the_tasks_and_the_host_unless_settings_say_otherwise() -> None:
    def limits(cores: int, **settings: Any) -> tuple[float, float]:
        found = cpu_limits(Settings(**settings), cores)
        return float(found["RATCHET_WORKER_CPUS"]), float(found["RATCHET_SERVICE_CPUS"])

    assert limits(2) == (1.5, 1.5)  # so that something is left for the others
    assert limits(64) == (3, 2)
    assert limits(64, worker_tasks=200) == (48, 2)
    assert limits(64, worker_tasks=200, worker_cpus=6.5, service_cpus=1) == (6.5, 1)
    (line,) = too_many(Settings(worker_cpus=3, service_cpus=2), 2)
    assert line.startswith("RATCHET_WORKER_CPUS: 3 is more than the 2 cores")
    services = config(stack(worker_cpus=0.5, service_cpus=0.25))["services"]
    assert {name for name, said in services.items() if float(said["cpus"]) == 0.5} == {"worker", "worker-gpu"}
    assert {float(said["cpus"]) for said in services.values()} == {0.5, 0.25}


def test_logs_of_every_host_go_to_one_bucket_which_an_s3_elsewhere_has_only_if_it_is_named() -> None:
    def places(**settings: Any) -> set[str]:
        services = config(stack(**settings))["services"]
        assert services["logs"]["environment"]["RATCHET_LOGS_KEEP_DAYS"] == "7"
        assert {said["logging"]["options"]["max-size"] for said in services.values()} == {"5m"}
        names = ("logs", "worker", "worker-gpu", "triggerer", "api-server", "init")
        return {services[name]["environment"]["RATCHET_LOGS"] for name in names}

    kept = {"logs_keep_days": 7, "container_logs": "5m"}
    elsewhere = {"s3_endpoint": "https://s3.example", "s3_credentials": "c", **kept}
    assert places(**kept) == {"s3://logs"}
    assert places(**elsewhere) == {""}
    assert places(**elsewhere, logs="s3://shop-logs/airflow") == {"s3://shop-logs/airflow"}
    assert places(main_host="10.0.0.1", listen="10.0.0.2", **kept) == {"s3://logs"}


def test_a_task_waits_for_hours_while_the_file_of_its_pipeline_is_broken_or_not_yet_there() -> None:
    services = config(stack())["services"]
    for name in ("worker", "worker-gpu"):
        assert int(services[name]["environment"]["AIRFLOW__WORKERS__MISSING_DAG_RETRIES"]) >= 4 * 60


def test_for_other_hosts_what_their_workers_need_listens_on_one_address_more() -> None:
    services = config(stack(listen="10.0.0.1", redis_port=16379))["services"]
    open_there = {name for name, said in services.items() if "10.0.0.1" in str(said.get("ports"))}
    assert open_there == {"api-server", "redis", "s3", "mlflow"}
    assert set(services["redis"]["networks"]) == {"data", "front"}  # a port of an internal network leads nowhere
    assert "10.0.0.1:*" in services["mlflow"]["environment"]["MLFLOW_SERVER_ALLOWED_HOSTS"]


def test_mlflow_answers_browsers_at_the_address_where_people_open_it() -> None:
    """It compares the header Host as it is, and asks for its lists by POST, where browsers name the page."""

    def opens(page: str, given: dict[str, str]) -> bool:
        hosts, origins = (given[f"MLFLOW_SERVER_{name}"] for name in ("ALLOWED_HOSTS", "CORS_ALLOWED_ORIGINS"))
        is_known = any(fnmatch(page.partition("://")[2], host) for host in hosts.split(","))
        return is_known and page in origins.split(",")

    def mlflow(**settings: Any) -> dict[str, str]:
        given: dict[str, str] = config(stack(**settings))["services"]["mlflow"]["environment"]
        return given

    public = {"public_mlflow_url": "https://MLflow.example/base"}
    for given in (mlflow(**public), mlflow(**public, listen="10.0.0.1", mlflow_port=15000)):
        assert opens("https://mlflow.example", given)
        assert not opens("https://other.example", given)
    assert opens("http://10.0.0.1:15000", given)
    assert opens("http://127.0.0.1:5000", mlflow())


def test_who_opens_airflow_from_outside_is_sent_there_to_log_in() -> None:
    """Airflow's log-in (FAB) sends people to `[api] base_url` of its server, and not to where they came from."""

    def sent_to(**settings: Any) -> str:
        given: dict[str, str] = config(stack(**settings))["services"]["api-server"]["environment"]
        return given["AIRFLOW__API__BASE_URL"]

    assert sent_to(public_airflow_url="https://airflow.example") == "https://airflow.example"
    assert sent_to(airflow_port=18080) == "http://127.0.0.1:18080"
    inside = config(stack(public_airflow_url="https://airflow.example"))["services"]["worker"]["environment"]
    assert inside["AIRFLOW__API__BASE_URL"] == "http://127.0.0.1:8080"  # `ratchet doctor` asks the server itself


def test_each_host_with_an_engine_has_a_reaper_which_reaches_that_and_no_database() -> None:
    here = config(stack(listen="10.0.0.1"))["services"]["reaper"]
    there = config(stack(main_host="10.0.0.1", listen="10.0.0.2"))["services"]["reaper"]
    for said in (here, there):
        assert said["environment"]["DOCKER_HOST"] == "tcp://engine:2375"
        assert not [name for name in said["environment"] if name.startswith("AIRFLOW__")]
        assert set(said["networks"]) == {"front", "engine"}  # the databases are on another one
    assert there["environment"]["AWS_ENDPOINT_URL"] == "http://10.0.0.1:8333"
    assert "reaper" in WORKING


def test_on_a_host_that_only_works_the_worker_asks_the_main_host_and_shows_its_logs() -> None:
    services = config(stack(main_host="10.0.0.1", listen="10.0.0.2", airflow_port=18080))["services"]
    said = services["worker-gpu"]
    assert said["environment"]["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == "http://10.0.0.1:18080/execution/"
    assert said["environment"]["AWS_ENDPOINT_URL"] == "http://10.0.0.1:8333"
    assert said["environment"]["RATCHET_LISTEN"] == "10.0.0.2"
    assert "8793" in str(said["ports"])
    assert said["environment"]["RATCHET_FOLLOWER"] == "host"  # no triggerer reaches its engine
    assert float(said["environment"]["RATCHET_DEFER_SECONDS"]) > 0
    assert services["engine"]["environment"]["ENGINE_FILTER_NETWORKS"] == "ratchet_open"


def test_a_task_waits_for_days_for_a_worker_of_its_queue() -> None:
    """Airflow's own limit is three times ten minutes; then the task has failed, whatever its retries."""
    from airflow.jobs import scheduler_job_runner

    said = config(stack())["services"]["scheduler"]["environment"]
    assert int(said["AIRFLOW__SCHEDULER__NUM_STUCK_IN_QUEUED_RETRIES"]) * 600 > 5 * 86400
    read = Path(scheduler_job_runner.__file__).read_text(encoding="utf-8")
    assert 'key="num_stuck_in_queued_retries"' in read  # it is not documented
    # Each of those times is a message at the broker: a worker that comes back after days drops the old ones.
    celery = json.loads(said["AIRFLOW__CELERY__EXTRA_CELERY_CONFIG"])
    assert 2 * 600 < celery["task_annotations"]["*"]["expires"] < 86400


def test_a_host_that_only_works_has_a_follower_with_the_keys_of_its_worker_and_no_airflow() -> None:
    services = config(stack(main_host="10.0.0.1", listen="10.0.0.2"))["services"]
    said, worker = services["follower"], services["worker-gpu"]
    assert not [name for name in said["environment"] if name.startswith("AIRFLOW__")]
    assert set(said["networks"]) == {"front", "engine"}  # the databases are on another one
    assert secrets_of("follower") <= secrets_of("worker-gpu")
    for name in ("DOCKER_HOST", "AWS_ENDPOINT_URL", "MLFLOW_TRACKING_URI", "RATCHET_STORE", "RATCHET_ALERT_LOG"):
        assert said["environment"][name] == worker["environment"][name]
    # What followers keep of a log, and the file by which the worker sees the follower.
    assert {*map(ends_of, said["volumes"])} == {*map(ends_of, worker["volumes"])}
    assert services["reaper"]["environment"]["RATCHET_FOLLOWER"] == "host"  # it alerts people if none is there
    assert "follower" in WORKING
    here = stack().scale()
    assert "follower=0" in here


def ends_of(volume: str | dict[str, str]) -> tuple[str, str]:
    """Where a volume is, and where it is seen; Compose 1 and 2 write it differently."""
    if isinstance(volume, str):
        source, target, *_ = volume.split(":")
        return source, target
    return volume["source"], volume["target"]


def test_whoever_parses_or_runs_tasks_sees_the_same_pipelines_of_a_folder_or_of_git() -> None:
    def seen(**settings: Any) -> dict[str, set[str]]:
        services = config(stack(**settings))["services"]
        mounted = {
            name: {source for source, target in map(ends_of, said.get("volumes", [])) if target == "/srv/pipelines"}
            for name, said in services.items()
            if "RATCHET_PIPELINES" in said.get("environment", {})
        }
        assert {"dag-processor", "scheduler", "triggerer", "worker", "worker-gpu"} <= set(mounted)
        (places,) = {frozenset(places) for places in mounted.values()}
        (inside,) = {services[name]["environment"]["RATCHET_PIPELINES"] for name in mounted}
        return {inside: set(places)}

    assert seen() == {"/srv/pipelines": {str(ROOT / "dags" / "pipelines")}}
    assert seen(pipelines="/data/models") == {"/srv/pipelines": {"/data/models"}}
    of_git = {"pipelines": "https://git.example/p.git", "pipelines_branch": "live"}
    assert seen(**of_git) == {"/srv/pipelines/current": {"pipelines"}}
    assert seen(main_host="10.0.0.1", listen="10.0.0.2", **of_git) == seen(**of_git)
    assert "pipelines=0" in stack().scale()
    assert "pipelines=1" in stack(**of_git).scale()
    fetching = config(stack(**of_git))["services"]["pipelines"]
    assert fetching["environment"]["PIPELINES_URL"] == "https://git.example/p.git"
    assert ends_of(*fetching["volumes"]) == ("pipelines", "/srv/pipelines")


def test_old_rows_of_airflow_go_where_the_policy_lets_old_things_go_by_themselves() -> None:
    assert "rows=0" in stack(gc="results=60").scale()
    assert "rows=1" in stack(gc="weekly,airflow=60").scale()
    assert secrets_of("rows") == {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"}
    assert config(stack(gc="weekly,airflow=60"))["services"]["rows"]["environment"]["RATCHET_GC"] == "weekly,airflow=60"


def test_what_is_handed_to_another_host_is_what_its_worker_is_given() -> None:
    given = set().union(*(secrets_of(service) for service in WORKING))
    assert set(secret_files.WORKERS) == given | secrets_of("pipelines")
