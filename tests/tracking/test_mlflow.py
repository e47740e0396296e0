import multiprocessing
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from boto3.exceptions import S3UploadFailedError
from botocore.exceptions import ClientError
from mlflow.exceptions import MlflowException, RestException
from mlflow.protos.databricks_pb2 import TEMPORARILY_UNAVAILABLE

from ratchet.contracts.errors import ConfigurationError, NoAnswer, Unavailable
from ratchet.store.base import Store
from ratchet.store.file import FileStore
from ratchet.store.opening import open_store
from ratchet.tracking.file_registry import open_file
from ratchet.tracking.mlflow import Tracker, _tracking_errors, local_uri, track
from ratchet.tracking.registry import Version
from tests.faults.strace import STRACE, needs_strace
from tests.mlflow_server import prepare

TAG = "ratchet.train_fingerprint"


def log_one(tracker: Tracker, value: str = "a") -> str:
    run = tracker.run(tracker.experiment("notes"), tag=TAG, value=value, name="notes 2026-11-20")
    tracker.client.log_metric(run, "ndcg", 0.5)
    return run


def runs(tracker: Tracker) -> list[str]:
    found = tracker.client.search_runs([tracker.experiment("notes")])
    return sorted(run.data.tags[TAG] for run in found)


def test_asked_twice_there_is_one_run_and_it_is_kept_in_the_folder(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "store")
    store.prepare()
    first, second = (track(store, None, tmp_path, log_one) for _ in range(2))
    assert first == second
    assert local_uri(store).startswith(f"sqlite:///{tmp_path}/store/mlflow/")
    assert track(store, None, tmp_path, runs) == ["a"]


def test_artifacts_lie_in_the_store(tmp_path: Path, mlflow_database: Path) -> None:
    store = prepare(FileStore(tmp_path / "store"), mlflow_database)
    (tmp_path / "note.txt").write_text("hello")

    def work(tracker: Tracker) -> None:
        tracker.client.log_artifact(log_one(tracker), str(tmp_path / "note.txt"))

    track(store, None, tmp_path, work)
    assert next(entry.key for entry in store.list("mlflow/artifacts")).endswith("/artifacts/note.txt")


def _write_from_another_process(uri: str, scratch: str, value: str) -> None:
    track(open_store(uri), None, Path(scratch), lambda tracker: log_one(tracker, value))


