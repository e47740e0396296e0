"""The keys of .env: what is read, what is refused, and what follows from them."""

from pathlib import Path
from typing import Any

import pytest

from ratchet.contracts.errors import ConfigurationError
from team.settings import Settings
from team.settings_file import read

POSTGRES = "postgresql://ratchet:secret@db.example:5432/"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / ".env"


def refused(file: Path, text: str, **environment: str) -> str:
    file.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        read(file, environment)
    assert "docs/team.md" in caught.value.remedy
    assert "\n" not in str(caught.value)
    return caught.value.cause


def test_without_a_file_all_is_as_by_default(file: Path) -> None:
    assert read(file, {}) == Settings()


def test_an_empty_value_is_the_default(file: Path) -> None:
    file.write_text("RATCHET_PROJECT=\nRATCHET_WORKERS=''\n")
    assert read(file, {"RATCHET_S3_PORT": ""}) == Settings()


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("RATCHET_GPUS='a # b'", "a # b"),
        ("export RATCHET_GPUS = 'a b'", "a b"),
        ('RATCHET_GPUS="a b" # the two', "a b"),
        ("RATCHET_GPUS=a # one", "a"),
        ("RATCHET_GPUS=a#b", "a#b"),
        ("RATCHET_GPUS= # none yet", None),
    ],
)
def test_quotes_blanks_and_comments_are_not_part_of_a_value(file: Path, line: str, value: str | None) -> None:
    file.write_text(f"# a comment\n\n{line}\n")
    assert read(file, {}).gpus == value


def test_the_environment_goes_over_the_file(file: Path) -> None:
    file.write_text("RATCHET_WORKERS=2\nRATCHET_S3_PORT=8444\n")
    settings = read(file, {"RATCHET_WORKERS": "3", "UNRELATED": "x"})
    assert (settings.workers, settings.s3_port) == (3, 8444)


def test_a_bad_value_of_the_environment_is_reported_as_that(file: Path) -> None:
    assert refused(file, "RATCHET_WORKERS=2", RATCHET_WORKERS="many").startswith("environment: RATCHET_WORKERS: 'many'")


def test_an_unknown_key_is_reported_with_its_line_and_the_near_name(file: Path) -> None:
    said = refused(file, "# first\nRATCHET_WORKER=2\n")
    assert said == ".env:2: RATCHET_WORKER: unknown key; did you mean RATCHET_WORKERS?"


def test_a_key_like_no_other_is_reported_with_all_that_are_allowed(file: Path) -> None:
    said = refused(file, "POSTGRES_PASSWORD=x\n")
    assert ".env:1: POSTGRES_PASSWORD: unknown key; allowed: RATCHET_AIRFLOW_PORT" in said
    assert all(f"RATCHET_{name.upper()}" in said for name in Settings.model_fields)


