"""Logs of tasks: in a bucket, whatever host they are of, for as long as the settings say."""

import os
import shutil
import time
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from ratchet.collection.log_files import delete_old_logs
from team import log_retention
from team.bucket_logs import BucketLogs
from team.log_retention import expire_objects
from tests.s3 import S3Server
from tests.s3_proxy import s3_proxy
from tests.team.buckets import contents, stored

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

LOG = "dag_id=shop/run_id=r/task_id=train/attempt=1.log"
DAY_S = 24 * 3600


@pytest.fixture
def bucket(client: "S3Client", s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    name = f"logs-{time.time_ns()}"
    client.create_bucket(Bucket=name)
    return name


@pytest.mark.airflow
def test_airflow_puts_a_log_there_and_shows_it_with_that_of_the_triggerer(
    bucket: str,
    client: "S3Client",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("RATCHET_LOGS", f"s3://{bucket}/tasks")
    monkeypatch.setenv("AIRFLOW__LOGGING__BASE_LOG_FOLDER", str(tmp_path))
    monkeypatch.setenv("AIRFLOW__LOGGING__LOGGING_CONFIG_CLASS", "team.task_logs.LOGGING_CONFIG")
    from airflow.configuration import conf
    from airflow.sdk._shared.logging.factory import resolve_remote_task_log
    from airflow.sdk._shared.module_loading import import_string
    from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime

    providers: Any = ProvidersManagerTaskRuntime
    # As Airflow finds it, in a worker and in the API server.
    logs, _ = resolve_remote_task_log(conf=conf, providers_manager=providers(), import_string=import_string)
    there: Any = logs
    assert type(there).__name__ == "BucketLogs"
    file = tmp_path / LOG
    file.parent.mkdir(parents=True)
    file.write_text("one\n")
    there.upload(LOG, None)
    file.write_text("one\ntwo\n")  # the task went on, on the same host
    there.upload(LOG, None)
    file.write_text("three\n")  # and on another one
    there.upload(LOG, None)
    file.with_name("attempt=1.log.trigger.7.log").write_text("waited\n")
    there.upload(f"{LOG}.trigger.7.log", None)
    places, streams = there.stream(LOG, None)
    assert places == [f"s3://{bucket}/tasks/{LOG}", f"s3://{bucket}/tasks/{LOG}.trigger.7.log"]
    assert [list(lines) for lines in streams] == [["one", "two", "three"], ["waited"]]
    assert there.read(LOG, None)[1] == ["one\ntwo\nthree", "waited"]
    capsys.readouterr()
    there.upload("absent.log", None)  # a task that has logged nothing is no failure
    assert "absent.log stays on this host" in capsys.readouterr().out + caplog.text  # Airflow may have set up logging
    assert set(contents(client, bucket)) == {f"tasks/{LOG}", f"tasks/{LOG}.trigger.7.log"}


def test_old_logs_go_here_and_there_and_everything_else_stays(bucket: str, client: "S3Client", tmp_path: Path) -> None:
    old, now = time.time() - 31 * DAY_S, time.time()
    for name in ("dag_id=a/attempt=1.log", "dag_id=b/attempt=1.log", "dag_id=b/attempt=2.log", "alerts.jsonl"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("x")
        if "attempt=2" not in name:
            os.utime(file, (old, old))
    os.utime(tmp_path / "dag_id=a", (old, old))
    assert delete_old_logs(tmp_path, now - 30 * DAY_S) == 2
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"dag_id=b/attempt=2.log", "alerts.jsonl"}
    os.utime(tmp_path / "dag_id=a", (old, old))  # its time was that of the deletion
    delete_old_logs(tmp_path, now - 30 * DAY_S)
    assert not (tmp_path / "dag_id=a").exists()
    stored(client, bucket, {"tasks/a.log": b"x", "tasks/a.json": b"x", "other/b.log": b"x"})
    assert expire_objects(client, f"s3://{bucket}/tasks", now - 30 * DAY_S) == 0
    assert expire_objects(client, f"s3://{bucket}/tasks", now + 60) == 1
    assert set(contents(client, bucket)) == {"tasks/a.json", "other/b.log"}


def test_where_s3_is_not_there_yet_it_is_asked_again_soon(
    bucket: str, client: "S3Client", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class _EndOfTestError(Exception): ...

    slept: list[float] = []
    said: list[bool] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        marks = (tmp_path / "expired").exists(), (tmp_path / "logs-deleted").stat().st_mtime > 1
        said.append(all(marks))
        os.utime(tmp_path / "logs-deleted", (1, 1))
        if len(slept) == 2:
            client.create_bucket(Bucket=f"{bucket}-late")
        elif len(slept) > 2:
            raise _EndOfTestError

    monkeypatch.setenv("RATCHET_LOGS", f"s3://{bucket}-late")
    monkeypatch.setenv("RATCHET_LOGS_KEEP_DAYS", "30")
    monkeypatch.setattr(log_retention, "_FOLDER", tmp_path)
    monkeypatch.setattr(log_retention, "_MARK", tmp_path / "expired")
    monkeypatch.setattr("team.log_retention.time.sleep", sleep)
    monkeypatch.setattr("sys.argv", ["log_retention"])
    with pytest.raises(_EndOfTestError):
        log_retention.main()
    assert slept == [30, 30, 30]
    assert said == [False, False, True]
    assert capsys.readouterr().out.count("old logs stay in the bucket") == 1
    monkeypatch.setattr("sys.argv", ["log_retention", "healthy"])
    assert log_retention.main() == 0


def test_a_log_that_s3_did_not_take_goes_there_when_it_is_back_whatever_is_there_of_it(
    bucket: str, client: "S3Client", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / LOG
    file.parent.mkdir(parents=True)
    file.write_text("began\n")
    BucketLogs(f"s3://{bucket}/tasks", tmp_path).upload(LOG)  # the task was deferred
    file.write_text("began\nfailed: why\n")
    with monkeypatch.context() as away:
        away.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        away.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
        logs = BucketLogs(f"s3://{bucket}/tasks", tmp_path)
        logs.upload(LOG)
        logs.upload("absent.log")
        assert caplog.text.count("stays on this host") == 2
        with pytest.raises(BotoCoreError):
            logs.send_again()
    logs = BucketLogs(f"s3://{bucket}/tasks", tmp_path)
    assert logs.read(LOG, None)[1] == ["began"]
    assert logs.send_again() == 1
    assert logs.read(LOG, None)[1] == ["began\nfailed: why"]
    assert logs.send_again() == 0
    assert list((tmp_path / ".unsent").iterdir()) == []


def test_a_log_that_s3_refuses_keeps_none_of_the_others_here(
    bucket: str, client: "S3Client", s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log of the name `refused` or `away` is answered with a status; with 0 its connection breaks."""
    answer, asked = [403], list[str]()

    def refuse(_: str, path: str, _headers: object) -> tuple[int, bytes] | None:
        asked.append(path)
        return (answer[0], b"") if "refused" in path or "away" in path else None

    names = [f"{kind}-{number}.log" for number in range(2) for kind in ("taken", "refused")]
    with s3_proxy(s3_server.endpoint, refuse=refuse) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        for answer[0] in (403, 0):
            client.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": name} for name in names]})
            marked(tmp_path, *names)
            with pytest.raises((BotoCoreError, ClientError)):
                BucketLogs(f"s3://{bucket}", tmp_path).send_again()
            assert sorted(contents(client, bucket)) == ["taken-0.log", "taken-1.log"]
            assert len(list((tmp_path / ".unsent").iterdir())) == 2
        shutil.rmtree(tmp_path / ".unsent")
        marked(tmp_path, *(f"away-{number}.log" for number in range(9)))
        asked.clear()
        with pytest.raises(BotoCoreError):
            BucketLogs(f"s3://{bucket}", tmp_path).send_again()
        assert len(set(asked)) == 3


def marked(folder: Path, *names: str) -> None:
    """Logs that S3 has not taken yet."""
    for name in names:
        (folder / name).write_text("a line\n")
        (folder / ".unsent").mkdir(exist_ok=True)
        BucketLogs("s3://logs", folder)._mark(name).write_text(name)


def test_the_memory_for_a_long_log_does_not_grow_with_it(
    bucket: str, client: "S3Client", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service that puts it there has 256 MiB, and the triggerer dies with all that it follows."""
    monkeypatch.setattr("team.bucket_logs._PIECE", 1 << 16)
    logs, file = BucketLogs(f"s3://{bucket}", tmp_path), tmp_path / LOG
    file.parent.mkdir(parents=True)
    one, other = (letter * (30 << 20) for letter in (b"a", b"b"))
    for content, there in ((one, one), (one + b"!", one + b"!"), (other, one + b"!" + other)):
        file.write_bytes(content)
        tracemalloc.start()
        logs.upload(LOG)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < len(one)
        assert contents(client, bucket) == {LOG: there}
    assert sorted(tmp_path.iterdir()) == [tmp_path / "dag_id=shop"]


def test_logs_that_s3_does_not_delete_are_no_deletion_that_went_well() -> None:
    class Refusing:
        """As AWS answers a user without s3:DeleteObject: 200, with an error for each object."""

        def get_paginator(self, _: str) -> "Refusing":
            return self

        def paginate(self, **_: Any) -> list[dict[str, Any]]:
            return [{"Contents": [{"Key": "a.log", "LastModified": datetime(2020, 1, 1, tzinfo=UTC)}]}]

        def delete_objects(self, **_: Any) -> dict[str, Any]:
            return {"Errors": [{"Key": "a.log", "Code": "AccessDenied"}]}

    with pytest.raises(OSError, match="does not delete 1 of them: AccessDenied"):
        expire_objects(cast("S3Client", Refusing()), "s3://logs", time.time())
