"""The passwords and keys: drawn once, in files that only their owner reads, and what each of them says."""

import configparser
import importlib.util
import json
import os
import stat
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy.engine import make_url

from ratchet.contracts.environment import variable
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.stages import STAGES
from ratchet_airflow.run_id import installation
from team import secret_files
from team.settings import Settings
from team.settings_file import read

OTHER = 10001
ODD = "p@ss:w/or?d #%41$HOME&+ü"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "home" / "secrets"


def written(folder: Path, settings: Settings | None = None) -> dict[str, str]:
    secret_files.write(folder, settings or Settings(), os.getuid())
    return {path.name: path.read_text() for path in folder.iterdir()}


def login(text: str, profile: str = "default") -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(text)
    return dict(parser[profile])


def as_mlflow_reads(file: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """By MLflow's own code, of which the rest of its server is not imported."""
    monkeypatch.setenv("MLFLOW_AUTH_CONFIG_PATH", str(file))
    package = importlib.util.find_spec("mlflow")
    assert package is not None
    assert package.origin is not None
    code = Path(package.origin).parent / "server" / "auth" / "config.py"
    spec = importlib.util.spec_from_file_location("auth_config", code)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.read_auth_config()


def identities(files: dict[str, str]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in json.loads(files["s3.json"])["identities"]}


def test_secrets_are_made_once_and_stay(folder: Path) -> None:
    first = written(folder)
    assert written(folder) == first
    assert written(folder, Settings(workers=5)) == first


def test_a_file_that_has_not_changed_is_not_written_again(folder: Path) -> None:
    written(folder)
    before = {path.name: path.stat().st_ino for path in folder.iterdir()}
    written(folder)
    assert {path.name: path.stat().st_ino for path in folder.iterdir()} == before


def test_two_installations_share_no_secret(folder: Path, tmp_path: Path) -> None:
    written(folder)
    written(tmp_path / "second")
    first, second = (json.loads((each / "made.json").read_text()) for each in (folder, tmp_path / "second"))
    assert set(first) == set(second)
    assert not set(first.values()) & set(second.values())
    assert len(set(first.values())) == len(first)


def test_the_folder_is_closed_and_the_files_are_for_reading_alone(folder: Path) -> None:
    folder.mkdir(parents=True, mode=0o755)
    written(folder)
    (folder / "redis.conf").chmod(0o644)
    written(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o400}


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files to others")
def test_the_files_belong_to_who_runs_the_services_and_what_was_drawn_to_the_caller(folder: Path) -> None:
    for owner in (0, OTHER):  # made as one, then handed to another
        secret_files.write(folder, Settings(), owner)
        assert {path.stat().st_uid for path in folder.iterdir() if path.name != "made.json"} == {owner}
        assert (folder / "made.json").stat().st_uid == 0


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives folders to others")
def test_a_folder_of_somebody_else_is_refused(folder: Path) -> None:
    folder.mkdir(parents=True)
    os.chown(folder, OTHER, -1)
    with pytest.raises(ConfigurationError, match="belongs to another user"):
        secret_files.write(folder, Settings(), os.getuid())
    assert not list(folder.iterdir())


def test_a_secret_that_a_later_version_needs_is_added_to_the_others(folder: Path) -> None:
    written(folder)
    drawn = json.loads((folder / "made.json").read_text())
    old = {name: value for name, value in drawn.items() if name not in {"redis", "s3-certificate", "fernet"}}
    (folder / "made.json").unlink()
    (folder / "made.json").write_text(json.dumps(old))
    written(folder)
    again = json.loads((folder / "made.json").read_text())
    assert set(again) == set(drawn)
    assert {name: again[name] for name in old} == {**old, "s3-key": again["s3-key"]}
    assert again["s3-key"] != drawn["s3-key"]  # key and certificate are one pair


def test_a_damaged_record_is_refused_and_not_drawn_again(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "made.json").write_text('{"postgres": "a')
    with pytest.raises(ConfigurationError, match=r"made\.json is damaged"):
        written(folder)
    assert (folder / "made.json").read_text() == '{"postgres": "a'


def test_our_own_database_has_a_role_for_airflow_and_one_for_mlflow(folder: Path) -> None:
    files = written(folder)
    made = json.loads(files["made.json"])
    airflow, mlflow = (
        make_url(files[name]) for name in ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "MLFLOW_BACKEND_STORE_URI")
    )
    assert (airflow.username, airflow.password, airflow.host, airflow.database) == (
        "airflow", made["airflow-database"], "postgres", "airflow",
    )  # fmt: skip
    assert (mlflow.username, mlflow.password, mlflow.host, mlflow.database) == (
        "mlflow", made["mlflow-database"], "postgres", "mlflow",
    )  # fmt: skip