def test_a_key_of_an_earlier_release_is_said_to_be_needless_and_stops_nothing(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text("RATCHET_S3_PORT=9000\nRATCHET_REAP_QUEUES=gpu-10.0.0.2,gpu-10.0.0.3\n")
    assert read(file, {"RATCHET_REAP_QUEUES": "gpu"}) == Settings(s3_port=9000)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(".env:2: RATCHET_REAP_QUEUES is not needed any more: ")


def test_a_second_definition_is_reported_with_the_line_of_the_first(file: Path) -> None:
    said = refused(file, "RATCHET_WORKERS=2\n\nRATCHET_WORKERS=3\n")
    assert said == ".env:3: RATCHET_WORKERS: a second time; the first is .env:1"


def test_a_line_that_sets_nothing_is_reported(file: Path) -> None:
    assert refused(file, "RATCHET_WORKERS: 2\n") == ".env:1: not NAME=VALUE"


def test_every_problem_is_reported_at_once(file: Path) -> None:
    said = refused(file, "nonsense\nRATCHET_WORKER=2\nRATCHET_S3_PORT=0\n", RATCHET_PROJECT="Big")
    assert [".env:1:" in said, ".env:2:" in said, ".env:3: RATCHET_S3_PORT: '0'" in said] == [True] * 3
    assert "environment: RATCHET_PROJECT: 'Big'" in said


@pytest.mark.parametrize(
    "line",
    [
        "RATCHET_PROJECT=-a", "RATCHET_PROJECT=a/b", "RATCHET_AIRFLOW_PORT=65536", "RATCHET_WORKERS=-1",
        "RATCHET_WORKER_TASKS=0", "RATCHET_HEARTBEAT_TIMEOUT=5", "RATCHET_STORE=/data", "RATCHET_STORE=s3://a/b/c",
        "RATCHET_DATA=file:///data", "RATCHET_SOURCE_ROOTS=/data", "RATCHET_SOURCE_ROOTS=s3://a-b,/", "RATCHET_SOURCE_VARIABLES=*",
        "RATCHET_CACHE_LIMIT=much", "RATCHET_CACHE_LIMIT=0g", "RATCHET_STAGE_MAX_MEMORY=64", "RATCHET_STAGE_MAX_SHM=0g",
        "RATCHET_STAGE_MAX_CPUS=0", "RATCHET_STAGE_MAX_PIDS=15", "RATCHET_MAX_STAGES=0", "RATCHET_POOL_CPU=0",
        "RATCHET_S3_ENDPOINT=s3.example:9000", "RATCHET_MLFLOW_URL=mlflow", "RATCHET_MLFLOW_URL=ftp://mlflow",
        "RATCHET_MLFLOW_URL=http://mlflow:0", "RATCHET_MLFLOW_URL=http://mlflow:99999",
        "RATCHET_DATABASE_URL=mysql://db", "RATCHET_DATABASE_URL=postgresql:///airflow",
        "RATCHET_DATABASE_URL=postgresql://db:port", "RATCHET_ENGINE_SOCKET=docker.sock", "RATCHET_LISTEN=0.0.0.0",
        "RATCHET_LISTEN=127.0.0.1", "RATCHET_LISTEN=main.example", "RATCHET_MAIN_HOST=10.0.0.256", "RATCHET_REDIS_PORT=0",
        "RATCHET_DIGEST=7:30", "RATCHET_DIGEST=07:30 Nowhere/City",
    ],
)  # fmt: skip
def test_a_bad_value_is_reported_with_its_line_and_key(file: Path, line: str) -> None:
    said = refused(file, f"{line}\n")
    assert said.startswith(f".env:1: {line.split('=', maxsplit=1)[0]}:")
    assert "value error" not in said.lower()


def test_the_time_of_the_digest_reaches_the_containers_with_its_zone(file: Path) -> None:
    file.write_text("RATCHET_DIGEST=07:30 Europe/Berlin\n")
    assert read(file, {}).variables()["RATCHET_DIGEST"] == "07:30 Europe/Berlin"


def test_a_password_in_a_bad_database_url_is_not_shown(file: Path) -> None:
    assert "hidden" not in refused(file, "RATCHET_DATABASE_URL=mysql://me:hidden@db\n")


def test_two_services_cannot_have_one_port(file: Path) -> None:
    said = refused(file, "RATCHET_AIRFLOW_PORT=5000\n")
    assert "RATCHET_AIRFLOW_PORT, RATCHET_MLFLOW_PORT and RATCHET_S3_PORT" in said
    assert "5000, 5000, 8333" in said


@pytest.mark.parametrize(
    "line",
    [
        "RATCHET_PIPELINES=pipelines", "RATCHET_PIPELINES=git@git.example:team/models.git",
        "RATCHET_PIPELINES=https://ada:token@git.example/models.git",
        "RATCHET_PIPELINES=https://git.example/m.git\nRATCHET_PIPELINES_SUBFOLDER=/a",
        "RATCHET_PIPELINES_BRANCH=live", "RATCHET_PIPELINES=/srv/models\nRATCHET_PIPELINES_CREDENTIALS=/a/file",
    ],
)  # fmt: skip
def test_pipelines_are_a_whole_path_or_an_address_without_a_log_in_and_only_git_has_branches(
    file: Path, line: str
) -> None:
    assert "RATCHET_PIPELINES" in refused(file, f"{line}\n")


@pytest.mark.parametrize("line", ["RATCHET_S3_ENDPOINT=https://s3.example", "RATCHET_S3_CREDENTIALS=/a/file"])
def test_an_s3_elsewhere_needs_its_credentials_and_our_own_takes_none(file: Path, line: str) -> None:
    assert "RATCHET_S3_ENDPOINT and RATCHET_S3_CREDENTIALS: set both, or neither" in refused(file, line)


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("RATCHET_MAIN_HOST=10.0.0.1", "RATCHET_LISTEN: with RATCHET_MAIN_HOST, set the address"),
        ("RATCHET_MAIN_HOST=10.0.0.1\nRATCHET_LISTEN=10.0.0.2\nRATCHET_GPU_WORKERS=2", "RATCHET_GPU_WORKERS: with"),
        (
            "RATCHET_LISTEN=10.0.0.1\nRATCHET_REDIS_PORT=8333",
            "all ports must differ, not 8080, 5000, 8333, 8333",
        ),
    ],
)
def test_hosts_that_work_together_have_to_fit(file: Path, lines: str, problem: str) -> None:
    assert problem in refused(file, f"{lines}\n")


