"""Whether the store is collected, rows and logs are deleted, git answers, and backups are copied off the host.

The watch looks at store, rows, git and backups, and each reaper at the logs of its host.

A change here violates the promise of the project when a store, a database or a disk grows for weeks, or no backup is
copied for days, and nobody is alerted.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from ratchet.collection.deletions import What, late_since
from ratchet.contracts.environment import environment
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.git_folder import asked
from ratchet.outbox.outbox import utc
from ratchet.store.base import Store
from ratchet_airflow.alerts.delivery import log_file
from ratchet_airflow.collection_time import COLLECTION, WHEN
from ratchet_airflow.servers import alive_file
from ratchet_airflow.watch import presence

_GIT_LATE_S = 3 * 3600.0
_FOLLOWER_S = 1800.0
_FIRST_S = 3 * 3600.0
"""Where all was stopped, a deletion comes soon after the start, or an hour after one that has failed."""
_COLLECTED = timedelta(days=9)
"""From one Sunday to the next, with all tries, and a day more."""
_COPIED = timedelta(hours=50)
"""Two nightly backups, and the time that one takes: one that failed or was late is no alert if the next one is well."""


class Upkeep:
    """Looks, from the start of a server on."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def report_rows(self) -> None:
        """Alert people if the old rows of Airflow stay that a person wants to go."""
        if not _is_wanted() or (last := self._late("rows")) is None:
            return
        said = f"{_since(last)} no deletion of old rows of Airflow has gone well\nMeanwhile its database grows"
        remedy = "read the log of the service `rows`, or `row-retention` with make serve; start it if it is not there"
        _alert("rows", "Ratchet: old rows of Airflow are not deleted", said, remedy, last)

    def report_collection(self, store: Store) -> None:
        """Alert people if the weekly collection that a person wants does not run; one that fails says so itself."""
        looks = self._looks() and _is_wanted()
        if not looks or (silent := presence.not_collected_for(store)) <= _COLLECTED:
            return
        said = f"For {silent.days} days the DAG {COLLECTION} has not run\nMeanwhile the store grows"
        remedy = f"see in Airflow whether it is paused, and trigger it; or the scheduler is away on {WHEN}"
        _alert("gc", "Ratchet: the store was not collected", said, remedy)

    def report_backup(self, store: Store) -> None:
        """Alert people if copies of backups off the host are wanted, and none was made for two nights."""
        if not self._looks() or (copied := presence.backup_copied(store)) is None:
            return
        last, ago = copied
        if ago > _COPIED:
            said = f"{_since(last)} no backup was copied\nMeanwhile a lost disk loses what came since"
            remedy = "run `make backup` on the main host and read what it says; see why cron did not"
            ends = "Without a place for copies in .env it ends this alert"
            _alert("backup", "Ratchet: no backup was copied off the host", said, f"{remedy}. {ends}", last)

    def report_logs(self, name_of_host: Callable[[], str]) -> None:
        """Alert people if the old logs of this host stay. name_of_host: an engine may have to be asked for it."""
        last = self._late("logs")
        if last is None:
            return
        host = name_of_host()
        said = f"{_since(last)} no deletion of old logs on {host} has gone well\nMeanwhile its disk fills"
        remedy = f"read the log of the service `logs` on {host}; start it if it is not there"
        _alert(f"logs-{host}", f"Ratchet: old logs are not deleted on {host}", said, remedy, last)

    def report_follower(self, name_of_host: Callable[[], str]) -> None:
        """Alert people if this host has no follower although its tasks leave containers to one."""
        away_s, last = time.monotonic() - self._began, None
        with suppress(OSError):
            looked = alive_file("follower").stat().st_mtime
            away_s, last = min(away_s, abs(time.time() - looked)), datetime.fromtimestamp(looked, UTC)
        if environment().follower != "host" or away_s <= _FOLLOWER_S:
            return
        host = name_of_host()
        said = f"For {away_s / 60:.0f} minutes no follower has looked on {host}\nMeanwhile its tasks keep their workers"
        remedy = f"read the log of the service `follower` on {host}; start it if it is not there"
        _alert(f"follower-{host}", f"Ratchet: the follower of {host} is away", said, remedy, last)

    def report_git(self) -> None:
        """Alert people if the pipelines come from git, and it has not answered for hours."""
        pipelines = environment().pipelines
        if pipelines is None or not self._looks():
            return
        with suppress(FileNotFoundError):  # no service asks git here
            last = datetime.fromtimestamp(asked(pipelines).stat().st_mtime, UTC)
            if time.time() - last.timestamp() > _GIT_LATE_S:
                said = f"{_since(last)} git has not answered, or refuses\nNights go on with the pipelines of then"
                remedy = "read the log of the service `pipelines`, which says why"
                _alert("git", "Ratchet: no pipelines come from git", said, remedy, last)

    def _late(self, what: What) -> datetime | None:
        return late_since(log_file().parent, what) if self._looks() else None

    def _looks(self) -> bool:
        return time.monotonic() - self._began >= _FIRST_S


def _is_wanted() -> bool:
    with suppress(ConfigurationError):  # the DAG ratchet-gc says what is wrong
        return environment().gc.weekly
    return False


def _since(last: datetime) -> str:
    return f"Since {last:%Y-%m-%d %H:%M} UTC"


def _alert(what: str, title: str, said: str, remedy: str, since: datetime | None = None) -> None:
    """since: when it went well last. What fails again later on that day is said again."""
    from ratchet_airflow.watch.waiting import alert_once_a_day  # which loads Airflow

    alert_once_a_day(what, title, f"{said}\nWhat to do: {remedy}", utc(), since=since)
