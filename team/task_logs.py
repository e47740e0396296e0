"""Where Airflow keeps the logs of tasks: a bucket, so that those of every host are in one place and outlive it.

Airflow reads `LOGGING_CONFIG` and `REMOTE_TASK_LOG` here (`[logging] logging_config_class`). Workers and the
triggerer put a log there when a task has ended or is deferred; while it runs, the file on its host is shown, too.
"""

import os
from pathlib import Path

from airflow.config_templates.airflow_local_settings import DEFAULT_LOGGING_CONFIG

from team.bucket_logs import BucketLogs

LOGGING_CONFIG = DEFAULT_LOGGING_CONFIG
"""As Airflow's own."""


def _configured() -> BucketLogs | None:
    place = os.environ.get("RATCHET_LOGS")
    return BucketLogs(place, Path(os.environ["AIRFLOW__LOGGING__BASE_LOG_FOLDER"])) if place else None


REMOTE_TASK_LOG = _configured()