def test_a_host_that_only_works_finds_everything_on_the_main_host() -> None:
    settings = Settings(main_host="10.0.0.1", listen="10.0.0.2", s3_port=18333)
    variables = settings.variables()
    assert variables["AWS_ENDPOINT_URL"] == "http://10.0.0.1:18333"
    assert variables["MLFLOW_TRACKING_URI"] == "http://10.0.0.1:5000"
    assert settings.stage_network == "ratchet_open"
    elsewhere = settings.model_copy(update={"s3_endpoint": "https://s3.example", "mlflow_url": "https://m.example"})
    assert elsewhere.variables()["AWS_ENDPOINT_URL"] == "https://s3.example"
    assert elsewhere.variables()["MLFLOW_TRACKING_URI"] == "https://m.example"


def test_a_file_that_is_no_text_is_reported(file: Path) -> None:
    file.write_bytes(b"RATCHET_GPUS=\xff\n")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read(file, {})


def test_what_is_elsewhere_is_not_started_here() -> None:
    assert Settings().elsewhere == ()
    everything = Settings(
        database_url=POSTGRES,
        s3_endpoint="https://s3.example",
        s3_credentials=Path("c"),
        mlflow_url="https://m.example",
    )
    assert everything.elsewhere == ("postgres", "s3", "mlflow")


@pytest.mark.parametrize(
    ("settings", "network"),
    [
        (Settings(project="a"), "a_stages"),
        (Settings(project="a", database_url=POSTGRES), "a_stages"),
        (Settings(project="a", mlflow_url="https://m.example"), "a_open"),
        (Settings(project="a", s3_endpoint="https://s.example", s3_credentials=Path("c")), "a_open"),
    ],
)
def test_stages_get_a_way_out_only_if_what_they_need_is_outside(settings: Settings, network: str) -> None:
    assert settings.stage_network == network
    variables = settings.variables()
    assert (variables["RATCHET_STAGES_RUN_ON"], variables["RATCHET_STAGE_NETWORK"]) == (network, "a_stages")


def test_links_to_mlflow_open_in_a_browser_unless_another_address_is_set() -> None:
    """Stages reach it by a name of the stack's network."""

    def link(**settings: Any) -> str:
        return Settings(**settings).variables()["RATCHET_PUBLIC_MLFLOW_URL"]

    assert link(mlflow_port=15000) == "http://127.0.0.1:15000"
    assert link(mlflow_url="https://mlflow.example") == "https://mlflow.example"
    assert link(main_host="10.0.0.1", listen="10.0.0.2") == "http://10.0.0.1:5000"
    assert link(public_mlflow_url="https://m.example", mlflow_url="http://10.0.0.3:5000") == "https://m.example"


def test_the_public_address_of_airflow_has_no_path_and_that_of_mlflow_may_have_one(file: Path) -> None:
    """Airflow's log-in (FAB) sends people to the root of its host."""
    said = refused(file, "RATCHET_PUBLIC_AIRFLOW_URL=https://a.example:8443/airflow\n")
    assert said.startswith(".env:1: RATCHET_PUBLIC_AIRFLOW_URL: 'https://a.example:8443/airflow': the path /airflow is")
    assert "allowed: https://HOST or https://HOST:PORT; give Airflow a name or a port of its own in the proxy" in said
    assert "\n" not in said
    file.write_text(
        "RATCHET_PUBLIC_AIRFLOW_URL=https://a.example:8443/\nRATCHET_PUBLIC_MLFLOW_URL=https://m.example/b\n"
    )
    assert read(file, {}).variables()["RATCHET_AIRFLOW_ORIGIN"] == "https://a.example:8443"


def test_the_variables_are_strings_and_hold_only_what_is_set() -> None:
    variables = Settings(workers=2, airflow_port=81, pool_gpu=3, mlflow_url="https://m.example").variables()
    assert variables["RATCHET_AIRFLOW_PORT"] == "81"
    assert variables["RATCHET_POOL_GPU"] == "3"
    assert variables["MLFLOW_TRACKING_URI"] == "https://m.example"
    assert not {"RATCHET_POOL_CPU", "RATCHET_GPUS", "AWS_ENDPOINT_URL"} & set(variables)


def test_no_variable_holds_the_password_of_a_database() -> None:
    assert not [value for value in Settings(database_url=POSTGRES).variables().values() if "secret" in value]


def test_sources_lie_in_the_bucket_of_the_data_unless_the_operator_opens_others() -> None:
    assert Settings().variables()["RATCHET_SOURCE_ROOTS"] == "s3://sources"
    assert Settings(data="s3://lake/raw").variables()["RATCHET_SOURCE_ROOTS"] == "s3://lake/raw"
    opened = Settings(source_roots="s3://lake/raw,s3://shop", source_variables="SHOP_*, CRM").variables()
    assert opened["RATCHET_SOURCE_ROOTS"] == "s3://lake/raw,s3://shop"
    assert opened["RATCHET_SOURCE_VARIABLES"] == "SHOP_*, CRM"
    assert "RATCHET_SOURCE_VARIABLES" not in Settings().variables()


