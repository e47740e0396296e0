"""What the job of a stage may see and reach, with a store that is elsewhere."""

from pathlib import Path

import pytest

from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.request import StageRequest
from ratchet.contracts.source import FilesSource
from ratchet.contracts.stages import STAGES, Stage
from ratchet.runners.job import Job
from ratchet.runs.jobs import job_for
from ratchet.runs.requests import compose
from ratchet.store.memory import MemoryStore
from ratchet.store.opening import open_store
from tests.runs.test_requests import OUTCOMES, plan
from tests.s3 import S3Server

MLFLOW = "http://mlflow:5000"


@pytest.fixture(autouse=True)
def settings(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a worker of the team set-up has them."""
    file = tmp_path / "mlflow"
    file.write_text("[mlflow]\nmlflow_tracking_username = stage\nmlflow_tracking_password = hunter2\n")
    monkeypatch.setenv("RATCHET_MLFLOW_CREDENTIALS", str(file))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://s3:8333")
    monkeypatch.setenv("RATCHET_STAGE_NETWORK", "ratchet_stages")
    monkeypatch.setenv("RATCHET_CACHE_VOLUME", "ratchet_cache")
    monkeypatch.delenv("RATCHET_CACHE_LIMIT", raising=False)
    assert s3.environment["AWS_ACCESS_KEY_ID"] == "test"


def request_for(stage: Stage, store: str = "s3://bucket/store", tracking: str | None = MLFLOW) -> StageRequest:
    made = plan(store=store, tracking_uri=tracking, source_root="s3://bucket/source")
    return compose(MemoryStore("requests"), made, stage, OUTCOMES, "a")


def job(stage: Stage, image: str | None = "image") -> Job:
    return job_for(request_for(stage), MemoryStore("requests"), image)


def test_a_stage_gets_the_named_network_the_cache_and_no_folder() -> None:
    made = job("train")
    assert (made.network, made.cache, made.mounts, made.user) == ("ratchet_stages", "ratchet_cache", (), "10001:10001")
    assert made.env["RATCHET_CACHE"] == "/var/cache/ratchet"
    assert made.env["RATCHET_CACHE_LIMIT"] == "20g"


def test_only_stages_that_talk_to_mlflow_get_its_password_and_as_a_file() -> None:
    for stage in ("register", "report"):
        assert b"hunter2" in job(stage).secrets["mlflow-credentials"]
    for stage in ("ingest", "validate", "features", "train", "evaluate"):
        assert set(job(stage).secrets) == {"aws-credentials"}
    assert "hunter2" not in str(job("register").env)
    alone = job_for(request_for("register", tracking=None), MemoryStore("requests"), "image")
    assert set(alone.secrets) == {"aws-credentials"}


def test_ingest_alone_gets_the_variables_of_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of files: their pattern says why a data date has none."""
    monkeypatch.setenv("RATCHET_DATA", "s3://bucket/source")
    monkeypatch.setenv("RATCHET_DATA_OTHER", "s3://bucket/other")
    source = FilesSource(kind="files", uri="${RATCHET_DATA}/{date}.csv")
    for stage in STAGES[:4]:
        request = request_for(stage)
        request = request.model_copy(update={"spec": request.spec.model_copy(update={"source": source})})
        given = job_for(request, MemoryStore("requests"), "image").secrets.get("environment.json")
        assert given == (b'{"RATCHET_DATA": "s3://bucket/source"}' if stage == "ingest" else None)


def test_ingest_reaches_a_bucket_of_another_service_with_its_keys_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = "[ratchet-bucket-bucket]\naws_access_key_id = lake\naws_secret_access_key = s3\nendpoint_url = http://127.0.0.1:1\n"
    (tmp_path / "keys").write_text(own)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "keys"))
    monkeypatch.delenv("RATCHET_STAGE_NETWORK")
    store = open_store(str(tmp_path / "store"))
    ingest = job_for(request_for("ingest", store.uri), store, "image")
    assert ingest.network == "host", "it is at a loopback address"
    assert ingest.secrets["aws-credentials"].decode() == own.strip()
    assert job_for(request_for("train", store.uri), store, "image").network == "none"
    with_both = job_for(request_for("ingest", "s3://store"), MemoryStore("requests"), "image")
    assert b"[default]\naws_access_key_id = test\n" in with_both.secrets["aws-credentials"]


def test_without_the_settings_the_network_is_as_the_addresses_ask_and_there_is_no_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("RATCHET_STAGE_NETWORK", "RATCHET_CACHE_VOLUME"):
        monkeypatch.delenv(name)
    made = job("train")
    assert (made.network, made.cache) == ("bridge", None)
    assert "RATCHET_CACHE" not in made.env


def test_a_stage_that_needs_no_address_gets_no_network_and_a_process_neither_network_nor_volume(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))
    made = job_for(request_for("train", store.uri), store, None)
    assert (made.network, made.cache) == ("none", None)
    assert job("train", image=None).cache is None
    assert job("train", image=None).network == "bridge"


@pytest.mark.parametrize("name", ["host", "bridge", "default", "none"])
def test_a_network_that_is_the_engines_own_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_STAGE_NETWORK", name)
    with pytest.raises(ConfigurationError, match=f"RATCHET_STAGE_NETWORK = {name} is no network of its own"):
        job("train")


@pytest.mark.parametrize("setting", ["RATCHET_STAGE_NETWORK", "RATCHET_CACHE_VOLUME"])
@pytest.mark.parametrize("name", ["container:x", "/var/lib", "../x", "a b"])
def test_a_name_that_is_none_is_refused(setting: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(setting, name)
    with pytest.raises(ConfigurationError, match=r"(network|volume) name .* is not a plain name"):
        job("train")


def test_an_address_that_the_network_cannot_reach_is_reported_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    with pytest.raises(ConfigurationError, match=r"RATCHET_STAGE_NETWORK = ratchet_stages, and .* loopback"):
        job("train")


def test_the_limit_is_handed_on_if_it_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_CACHE_LIMIT", "5g")
    assert job("train").env["RATCHET_CACHE_LIMIT"] == "5g"
    monkeypatch.setenv("RATCHET_CACHE_LIMIT", "5 apples")
    with pytest.raises(ConfigurationError, match="RATCHET_CACHE_LIMIT: '5 apples' is not an amount"):
        job("train")
