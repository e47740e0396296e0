"""The server that deletes old rows of Airflow: when, and what it says. The deletion itself is in tests/airflow."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ratchet.checkout import ROOT
from ratchet.contracts.environment import variable
from ratchet.contracts.errors import Unavailable
from ratchet_airflow import row_retention
from tests.waiting import until

BEGIN = "import sys; from ratchet_airflow import row_retention as server; server._MARK = server.Path('mark'); "


def begin(folder: Path, code: str, policy: str, *words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", f"{BEGIN}{code}; sys.exit(server.main(sys.argv[1:]))", *words],
        env={
            "PATH": str(folder),
            "PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}",
            variable("gc"): policy,
            variable("alert_log"): str(folder / "alerts.jsonl"),
        },
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    )


def is_healthy(folder: Path) -> bool:
    with begin(folder, "pass", "", "healthy") as asked:
        return asked.wait(60) == 0


def test_a_policy_that_is_wrong_is_reported_at_the_start(tmp_path: Path) -> None:
    server = begin(tmp_path, "pass", "daily")
    assert f"row_retention: {variable('gc')}: 'daily' is none of weekly" in server.communicate(timeout=60)[1]
    assert server.returncode == 64
    assert not is_healthy(tmp_path)


def test_it_goes_on_after_a_failure_and_is_healthy_until_it_is_late(tmp_path: Path) -> None:
    server = begin(tmp_path, "server._FIRST_S = 0; server._AGAIN_S = 0.1", "weekly,airflow=30")
    assert server.stderr is not None
    assert "old rows of Airflow, of more than 30 days, are deleted once a day" in server.stderr.readline()
    said = [server.stderr.readline() for _ in range(2)]
    assert all("old rows of Airflow stay: [Errno 2] No such file or directory: 'airflow'" in line for line in said)
    assert is_healthy(tmp_path)
    os.utime(tmp_path / "rows-deleted", (1, 1))  # it was made at the start
    assert "old rows of Airflow stay" in server.stderr.readline()
    (tmp_path / "airflow").write_text("#!/bin/sh\n")
    (tmp_path / "airflow").chmod(0o755)
    until(lambda: (tmp_path / "rows-deleted").stat().st_mtime > 1, seconds=60)
    server.send_signal(signal.SIGTERM)
    assert server.wait(60) == 0
    server.stderr.close()
    os.utime(tmp_path / "mark", (0, 0))  # the server touches it after the other file
    assert not is_healthy(tmp_path)


def test_tables_that_airflow_could_not_clean_are_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's command ends well where a table was locked, but for a word that asks it not to."""
    airflow = tmp_path / "airflow"
    airflow.write_text(
        "#!/bin/sh\necho 'tables that were not cleaned: dag_run' >&2\n"
        'case "$*" in *--error-on-cleanup-failure*) exit 1;; esac\n'
    )
    airflow.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match=r"ended with 1: tables that were not cleaned: dag_run"):
        row_retention.delete(90)


def test_a_log_that_cannot_be_deleted_is_a_failure_of_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that another user has written. All others go, and the server goes on."""
    (tmp_path / "airflow").write_text("#!/bin/sh\n")
    (tmp_path / "airflow").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("a.log", "foreign.log", "z.log"):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1, 1))
    unlink = Path.unlink

    def refuse(path: Path) -> None:
        if path.name == "foreign.log":
            raise PermissionError(13, "Permission denied", str(path))
        unlink(path)

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(Unavailable, match=r"old logs stay: .*Permission denied: .*foreign\.log"):
        row_retention.delete(90, tmp_path)
    assert [file.name for file in tmp_path.glob("*.log")] == ["foreign.log"]


def test_all_tables_that_airflow_cleans_are_named_but_that_of_its_dags() -> None:
    from airflow.utils.db_cleanup import config_dict

    needs_fab, of_releases_before = {"session"}, {"_xcom_archive"}
    assert {*row_retention.TABLES} | needs_fab == {*config_dict} - {"dag"} - of_releases_before | needs_fab


def test_without_weekly_it_deletes_nothing(tmp_path: Path) -> None:
    server = begin(tmp_path, "server._FIRST_S = 0.1; server._EVERY_S = 0.1", "airflow=30")
    assert server.stderr is not None
    assert "has no weekly in it: rows of Airflow stay" in server.stderr.readline()
    with pytest.raises(subprocess.TimeoutExpired):
        server.wait(1)
    assert not (tmp_path / "rows-deleted").exists()  # so nobody misses anything
    server.send_signal(signal.SIGTERM)
    assert server.communicate(timeout=60)[1] == ""
