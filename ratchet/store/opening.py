"""Opens the store of a URI."""

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ratchet.contracts.errors import ConfigurationError
from ratchet.store.base import Store, check_key
from ratchet.store.file import FileStore
from ratchet.store.memory import MemoryStore

_BUCKET = re.compile(r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")

_CREDENTIALS = re.compile(r"//[^/@]*@")


def open_store(uri: str) -> Store:
    """Open the store at `file:///folder` or a plain path, `s3://bucket/prefix`, or `mem://name`.

    Does not read or write. Raises ConfigurationError for any other URI.
    """
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return FileStore(Path(uri)) if uri and "\0" not in uri else _refuse(uri)
    if scheme == "file":
        parts = urlsplit(uri)
        path = unquote(parts.path)
        local = parts.netloc in {"", "localhost"} and path.startswith("/") and "\0" not in path
        return FileStore(Path(path)) if local and not (parts.query or parts.fragment) else _refuse(uri)
    if scheme == "mem" and rest:
        return MemoryStore(rest)
    bucket, _, prefix = rest.partition("/")
    if scheme == "s3" and _BUCKET.match(bucket):
        from ratchet.store.s3 import S3Store

        prefix = prefix.rstrip("/")
        return S3Store(bucket, check_key(prefix) if prefix else "")
    return _refuse(uri)


def _refuse(uri: str) -> Store:
    raise ConfigurationError(
        f"{_CREDENTIALS.sub('//***@', uri)!r} is not the URI of a store",
        remedy="use a folder's path, file:///folder, s3://bucket/prefix, or mem://name in tests",
    )