def test_writers_that_come_first_at_the_same_time_harm_nothing(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "store")
    store.prepare()
    together = multiprocessing.get_context("spawn")
    writers = [
        together.Process(target=_write_from_another_process, args=(store.uri, str(tmp_path), value)) for value in "ab"
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()  # seconds, or minutes on a busy disk
        assert writer.exitcode == 0
    assert track(store, None, tmp_path, runs) == ["a", "b"]
    with sqlite3.connect(tmp_path / "store" / "mlflow" / "mlflow.db") as database:
        assert database.execute("pragma integrity_check").fetchone() == ("ok",)
    database.close()


def test_in_a_bucket_nothing_is_lost_when_another_writes_meanwhile(s3_uri: str, tmp_path: Path) -> None:
    store = open_store(s3_uri)
    calls = []

    def work(tracker: Tracker) -> str:
        run = log_one(tracker, "slow")
        calls.append(run)
        if len(calls) == 1:  # another writer comes and goes while we are at work
            other = tmp_path / "other"
            other.mkdir()
            track(store, None, other, lambda quick: log_one(quick, "quick"))
        return run

    track(store, None, tmp_path, work)
    assert len(calls) == 2
    assert track(store, None, tmp_path, runs) == ["quick", "slow"]


def test_in_a_bucket_artifacts_lie_beside_the_database(s3_uri: str, tmp_path: Path, mlflow_database: Path) -> None:
    store = prepare(open_store(s3_uri), mlflow_database)
    (tmp_path / "note.txt").write_text("hello")

    def work(tracker: Tracker) -> str:
        tracker.client.log_artifact(log_one(tracker), str(tmp_path / "note.txt"))
        return str(tracker.client.get_experiment_by_name("notes").artifact_location)

    assert track(store, None, tmp_path, work) == f"{s3_uri}/mlflow/artifacts/notes"
    keys = [entry.key for entry in store.list("mlflow")]
    assert any(key.endswith("/artifacts/note.txt") for key in keys)
    assert "mlflow/mlflow.db" in keys


def test_a_bucket_that_is_only_read_is_not_written(s3_uri: str, tmp_path: Path, mlflow_database: Path) -> None:
    store = prepare(open_store(s3_uri), mlflow_database)
    track(store, None, tmp_path, log_one)
    before = store.head("mlflow/mlflow.db")
    assert track(store, None, tmp_path, runs) == ["a"]
    assert store.head("mlflow/mlflow.db") == before


class BusyStore:
    """A store in which somebody else is always first."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.uri = "s3://busy"

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def replace(self, key: str, data: bytes, *, expected: str | None) -> bool:
        return False


def test_a_bucket_where_others_keep_writing_is_given_up(
    tmp_path: Path, mlflow_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ratchet.tracking.database._TRIES", 2)
    monkeypatch.setattr("ratchet.tracking.database._WAIT_S", 0.0)
    store: Store = BusyStore(prepare(open_store(f"mem://{tmp_path}"), mlflow_database))  # type: ignore[assignment]
    with pytest.raises(NoAnswer, match="other writers kept writing"):
        track(store, None, tmp_path, log_one)


def test_a_database_that_another_process_has_locked_is_waited_for(tmp_path: Path, mlflow_database: Path) -> None:
    """As one who copies it. MLflow waits for 20 s, and raises the error of SQLite as this one: a stage ended with 70."""
    store = prepare(FileStore(tmp_path / "store"), mlflow_database)
    database = store.root / "mlflow" / "mlflow.db"
    with closing(sqlite3.connect(database)) as other:

        def work(tracker: Tracker) -> None:
            log_one(tracker)
            other.execute("BEGIN IMMEDIATE")
            try:
                with closing(sqlite3.connect(database, timeout=0.05)) as ours:
                    ours.execute("BEGIN IMMEDIATE")
            except sqlite3.Error as error:
                raise MlflowException(f"({type(error)}) {error}", TEMPORARILY_UNAVAILABLE) from error

        with pytest.raises(NoAnswer, match=rf"^MLflow's database {database.parent} is locked by another process"):
            track(store, None, tmp_path, work)


ASKS = """
import sys
from pathlib import Path
from ratchet.runtime.logs import StageLog
from ratchet.store.opening import open_store
from ratchet.tracking.use_registry import use_registry

store, scratch = open_store(sys.argv[1]), Path(sys.argv[1])
try:
    use_registry(store, None, scratch, lambda registry: registry.champion("notes"))
except Exception as error:
    sys.exit(int(StageLog("register").failure(error)))
"""


@needs_strace
def test_a_database_whose_disk_fails_is_no_fault_of_the_settings(tmp_path: Path, mlflow_database: Path) -> None:
    store = prepare(FileStore(tmp_path / "store"), mlflow_database)
    path = store.root / "mlflow" / "mlflow.db"
    command = [STRACE or "strace", "-f", "-o", tmp_path / "log", "-P", path, "-e", "inject=pread64,read:error=ESTALE"]
    ended = subprocess.run(
        [*command, sys.executable, "-c", ASKS, store.root], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, "cannot be read now: disk I/O error" in ended.stdout) == (69, True), ended


def test_a_locked_database_is_waited_for_where_it_is_read_without_mlflow(
    tmp_path: Path, mlflow_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ratchet.tracking.file_registry._BUSY_S", 0.05)
    store = prepare(FileStore(tmp_path / "store"), mlflow_database)
    database = store.root / "mlflow" / "mlflow.db"
    version = Version(number="1", tags={})
    with closing(sqlite3.connect(database)) as other, open_file(database, "here") as registry:
        other.execute("BEGIN EXCLUSIVE")
        assert registry is not None
        with pytest.raises(sqlite3.OperationalError):
            registry.mark("notes", version, 1)
        with pytest.raises(NoAnswer, match=r"^MLflow's database here is locked"), open_file(database, "here"):
            pass


def test_a_bucket_that_does_not_take_the_files_of_a_model_is_waited_for(
    tmp_path: Path, mlflow_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow sends them itself, with a client of its own."""
    monkeypatch.setenv("MLFLOW_S3_ENDPOINT_URL", "http://127.0.0.1:9")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    store: Store = BusyStore(prepare(open_store(f"mem://{tmp_path}"), mlflow_database))  # type: ignore[assignment]
    (tmp_path / "model").write_text("weights")

    def work(tracker: Tracker) -> None:
        tracker.client.log_artifact(log_one(tracker), str(tmp_path / "model"))

    with pytest.raises(NoAnswer, match=r"MLflow's files of s3://busy/mlflow/mlflow\.db cannot be sent: .*connect"):
        track(store, None, tmp_path, work)


@pytest.mark.parametrize(
    ("code", "status", "waits"), [("ExpiredToken", 400, True), ("SlowDown", 503, True), ("AccessDenied", 403, False)]
)
def test_keys_of_a_bucket_that_have_expired_are_waited_for_and_a_missing_right_is_not(
    code: str, status: int, *, waits: bool
) -> None:
    refused = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}}

    failed = S3UploadFailedError("Failed to upload model to models/model")
    failed.__cause__ = ClientError(refused, "PutObject")  # type: ignore[arg-type]
    with pytest.raises(NoAnswer if waits else S3UploadFailedError), _tracking_errors("http://mlflow:5000"):
        raise failed


