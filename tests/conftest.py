"""What every test may use."""

import os

from hypothesis import settings

from tests.docker_engine import stage_image, team_images
from tests.faults.supervised import faulted
from tests.s3 import s3, s3_server, s3_uri, store_uri
from tests.tracking import mlflow_database, mlflow_server

# A busy machine is no bug, so there is no deadline; CI tries the same examples each time.
settings.register_profile("ratchet", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("ratchet")

__all__ = [
    "faulted",
    "mlflow_database",
    "mlflow_server",
    "s3",
    "s3_server",
    "s3_uri",
    "stage_image",
    "store_uri",
    "team_images",
]
