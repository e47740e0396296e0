"""What every test may use."""

from tests.docker_engine import stage_image
from tests.s3 import s3, s3_server, s3_uri, store_uri
from tests.tracking import mlflow_database, mlflow_server

__all__ = ["mlflow_database", "mlflow_server", "s3", "s3_server", "s3_uri", "stage_image", "store_uri"]
