"""`python -m local serve` with a wrong setting, and `run` beside servers."""

import subprocess
import sys
from pathlib import Path

import pytest

from local.__main__ import main
from local.supervision import processes, state
from ratchet.contracts.exits import ExitCode


def test_a_wrong_time_of_the_digest_is_one_clear_line_before_a_server_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["local", "serve", "--home", str(tmp_path)])
    monkeypatch.setenv("RATCHET_DIGEST", "half past seven")
    assert main() == ExitCode.BAD_CONFIGURATION
    assert capsys.readouterr().out == (
        "serve: RATCHET_DIGEST: 'half' is not a time of day; write it like 04:00; "
        "to do: set it like RATCHET_DIGEST=07:30 Europe/Berlin, or unset it\n"
    )
    assert not [*tmp_path.iterdir()]


def typed(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """What a person types."""
    command = [sys.executable, "-m", "local", "run", "--home", str(home), *words]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_a_program_runs_with_what_the_servers_were_started_with(tmp_path: Path) -> None:
    """Else `airflow` makes a database of its own in ~/airflow, and `ratchet` reads another store."""
    away = typed(tmp_path, "airflow", "version")
    assert away.returncode == ExitCode.UNAVAILABLE
    assert away.stderr == "run: no servers run here; to do: start them: make serve\n"
    (tmp_path / "local").mkdir()
    given = {"PATH": "/usr/bin:/bin", "AIRFLOW_HOME": "/srv/airflow", "RATCHET_STORE": "/data/store"}
    with subprocess.Popen(["sleep", "60"], env=given) as supervisor:
        state.write(tmp_path / "local", state.Servers(supervisor=processes.identity(supervisor.pid), servers=()))
        done = typed(tmp_path, "printenv", "AIRFLOW_HOME", "RATCHET_STORE")
        assert (done.returncode, done.stdout) == (0, "/srv/airflow\n/data/store\n"), done.stderr
        wrong = typed(tmp_path, "airfolw", "--help")
        assert wrong.returncode == ExitCode.BAD_CONFIGURATION
        assert wrong.stderr == "run: there is no program airfolw; to do: correct its name\n"
        supervisor.kill()
