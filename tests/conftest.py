"""What every test may use."""

from tests.s3 import s3, s3_server, s3_uri, store_uri

__all__ = ["s3", "s3_server", "s3_uri", "store_uri"]