@pytest.mark.parametrize("encode", [lambda text: quote(text, safe=""), lambda text: quote(text, safe="$&+ü")])
def test_a_managed_database_is_logged_into_with_any_name_and_password(
    folder: Path, monkeypatch: pytest.MonkeyPatch, encode: Any
) -> None:
    given = f"postgresql://{encode('us@er/x')}:{encode(ODD)}@db.example:6432/ignored?sslmode=require"
    files = written(folder, Settings(database_url=given))
    for name, text in {
        "airflow": files["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"],
        "mlflow": files["MLFLOW_BACKEND_STORE_URI"],
    }.items():
        url = make_url(text)
        assert (url.username, url.password) == ("us@er/x", ODD)
        assert (url.host, url.port, url.database, dict(url.query)) == ("db.example", 6432, name, {"sslmode": "require"})
        assert os.path.expandvars(text) == text  # Airflow does so
    config = as_mlflow_reads(folder / "mlflow-auth.ini", monkeypatch)
    assert config.database_uri == files["MLFLOW_BACKEND_STORE_URI"]


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("postgres://db.example", "postgresql://db.example:5432/mlflow"),
        ("postgresql://me@db.example/x", "postgresql://me@db.example:5432/mlflow"),
        ("postgresql://me:pw@[fd00::1]:6432", "postgresql://me:pw@[fd00::1]:6432/mlflow"),
    ],
)
def test_a_managed_database_may_leave_out_what_is_usual(folder: Path, given: str, made: str) -> None:
    assert written(folder, Settings(database_url=given))["MLFLOW_BACKEND_STORE_URI"] == made


