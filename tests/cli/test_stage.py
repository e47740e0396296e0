"""`ratchet stage`: a request becomes a published result, or a cause and an exit code."""

import base64
import json
import logging
import signal
import threading
from collections.abc import Iterator
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from botocore.session import get_session

from ratchet.cli.main import main
from ratchet.cli.stage import _take_secrets
from ratchet.contracts.errors import ConfigurationError, StopNotice
from ratchet.contracts.loading import load
from ratchet.contracts.release_number import RELEASE
from ratchet.contracts.request import StageRequest
from ratchet.runs.planning import load_plan, make_plan
from ratchet.runs.requests import compose
from ratchet.runtime.stage import _stop
from ratchet.samples import clicks
from ratchet.store.opening import open_store
from ratchet.store.publishing import find_result
from ratchet.tracking.mlflow import track

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "dags" / "pipelines" / "search-ranking"
DAY = date(2026, 3, 20)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before, root = signal.getsignal(signal.SIGTERM), list(logging.getLogger().handlers)
    yield
    signal.signal(signal.SIGTERM, before)
    logging.captureWarnings(capture=False)
    logging.getLogger().handlers[:] = root


@pytest.fixture
def request_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A request for ingest, of three days of clicks."""
    monkeypatch.setenv("RATCHET_DATA", str(tmp_path))
    for _ in clicks.write(tmp_path, days=3, rows_per_day=300, end=DAY, seed=0):
        pass
    plan = make_plan(
        folder=FOLDER,
        spec=load(FOLDER, {"source.window_days": 3}),
        data_date=DAY,
        run_id="r",
        kind="local",
        store_uri=str(tmp_path / "store"),
    )
    assert load_plan(str(tmp_path / "store"), "search-ranking", "r") == plan
    request = compose(open_store(plan.store), plan, "ingest", {}, "a")
    file = tmp_path / "request.json"
    file.write_text(request.model_dump_json(by_alias=True), encoding="utf-8")
    return file


def last_line(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    line: dict[str, object] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return line


def changed(file: Path, **changes: object) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text(encoding="utf-8")), **changes}), encoding="utf-8")


def test_a_request_becomes_a_published_result(request_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stage", str(request_file)]) == 0
    assert last_line(capsys)["event"] == "published"
    request = StageRequest.model_validate_json(request_file.read_bytes())
    found = find_result(open_store(request.store), request.prefix)
    assert found is not None
    assert found.result.parts == request.parts
    assert main(["stage", str(request_file)]) == 0
    assert last_line(capsys)["reused"] is True


def test_other_code_does_not_publish_under_this_fingerprint(
    request_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = json.loads(request_file.read_text(encoding="utf-8"))["parts"]
    changed(request_file, parts={**parts, "code.tasks.ingest.stage": "0" * 64})
    assert main(["stage", str(request_file)]) == 69
    assert "they differ in tasks.ingest.stage" in str(last_line(capsys)["message"])


def test_missing_data_is_rejected(request_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = json.loads(request_file.read_text(encoding="utf-8"))["source"]
    changed(request_file, source=[*source[:-1], {**source[-1], "files": []}])
    assert main(["stage", str(request_file)]) == 65
    failure = last_line(capsys)
    assert (failure["event"], failure["code"]) == ("failure", 65)
    assert "2026-03-20" in str(failure["cause"])


def test_a_bundle_that_was_changed_is_refused(request_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request = StageRequest.model_validate_json(request_file.read_bytes())
    store = open_store(request.store)
    path = store.local(request.bundle.key)
    assert path
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert main(["stage", str(request_file)]) == 64
    assert "is damaged" in str(last_line(capsys)["cause"])


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (
            "{}",
            69,
            f"the request cannot be read by Ratchet {RELEASE}: ",
        ),  # a worker that was upgraded meanwhile wrote it
        ("{", 70, "the request is damaged: "),
    ],
)
def test_a_request_that_cannot_be_read_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, code: int, said: str
) -> None:
    (tmp_path / "r.json").write_text(content, encoding="utf-8")
    assert main(["stage", str(tmp_path / "r.json")]) == code
    assert str(last_line(capsys)["cause"]).startswith(said)


def test_secrets_beside_the_request_reach_the_libraries(request_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = request_file.parent / "secrets"
    secrets.mkdir()
    (secrets / "aws-credentials").write_text("[default]\n", encoding="utf-8")
    (secrets / "environment.json").write_text('{"DB_PASSWORD_OF_TEST": "x"}', encoding="utf-8")
    monkeypatch.setenv("RATCHET_SECRETS", str(secrets))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("DB_PASSWORD_OF_TEST", "")
    assert main(["stage", str(request_file)]) == 0
    import os

    assert os.environ["AWS_SHARED_CREDENTIALS_FILE"] == str(secrets / "aws-credentials")
    assert os.environ["DB_PASSWORD_OF_TEST"] == "x"


def test_a_notice_to_stop_ends_every_stage_but_training_at_once() -> None:
    from threading import Event

    stopping = Event()
    with pytest.raises(StopNotice):
        _stop("ingest", stopping)
    _stop("ingest", stopping)  # the same notice, sent again
    stopping.clear()
    _stop("train", stopping)
    assert stopping.is_set()


def test_an_unknown_run_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no run 'nobody' in"):
        load_plan(str(tmp_path), "search-ranking", "nobody")


class _Mlflow(BaseHTTPRequestHandler):
    """Knows no experiment, and records the credentials of the requests."""

    asked: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        self.asked.append(self.headers.get("Authorization"))
        body = b'{"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "none"}'
        self.send_response(404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_the_secret_files_override_inherited_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "aws-credentials").write_text("[default]\naws_access_key_id = own\naws_secret_access_key = s\n")
    (tmp_path / "mlflow-credentials").write_text(
        "[mlflow]\nmlflow_tracking_username = stage\nmlflow_tracking_password = a%%b\n"
    )
    monkeypatch.setenv("RATCHET_SECRETS", str(tmp_path))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "inherited")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "inherited")
    monkeypatch.setenv("AWS_PROFILE", "inherited")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"):
        monkeypatch.setenv(name, "inherited")  # so that it is put back
    _take_secrets()
    found = get_session().get_credentials()
    assert found is not None
    assert found.access_key == "own"
    with ThreadingHTTPServer(("127.0.0.1", 0), _Mlflow) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        uri = f"http://127.0.0.1:{server.server_port}"
        assert track(open_store(str(tmp_path)), uri, tmp_path, lambda it: it.client.get_experiment_by_name("x")) is None
        server.shutdown()
        serving.join()
    assert _Mlflow.asked == ["Basic " + base64.b64encode(b"stage:a%b").decode()]
