"""`ratchet doctor`: one line for each thing that a night needs, and an exit code that says whether all is well."""

import json
import os
import re
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ratchet.cli.main import main
from ratchet.contracts.diagnosis import problems
from ratchet.runners.diagnosis import diagnose_runner
from ratchet.runs import installation
from ratchet.store.diagnosis import diagnose_clock, diagnose_store
from ratchet.store.file import FileStore
from ratchet.store.opening import open_store
from ratchet.tracking.diagnosis import diagnose_registry
from tests.evaluate.nights import FIRST, Nights
from tests.mlflow_server import prepare
from tests.s3 import S3Server
from tests.s3_proxy import Refusal, s3_proxy

HEALTHY = {"status": "healthy"}


@pytest.fixture(autouse=True)
def processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation whose stages are processes, and nothing else is set."""
    for name in [name for name in os.environ if name.startswith(("RATCHET_", "MLFLOW_", "AIRFLOW__API"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("RATCHET_RUNNER", "process")
    monkeypatch.setenv("RATCHET_DATA", "/data")
    for name in ("FRAUD_OPS", "MLOPS"):
        monkeypatch.setenv(f"RATCHET_ALERTS_{name}", "json://127.0.0.1:1")


@contextmanager
def server(status: int, body: object) -> Iterator[str]:
    """The address of a server that answers everything so."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{made.server_port}"
        finally:
            made.shutdown()
            thread.join()