def test_mlflow_reads_its_own_configuration(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = written(folder)
    config = as_mlflow_reads(folder / "mlflow-auth.ini", monkeypatch)
    assert (config.admin_username, config.admin_password) == ("admin", files["mlflow-admin-password"])
    assert config.database_uri == files["MLFLOW_BACKEND_STORE_URI"]
    assert config.default_permission == "READ"
    assert login(files["mlflow-credentials"], "mlflow")["mlflow_tracking_username"] == "ratchet"


def test_the_broker_and_its_clients_have_one_password(folder: Path) -> None:
    files = written(folder)
    password = files["REDISCLI_AUTH"]
    assert f"requirepass {password}\n" in files["redis.conf"]
    assert files["AIRFLOW__CELERY__BROKER_URL"] == f"redis://:{password}@redis:6379/0"
    assert files["AIRFLOW__CELERY__RESULT_BACKEND"] == f"redis://:{password}@redis:6379/1"


def test_s3_knows_each_stage_and_only_admin_may_do_all(folder: Path) -> None:
    known = identities(written(folder))
    assert set(known) == {"admin", "orchestrator", "reader", "mlflow", *(f"ratchet-{stage}" for stage in STAGES)}
    assert [name for name, each in known.items() if "Admin" in each["actions"]] == ["admin"]
    assert all(":" in action for name, each in known.items() if name != "admin" for action in each["actions"])


def test_each_s3_login_opens_an_identity(folder: Path) -> None:
    files = written(folder)
    keys = {
        credential["accessKey"]: credential["secretKey"]
        for each in identities(files).values()
        for credential in each["credentials"]
    }
    assert len(set(keys.values())) == len(keys)
    for name in ("admin", "orchestrator", "reader", "mlflow"):
        assert login(files[f"s3-{name}"]) == {"aws_access_key_id": name, "aws_secret_access_key": keys[name]}
    for profile in ("default", *(f"ratchet-{stage}" for stage in STAGES)):
        name = "orchestrator" if profile == "default" else profile
        assert login(files["s3-worker"], profile) == {"aws_access_key_id": name, "aws_secret_access_key": keys[name]}


def test_only_ingest_reads_the_sources_and_no_stage_writes_outside_its_prefixes(folder: Path) -> None:
    known = identities(written(folder))
    stages = {stage: known[f"ratchet-{stage}"]["actions"] for stage in STAGES}
    assert [stage for stage, actions in stages.items() if "Read:sources" in actions] == ["ingest"]
    for actions in stages.values():
        writes = [action for action in actions if action.startswith("Write")]
        assert all(action.startswith("Write:ratchet/") and action.endswith("*") for action in writes)
        assert not {"Write:ratchet/published/*", "Write:ratchet/runs/*"} & set(writes)
    assert [stage for stage, actions in stages.items() if "Write:ratchet/ledger/*" in actions] == ["register"]
    assert "mlflow" not in json.dumps(stages)


def test_who_may_do_what_follows_the_names_of_the_buckets(folder: Path) -> None:
    settings = Settings(store="s3://shop", data="s3://lake/raw/shop", artifacts="s3://models/mlflow")
    known = identities(written(folder, settings))
    assert known["reader"]["actions"] == ["Read:shop", "List:shop", "Read:logs", "List:logs"]
    assert {"Read:shop", "Read:lake", "Write:shop/tables/*"} <= set(known["ratchet-ingest"]["actions"])
    assert known["mlflow"]["actions"] == ["Read:models", "List:models", "Write:models/mlflow/*"]


def test_the_keys_of_ingest_open_every_bucket_that_a_source_may_lie_in(folder: Path) -> None:
    settings = Settings(source_roots="s3://lake/raw, s3://shop")
    known = identities(written(folder, settings))
    for name in ("ratchet-ingest", "orchestrator"):
        assert {"Read:sources", "Read:lake", "List:lake", "Read:shop", "List:shop"} <= set(known[name]["actions"])
        assert not {"Write:lake", "Write:shop"} & set(known[name]["actions"])
    assert "Read:lake" not in known["ratchet-train"]["actions"]


def test_the_certificate_of_s3_is_there_with_its_key(folder: Path) -> None:
    files = written(folder)
    assert files["s3.crt"].startswith("-----BEGIN CERTIFICATE-----")
    assert files["s3.key"].startswith("-----BEGIN PRIVATE KEY-----")


def test_given_credentials_stand_in_for_ours(folder: Path, tmp_path: Path) -> None:
    s3, mlflow = tmp_path / "s3", tmp_path / "mlflow"
    s3.write_text("[default]\naws_access_key_id = theirs\n")
    mlflow.write_text("[mlflow]\nmlflow_tracking_username = theirs\n")
    settings = Settings(s3_endpoint="https://s3.example", s3_credentials=s3, mlflow_credentials=mlflow)
    files = written(folder, settings)
    handed_out = [name for name in files if name.startswith("s3-")]
    assert len(handed_out) == 5
    assert {files[name].rstrip() for name in handed_out} == {s3.read_text().rstrip()}
    assert files["mlflow-credentials"] == mlflow.read_text()


@pytest.mark.parametrize("key", ["s3_credentials", "mlflow_credentials", "source_credentials"])
def test_credentials_that_cannot_be_read_are_reported_with_their_setting(
    folder: Path, tmp_path: Path, key: str
) -> None:
    settings = Settings.model_validate(
        {key: tmp_path / "absent", **({"s3_endpoint": "https://s"} if key.startswith("s3") else {})}
    )
    with pytest.raises(ConfigurationError, match=f"RATCHET_{key.upper()}: .*absent cannot be read: No such file"):
        written(folder, settings)


def test_workers_have_the_name_of_their_airflow_and_not_the_key_that_it_follows_from(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = written(folder)
    monkeypatch.delenv(variable("installation"), raising=False)
    monkeypatch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", made["AIRFLOW__API_AUTH__JWT_SECRET"])
    assert installation() == made["RATCHET_INSTALLATION"]  # as the scheduler has it
    monkeypatch.delenv("AIRFLOW__API_AUTH__JWT_SECRET")
    monkeypatch.setenv(variable("installation"), made["RATCHET_INSTALLATION"])
    assert installation() == made["RATCHET_INSTALLATION"]


def test_another_host_is_handed_what_its_worker_needs_and_nothing_more(folder: Path, tmp_path: Path) -> None:
    public = {"public_airflow_url": "https://airflow.example", "public_mlflow_url": "https://mlflow.example/base"}
    settings = Settings(listen="10.0.0.1", redis_port=16379, airflow_port=18080, project="shop", **public)
    made = written(folder, settings)
    secret_files.hand_out(folder, tmp_path / "out", settings)
    found = {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}
    assert set(found) == {*secret_files.WORKERS, "env"}
    for name in ("AIRFLOW__CELERY__BROKER_URL", "AIRFLOW__CELERY__RESULT_BACKEND"):
        assert found[name] == made[name].replace("@redis:6379/", "@10.0.0.1:16379/") != made[name]
    ours = found["RATCHET_AIRFLOW_API"]
    assert ours == made["RATCHET_AIRFLOW_API"].replace("@api-server:8080", "@10.0.0.1:18080")
    assert ours.endswith("@10.0.0.1:18080")
    assert found["s3-worker"] == made["s3-worker"]
    assert {stat.S_IMODE((tmp_path / "out" / name).stat().st_mode) for name in secret_files.WORKERS} == {0o400}
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o700
    (tmp_path / "env").write_text(found["env"] + "RATCHET_LISTEN=10.0.0.2\n")
    there = read(tmp_path / "env", {})
    assert (there.main_host, there.redis_port, there.project, there.listen) == ("10.0.0.1", 16379, "shop", "10.0.0.2")
    assert {name: getattr(there, name) for name in public} == public  # for links of the alerts that are sent there


def test_a_worker_elsewhere_follows_the_same_branch_with_the_same_log_in(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "login").write_text("oauth2:glpat-1\n")
    of_git = {"pipelines": "https://git.example/m.git", "pipelines_branch": "live", "pipelines_subfolder": "a"}
    settings = Settings(listen="10.0.0.1", pipelines_credentials=tmp_path / "login", **of_git)
    assert written(folder, settings)["pipelines-credentials"] == "oauth2:glpat-1"
    secret_files.hand_out(folder, tmp_path / "out", settings)
    (tmp_path / "env").write_text((tmp_path / "out" / "env").read_text() + "RATCHET_LISTEN=10.0.0.2\n")
    there = read(tmp_path / "env", {})
    assert {name: getattr(there, name) for name in of_git} == of_git
    assert (tmp_path / "out" / "pipelines-credentials").read_text() == "oauth2:glpat-1"
    (tmp_path / "login").write_text("glpat-1\n")
    with pytest.raises(ConfigurationError, match="not one line USER:TOKEN"):
        written(folder, settings)


def test_the_address_of_the_heartbeat_stays_on_the_main_host(folder: Path, tmp_path: Path) -> None:
    settings = Settings(listen="10.0.0.1", heartbeat_url="https://hc.example/t0ken")
    assert written(folder, settings)["RATCHET_HEARTBEAT_URL"] == "https://hc.example/t0ken"
    assert "RATCHET_HEARTBEAT_URL" not in settings.variables()
    secret_files.hand_out(folder, tmp_path / "out", settings)
    assert all("t0ken" not in file.read_text() for file in (tmp_path / "out").iterdir())
    assert written(folder, Settings())["RATCHET_HEARTBEAT_URL"] == ""


def test_nothing_is_handed_out_that_could_not_be_used(folder: Path, tmp_path: Path) -> None:
    out, settings = tmp_path / "out", Settings(listen="10.0.0.1")
    with pytest.raises(ConfigurationError, match="RATCHET_LISTEN"):
        secret_files.hand_out(folder, out, Settings())
    with pytest.raises(ConfigurationError, match="run `make up`, which makes them"):
        secret_files.hand_out(folder, out, settings)
    written(folder, settings)
    with pytest.raises(ConfigurationError, match="name a new folder"):
        secret_files.hand_out(folder, tmp_path, settings)
    assert not out.exists()


def test_a_host_that_only_works_takes_what_was_handed_out_whole(folder: Path, tmp_path: Path) -> None:
    settings = Settings(listen="10.0.0.1")
    written(folder, settings)
    secret_files.hand_out(folder, tmp_path / "out", settings)
    (tmp_path / "out").chmod(0o755)
    secret_files.take(tmp_path / "out", os.getuid())
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o700
    (tmp_path / "out" / "s3-worker").unlink()
    with pytest.raises(ConfigurationError, match=r"s3-worker: not in .*worker-files FOLDER"):
        secret_files.take(tmp_path / "out", os.getuid())