def test_what_a_worker_may_use_and_what_airflow_runs_at_once_follow_from_the_tasks() -> None:
    def sizes(**given: int | str) -> tuple[str, str]:
        said = Settings.model_validate(given).variables()
        return said["RATCHET_WORKER_MEMORY"], said["RATCHET_PARALLELISM"]

    assert sizes() == ("3072m", "20")
    assert sizes(worker_tasks=64) == ("17408m", "160")
    assert sizes(workers=4, gpu_workers=0, worker_tasks=16) == ("5120m", "80")
    assert sizes(gpu_workers=0, listen="10.0.0.2") == ("3072m", "32")  # a GPU host may have workers, too
    # As many trainings as there are devices run on these for hours, and the nights of others go on.
    assert sizes(gpu_workers=0, listen="10.0.0.2", pool_gpu=40) == ("3072m", "50")


def test_copies_of_backups_are_never_in_clear(file: Path) -> None:
    said = refused(file, "RATCHET_BACKUPS_TO=/mnt/backups\n")
    assert said.startswith(
        "RATCHET_BACKUPS_TO: copies are sealed, since they have every secret; set RATCHET_BACKUPS_KEY"
    )
    file.write_text("RATCHET_BACKUPS_TO=/mnt/backups\nRATCHET_BACKUPS_KEY=/etc/ratchet.key\n")
    assert read(file, {}).backups_keep == 7


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("RATCHET_BACKUPS_TO=backups", "RATCHET_BACKUPS_TO: 'backups': string should match pattern"),
        ("RATCHET_BACKUPS_TO=s3://", "RATCHET_BACKUPS_TO: 's3://': string should match pattern"),
        ("RATCHET_BACKUPS_KEEP=0", "RATCHET_BACKUPS_KEEP: '0': input should be greater than or equal to 1"),
        ("RATCHET_BACKUPS_ENDPOINT=minio", "RATCHET_BACKUPS_ENDPOINT: 'minio': not a URL with a host"),
    ],
)
def test_where_backups_go_and_how_many_stay_is_checked(file: Path, line: str, said: str) -> None:
    assert said in refused(file, f"{line}\nRATCHET_BACKUPS_KEY=/etc/ratchet.key\n")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("RATCHET_PIPELINES=https://oauth2:t0ken@git.example/a/b.git", "RATCHET_PIPELINES_CREDENTIALS"),
        ("RATCHET_PIPELINES=https://t0ken@git.example/a/b.git", "RATCHET_PIPELINES_CREDENTIALS"),
        ("RATCHET_PIPELINES=https://git.example/a/b.git?private_token=t0ken", "neither the https:// address"),
        ("RATCHET_PIPELINES=git@git.example:team/t0ken.git", "over https alone"),
        ("RATCHET_PIPELINES=ssh://git@git.example/team/t0ken.git", "over https alone"),
        ("RATCHET_PIPELINES=t0ken", "a folder of this host, with its whole path"),
        ("RATCHET_PIPELINES=/srv/t0ken:ro", "a folder of this host, with its whole path"),
        ("RATCHET_PIPELINES=~no-such-user/t0ken", "~no-such-user is no user of this host"),
        ("RATCHET_HEARTBEAT_URL=hc.example/t0ken", "RATCHET_HEARTBEAT_URL"),
    ],
)
def test_a_wrong_address_is_refused_without_the_token_that_it_may_hold(file: Path, line: str, said: str) -> None:
    cause = refused(file, line)
    assert said in cause
    assert "t0ken" not in cause


@pytest.mark.parametrize(
    ("lines", "other"),
    [
        ("RATCHET_LOGS=s3://ratchet", "s3://ratchet"),
        ("RATCHET_LOGS=s3://ratchet/logs", "s3://ratchet"),
        ("RATCHET_LOGS=s3://lake\nRATCHET_DATA=s3://lake/raw", "s3://lake/raw"),
        ("RATCHET_LOGS=s3://lake/web/\nRATCHET_SOURCE_ROOTS=s3://sources, s3://lake/web", "s3://lake/web"),
        ("RATCHET_STORE=s3://logs", "s3://logs"),
    ],
)
def test_old_logs_are_deleted_only_where_nothing_else_lies(file: Path, lines: str, other: str) -> None:
    assert f" and {other} are in one another" in refused(file, lines)


def test_logs_may_share_a_bucket_with_data_beside_them(file: Path) -> None:
    file.write_text("RATCHET_LOGS=s3://lake/logs\nRATCHET_DATA=s3://lake/raw\nRATCHET_ARTIFACTS=s3://lake/logs2\n")
    assert read(file, {}).logs_place == "s3://lake/logs"
