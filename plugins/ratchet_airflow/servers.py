"""What the small servers beside Airflow share: the watch, the reaper, the follower and the deletion of old rows."""

import logging
import signal
from pathlib import Path
from threading import Event

from ratchet_airflow.alerts.delivery import log_file


def log_to_stderr() -> None:
    """Log lines with time and level, without those of each request to S3."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", force=True)
    logging.getLogger("botocore").setLevel(logging.WARNING)


def stop_on_signal() -> Event:
    """An event that SIGTERM and SIGINT set."""
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def alive_file(server: str) -> Path:
    """What a server touches after each good round. See also `team.health`."""
    return log_file().with_name(f"{server}-alive")
