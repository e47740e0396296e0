"""`python -m ratchet_airflow.row_retention`: a small server that once a day has Airflow delete its own old rows.

Airflow's own command does it, `airflow db clean`, so this server needs the configuration and the database of Airflow's
servers. With `--logs FOLDER` it also deletes the log files of that age. How old they are says `airflow` in RATCHET_GC.

A change here violates the promise of the project when rows of a run that may still go on are deleted, or when a
failure ends the server.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ratchet.collection import deletions
from ratchet.collection.log_files import delete_old_logs
from ratchet.contracts.environment import environment, variable
from ratchet.contracts.errors import RatchetError, Unavailable
from ratchet.contracts.masking import masked_logger
from ratchet_airflow.servers import log_to_stderr, stop_on_signal

_FIRST_S = 600.0
"""After the start, when the other servers need the processors."""
_EVERY_S = 24 * 3600.0
_AGAIN_S = 3600.0
"""After a failure, as while the database is away."""
_LONGEST_S = 3600.0
"""Of one deletion."""
TABLES = (
    *("asset_event", "callback", "celery_taskmeta", "celery_tasksetmeta", "connection_test_request", "dag_run"),
    *("dag_version", "deadline", "import_error", "job", "log", "partitioned_asset_key_log", "revoked_token", "session"),
    *("task_instance", "task_instance_history", "task_reschedule", "task_state_store", "trigger", "xcom"),
)
"""All that Airflow's command cleans, but for `dag`: it fails there for a DAG that is gone if a task of its newest run,
which stays, has never begun; and with that table it leaves others as they are. One row for each DAG is no growth."""
_MARK = Path(tempfile.gettempdir()) / "rows-deleted"
"""It is touched at the start, and with each deletion that goes well."""
_log = masked_logger("ratchet.retention")


def main(arguments: Sequence[str]) -> int:
    """Delete once a day until SIGTERM; with the word `healthy`, say whether that goes well."""
    parser = argparse.ArgumentParser(prog="row_retention", description=__doc__.partition("\n")[0])
    parser.add_argument("verb", nargs="?", choices=["healthy"], help="exit with 0 if the last deletion went well")
    parser.add_argument("--logs", type=Path, help="the folder whose old log files go, too")
    options = parser.parse_args(arguments)
    if options.verb:
        return 0 if _MARK.exists() and time.time() - _MARK.stat().st_mtime < _EVERY_S + 3 * _AGAIN_S else 1
    log_to_stderr()
    stop = stop_on_signal()
    try:
        policy = environment().gc
    except RatchetError as error:
        sys.stderr.write(f"row_retention: {error}\n")
        return int(error.code)
    _MARK.touch()
    wait_s = _FIRST_S
    if policy.weekly:
        _note(deletions.expect)
        _log.info("old rows of Airflow, of more than %d days, are deleted once a day", policy.airflow)
    else:
        _log.info("%s has no weekly in it: rows of Airflow stay", variable("gc"))
    while not stop.wait(wait_s):
        try:
            if policy.weekly:
                delete(policy.airflow, options.logs)
                _note(deletions.mark)
            _MARK.touch()
            wait_s = _EVERY_S
        except RatchetError as error:
            _log.error("%s", error)
            wait_s = _AGAIN_S
    return 0


def _note(what: Callable[[Path, deletions.What], None]) -> None:
    """Note for the watch that old rows are deleted."""
    from ratchet_airflow.alerts.delivery import log_file  # a health check does without

    try:
        what(log_file().parent, "rows")
    except OSError as error:
        _log.warning("the watch does not see that old rows are deleted: %s", error)


def delete(days: int, logs: Path | None = None) -> None:
    """Delete Airflow's rows of more than so many days, and the logs in a folder. Raises Unavailable if that fails.

    The newest scheduled run of each DAG stays at any age: Airflow's scheduler goes on from it.
    """
    before = datetime.now(UTC) - timedelta(days=days)
    words = ("--clean-before-timestamp", before.isoformat(), "--skip-archive", "--yes", "--tables", ",".join(TABLES))
    # Without the last word it ends well also where a table was locked.
    command = ("airflow", "db", "clean", *words, "--error-on-cleanup-failure")
    try:
        ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_LONGEST_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"old rows of Airflow stay: {error}") from error
    if ran.returncode:
        last = " ".join((ran.stderr or ran.stdout).strip().splitlines()[-1:])
        raise Unavailable(f"old rows of Airflow stay: `{' '.join(command[:3])}` ended with {ran.returncode}: {last}")
    try:
        files = delete_old_logs(logs, before.timestamp()) if logs is not None else 0
    except OSError as error:
        raise Unavailable(f"old logs stay: {error}") from error
    _log.info("rows of Airflow of more than %d days are deleted%s", days, f", and {files} logs" if files else "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
