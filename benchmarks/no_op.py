"""The program of a container that computes nothing: it publishes the result of a template under its request's name.

It runs in the stage image in the place of `ratchet`. In a folder it does so with nothing but Python's own library, in
some 30 ms; in S3 with the library of the image. A pipeline whose name begins with WAITS waits first until the object GO
is in the store. `benchmarks/no_op_image.py` makes the image. The reader of a result verifies the digest that is
written here.
"""

import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

TEMPLATES = "/opt/ratchet/templates.json"
"""The results of the template by stage, as the store has them, where results are, and what their file is called."""
ROOT, FILE = "root", "file"
WAITS, GO = "waits-", "go"
_LIBRARY = "/opt/ratchet/lib/python3.11/site-packages"


class _Folder:
    def __init__(self, uri: str) -> None:
        self._root = Path(uri.removeprefix("file://"))

    def has(self, key: str) -> bool:
        return (self._root / key).exists()

    def create(self, key: str, data: bytes) -> None:
        """In one step."""
        place = self._root / key
        place.parent.mkdir(parents=True, exist_ok=True)
        new = place.with_name(f"new-{os.getpid()}")
        new.write_bytes(data)
        new.rename(place)


class _Bucket:
    def __init__(self, uri: str) -> None:
        sys.path.append(_LIBRARY)
        from ratchet.contracts.environment import environment
        from ratchet.store.opening import open_store

        if (secrets := environment().secrets) is not None:
            os.environ["AWS_SHARED_CREDENTIALS_FILE"] = str(secrets / "aws-credentials")
        self._store = open_store(uri)

    def has(self, key: str) -> bool:
        return self._store.head(key) is not None

    def create(self, key: str, data: bytes) -> None:
        self._store.create(key, data)


def main() -> None:
    """Publish."""
    request: dict[str, Any] = json.loads(Path(sys.argv[-1]).read_bytes())
    uri, name = request["store"], request["spec"]["name"]
    store = _Bucket(uri) if uri.startswith("s3://") else _Folder(uri)
    while name.startswith(WAITS) and not store.has(GO):
        time.sleep(0.5)
    templates: dict[str, Any] = json.loads(Path(TEMPLATES).read_bytes())
    document = templates[request["stage"]]
    document |= {name: request[name] for name in ("fingerprint", "parts", "attempt")}
    plain = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    sealed = {"sha256": hashlib.sha256(plain.encode()).hexdigest(), "document": document}
    place = "/".join((templates[ROOT], name, request["stage"], request["fingerprint"], templates[FILE]))
    store.create(place, json.dumps(sealed, indent=1, ensure_ascii=False).encode())


if __name__ == "__main__":
    main()