def test_a_server_is_used_where_there_is_one(mlflow_server: str, tmp_path: Path) -> None:
    store = open_store(f"mem://{tmp_path}")
    assert track(store, mlflow_server, tmp_path, log_one) == track(store, mlflow_server, tmp_path, log_one)
    assert track(store, mlflow_server, tmp_path, runs) == ["a"]


def test_a_server_that_does_not_answer_is_named_within_seconds_and_its_password_is_not(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(Unavailable) as raised:
        track(open_store(f"mem://{tmp_path}"), "http://me:s3cret@127.0.0.1:9", tmp_path, log_one)
    assert time.monotonic() - began < 30
    assert "http://***@127.0.0.1:9 does not answer" in str(raised.value)
    assert "s3cret" not in str(raised.value)


def test_what_a_server_refuses_is_no_outage(mlflow_server: str, tmp_path: Path) -> None:
    with pytest.raises(RestException):
        track(
            open_store(f"mem://{tmp_path}"), mlflow_server, tmp_path, lambda tracker: tracker.client.get_run("0" * 32)
        )


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (401, "You are not authenticated."),
        (401, '{"error_code": "UNAUTHENTICATED", "message": "no"}'),
        (403, "Permission denied"),
    ],
)
def test_a_login_that_a_server_refuses_is_one_line(tmp_path: Path, status: int, body: str) -> None:
    class Refuses(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Refuses) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            address = f"http://me:s3cret@127.0.0.1:{server.server_port}"
            with pytest.raises(
                ConfigurationError, match=r"^MLflow at http://\*\*\*@127\.0\.0\.1:\d+ refuses the login"
            ):
                track(open_store(f"mem://{tmp_path}"), address, tmp_path, log_one)
        finally:
            server.shutdown()


def test_memory_alone_cannot_keep_mlflow(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="MLFLOW_TRACKING_URI"):
        track(open_store(f"mem://{tmp_path}"), None, tmp_path, log_one)