@pytest.fixture
def nowhere() -> Iterator[str]:
    """An address where nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


def doctor(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[list[str]]]:
    """The exit code, and of each line the mark, the name and the text."""
    code = main(["doctor", *words])
    return code, [re.split(r" +", line, maxsplit=2) for line in capsys.readouterr().out.splitlines()]


def test_an_installation_that_is_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "store").mkdir()
    code, lines = doctor(capsys, "--store", str(tmp_path / "store"))
    assert (code, {mark for mark, _, _ in lines}) == (0, {"ok"})
    names = ["settings", "versions", "store", "clock", "disk", "engine", "gpus", "registry", "keeping", "silence"]
    names += ["pipelines", "sources", "alerts", "alerts"]
    assert [name for _, name, _ in lines] == [*names, "production", "production"]
    assert lines[-1][2] == "search-ranking: no model yet"
    assert not [path for path in (tmp_path / "store").rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("weekly,results=60", ["what nothing needs is deleted once a week; results of runs stay 60 days"]),
        (
            "images",
            ["nothing is deleted by itself, so the store and Airflow's database grow: put `weekly` into RATCHET_GC"],
        ),
        ("daily", []),
    ],
)
def test_whether_anything_is_deleted_by_itself(
    policy: str, said: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RATCHET_GC", policy)
    _, lines = doctor(capsys, "--store", str(tmp_path))
    assert [text.partition(", or see")[0] for _, name, text in lines if name == "keeping"] == said
    assert (lines[0][0] == "WRONG") == (policy == "daily")


def test_a_store_that_the_first_run_makes_is_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = doctor(capsys, "--store", str(tmp_path / "store"))
    assert (code, lines[2][0]) == (1, "unchecked")
    assert "the first run makes it; if it should hold models, correct --store or RATCHET_STORE" in lines[2][2]
    assert lines[-1][2] == "not checked, since the store could not be"
    assert not (tmp_path / "store").exists()


def test_the_model_of_each_pipeline_is_looked_at(
    tmp_path: Path, mlflow_database: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = prepare(open_store(str(tmp_path / "store")), mlflow_database)
    assert isinstance(store, FileStore)
    nights = Nights(folder=tmp_path, store=store)
    for day in (FIRST, FIRST + timedelta(days=1)):
        nights.deliver(day)
    nights.run(FIRST)
    monkeypatch.setenv("RATCHET_PIPELINES", str(tmp_path / "pipelines"))
    folder = tmp_path / "pipelines" / "grades"
    folder.parent.mkdir()
    shutil.copytree(tmp_path / "pipeline-1", folder)
    code, lines = doctor(capsys, "--store", nights.store.uri)
    assert (code, lines[-1]) == (0, ["ok", "production", "grades: version 1; ledger, alias and files agree"])
    (tmp_path / "store" / "ledger" / "grades" / "00000001.json").write_text("{", encoding="utf-8")
    monkeypatch.setenv("RATCHET_PIPELINES", str(tmp_path / "others"))
    assert doctor(capsys, "--store", nights.store.uri)[1][-1][2].startswith("grades: ledger: ")
    monkeypatch.setenv("RATCHET_PIPELINES", str(tmp_path / "pipelines"))
    (folder.parent / "broken").mkdir()
    (folder.parent / "broken" / "pipeline.yaml").write_text("name: Broken!\n", encoding="utf-8")
    code, lines = doctor(capsys, "--store", nights.store.uri)
    wrong = [(name, text) for mark, name, text in lines if mark != "ok"]
    assert code == 1
    assert [name for name, _ in wrong[:2]] == ["pipelines", "production"]
    assert "pipeline.yaml:1" in wrong[0][1]
    assert wrong[1][1].startswith("grades: ledger: ")


def test_the_pipelines_in_airflows_folder_of_dags_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(tmp_path))
    for name in ("pipelines", "store"):
        (tmp_path / name).mkdir()
    _, lines = doctor(capsys, "--store", str(tmp_path / "store"))
    assert lines[-1][:2] == ["WRONG", "pipelines"]
    assert f"{tmp_path / 'pipelines'} has no folder with a pipeline.yaml" in lines[-1][2]


def test_settings_that_are_wrong_or_misspelt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_WATCH_SECONDS", "often")
    monkeypatch.setenv("RATCHET_STAGE_IMGAE", "ratchet-stage:cpu")
    monkeypatch.setenv("RATCHET_LISTEN", "192.0.2.1")  # of the team set-up
    monkeypatch.setenv("MLFLOW_TRACKING_URL", "http://mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "ada")
    code, lines = doctor(capsys, "--store", str(tmp_path))
    wrong = [text for mark, name, text in lines if (mark, name) == ("WRONG", "settings")]
    assert code == 1
    assert [text.partition(":")[0] for text in wrong[:1]] == ["RATCHET_WATCH_SECONDS"]
    assert wrong[1].startswith("MLFLOW_TRACKING_URL is no setting, and has no effect; MLFLOW_TRACKING_URI is meant")
    assert wrong[2:] == [
        "RATCHET_STAGE_IMGAE is no setting, and has no effect; RATCHET_STAGE_IMAGE is meant, or unset it"
    ]


@pytest.mark.parametrize(
    ("setting", "given", "left_out"),
    [
        ("RATCHET_RUNNER", "podman", "engine"),
        ("RATCHET_POOL_GPU", "many", "engine"),
        ("RATCHET_HEARTBEAT_URL", "hc-ping.com", "servers"),
    ],
)
def test_a_wrong_setting_holds_up_no_line_but_those_that_need_it(
    setting: str,
    given: str,
    left_out: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(setting, given)
    code, lines = doctor(capsys, "--store", str(tmp_path))
    assert code == 1
    assert [(mark, name) for mark, name, _ in lines if mark != "ok"] == [("WRONG", "settings"), ("unchecked", left_out)]
    assert [text.startswith(f"not checked: {setting}") for mark, _, text in lines if mark == "unchecked"] == [True]
    assert lines[-1][1] == "production"


def test_settings_that_are_given_are_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    _, lines = doctor(capsys, "--store", str(tmp_path))
    assert lines[0] == ["ok", "settings", "RATCHET_DATA, RATCHET_RUNNER"]


def test_variables_of_sources_and_receivers_of_alerts_that_are_not_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RATCHET_DATA")
    monkeypatch.delenv("RATCHET_ALERTS_MLOPS")
    monkeypatch.setenv("RATCHET_ALERTS_FRAUD_OPS", "")
    code, lines = doctor(capsys, "--store", str(tmp_path))
    wrong = {
        text.split(":")[0]: (mark, text) for mark, name, text in lines if name in {"sources", "alerts"} and mark != "ok"
    }
    assert code == 1
    assert {name: mark for name, (mark, _) in wrong.items()} == {
        "payments-fraud": "WRONG",
        "search-ranking": "WRONG",
        "fraud-ops": "WRONG",
        "mlops": "unchecked",
    }
    assert "source.uri: ${RATCHET_DATA} is not set" in wrong["search-ranking"][1]
    assert "create Airflow's connection ratchet_alerts_mlops" in wrong["mlops"][1]


def test_another_version_of_a_library_than_the_stage_image_has(monkeypatch: pytest.MonkeyPatch) -> None:
    assert installation.diagnose_versions().well
    monkeypatch.setattr(installation, "stage_libraries", lambda: {"numpy": "0.1", "no-such-library": "1"})
    found = installation.diagnose_versions()
    assert not found.well
    assert "(the lock has 0.1)" in found.text
    assert "no-such-library" not in found.text


def test_a_store_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    code, lines = doctor(capsys, "--store", str(tmp_path / "file"))
    marks = {name: mark for mark, name, _ in lines}
    assert (code, marks["store"], marks["production"]) == (1, "WRONG", "unchecked")
    assert lines[2][2] == f"{tmp_path / 'file'} is a file; name a folder with --store or RATCHET_STORE"


@pytest.mark.parametrize("header", ["if-none-match", "if-match"])
def test_a_bucket_without_conditional_writes_is_found(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, header: str
) -> None:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    place = f"s3://{s3_server.bucket}/doctor-{header}"
    assert [one.well for one in diagnose_store(open_store(place))] == [True, True]
    with s3_proxy(s3_server.endpoint, drops={header}) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        (found,) = diagnose_store(open_store(place))
        assert not found.well
        assert f"does not keep to {header.title()}" in found.text
        assert not list(open_store(place).list())


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (501, "NotImplemented", "does not delete with If-Match, so no lease ends: bucket ratchet-test at "),
        (412, "PreconditionFailed", "does not delete with If-Match, so no lease ends: it says that the file has ch"),
        (403, "AccessDenied", "refused with AccessDenied"),
    ],
)
def test_a_bucket_that_deletes_nothing_on_a_condition_or_nothing_at_all_is_found(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, status: int, code: str, said: str
) -> None:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    condition = code != "AccessDenied"

    def refuse(method: str, _path: str, headers: "Message[str, str]") -> Refusal | None:
        wanted = method == "DELETE" and (not condition or headers.get("If-Match") is not None)
        return (status, f"<Error><Code>{code}</Code></Error>".encode()) if wanted else None

    with s3_proxy(s3_server.endpoint, refuse=refuse) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        store = open_store(f"s3://{s3_server.bucket}/doctor-{code}")
        (found,) = diagnose_store(store)
        assert not found.well
        assert said in found.text
        assert found.text.endswith("; use a server with conditional deletes") == condition
        assert bool(list(store.list())) != condition


def test_a_bucket_that_does_not_answer_is_unchecked(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, nowhere: str
) -> None:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{nowhere}")
    assert [one.well for one in diagnose_store(open_store("s3://bucket"))] == [None]


def test_a_clock_that_differs() -> None:
    now = time.time()
    assert diagnose_clock("theirs", now - 29, since=now, until=now + 1).well
    assert diagnose_clock("theirs", now + 30, since=now, until=now + 1).well
    found = diagnose_clock("theirs", now - 40, since=now, until=now + 1)
    assert not found.well
    assert found.text.startswith("theirs shows ")


def test_an_engine_that_does_not_answer(monkeypatch: pytest.MonkeyPatch, nowhere: str) -> None:
    monkeypatch.delenv("RATCHET_RUNNER")
    monkeypatch.setenv("DOCKER_HOST", f"tcp://{nowhere}")
    engine, gpus = diagnose_runner()
    assert (engine.well, gpus.well) == (False, True)
    assert "set RATCHET_RUNNER=process" in engine.text


@pytest.mark.docker
def test_an_engine_with_and_without_the_image(stage_image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RATCHET_RUNNER")
    monkeypatch.setenv("RATCHET_STAGE_IMAGE", stage_image)
    found = list(diagnose_runner())
    assert problems(found) == []
    assert [one.name for one in found] == ["engine", "clock", "disk", "image", "gpus"]
    monkeypatch.setenv("RATCHET_STAGE_IMAGE", "ratchet-stage:no-such-tag")
    (line,) = problems(diagnose_runner())
    assert "ratchet-stage:no-such-tag" in line
    assert "make images" in line


def test_gpus_that_are_promised_and_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_GPUS", "0,0")
    assert "each once" in problems(diagnose_runner())[0]
    monkeypatch.setenv("RATCHET_GPUS", "0")
    monkeypatch.setenv("RATCHET_POOL_GPU", "2")
    assert "RATCHET_POOL_GPU is 2, and this host has 1" in problems(diagnose_runner())[0]


def test_a_driver_that_does_not_answer_is_no_host_without_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'Driver/library version mismatch'\nexit 18\n")
    program.chmod(0o755)
    monkeypatch.setenv("RATCHET_RUNNER", "process")
    monkeypatch.delenv("RATCHET_GPUS", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert "lists no GPUs: Driver/library version mismatch" in problems(diagnose_runner())[0]


def test_a_registry_that_does_not_answer_or_refuses(nowhere: str) -> None:
    assert diagnose_registry(f"http://{nowhere}").well is None
    assert diagnose_registry("databricks://here").well is None
    with server(401, {}) as address:
        found = diagnose_registry(address)
    assert (found.well, "refuses the login" in found.text) == (False, True)


def test_a_real_registry_is_well(mlflow_server: str) -> None:
    assert diagnose_registry(mlflow_server).well


def test_each_part_of_airflow_has_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], nowhere: str) -> None:
    ill = {"status": "unhealthy", "latest_scheduler_heartbeat": "2026-11-20T02:00:00Z"}
    said = {"metadatabase": HEALTHY, "scheduler": ill, "triggerer": {"status": None}, "dag_processor": HEALTHY}
    with server(200, said) as address:
        code, lines = doctor(capsys, "--store", str(tmp_path), "--airflow", f"{address}/")
    assert (code, [line for line in lines if line[1] == "airflow"]) == (
        1,
        [
            ["ok", "airflow", "the database is healthy"],
            [
                "WRONG",
                "airflow",
                "the scheduler is unhealthy, and was last heard at 2026-11-20T02:00:00Z; read its log; `make up` (or "
                "`make serve`) starts what has ended",
            ],
            ["ok", "airflow", "the DAG processor is healthy"],
        ],
    )
    code, lines = doctor(capsys, "--store", str(tmp_path), "--airflow", f"http://user:secret@{nowhere}")
    (line,) = [line for line in lines if line[1] == "airflow"]
    assert (code, line[0], "secret" in line[2]) == (1, "unchecked", False)


def test_in_a_container_airflow_is_asked_where_a_worker_reaches_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, nowhere: str
) -> None:
    """As in the team set-up, where people open it at an address of their own host."""
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", f"http://{nowhere}")
    monkeypatch.setenv("RATCHET_ALERTS_MLOPS", "json://alerts.example.org")
    with server(200, {"scheduler": HEALTHY}) as address:
        monkeypatch.setenv("AIRFLOW__CORE__EXECUTION_API_SERVER_URL", f"{address}/execution/")
        _, lines = doctor(capsys, "--store", str(tmp_path))
    assert ["ok", "airflow", "the scheduler is healthy"] in lines
    assert f"links begin with http://{nowhere}, " in str(lines)


def test_what_belongs_to_a_model_needs_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--store", str(tmp_path), "--accept-loss", "gone"]) == 64
    assert "ratchet doctor MODEL" in capsys.readouterr().err
