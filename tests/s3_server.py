"""moto's S3 server: `python s3_server.py BUCKET` prints its address once it listens, and ends with its parent.

Like S3, and unlike moto alone, it handles one request at a time, so that conditional writes are atomic.
"""

import io
import os
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

import boto3
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server


def main() -> None:
    application = DomainDispatcherApplication(create_backend_app)
    turn = threading.Lock()

    def one_at_a_time(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        # The body is read outside of the lock: a stalled client stalls nobody else.
        length = int(environ.get("CONTENT_LENGTH") or 0)
        if length:
            environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(length))
        with turn:
            return list(application(environ, start))

    server = make_server("127.0.0.1", 0, one_at_a_time, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    client = boto3.client(
        "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x"
    )
    client.create_bucket(Bucket=sys.argv[1])
    print(endpoint, flush=True)  # noqa: T201 - the address, to who started it
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
