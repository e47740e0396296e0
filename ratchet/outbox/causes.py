"""What several pipelines may fail from at the same time: the text of a cause without what is one pipeline's own."""

import re
from urllib.parse import urlsplit

STORE = "store"
"""The cause of what failed because the store was away, in whatever words."""
_LONGEST = 300
_OWN: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s/'\"]*)[^\s'\":;,]*", re.IGNORECASE), r"\1"),
    (re.compile(r"(?<![\w:/])/[^\s'\":;,]+"), "/"),
    (re.compile(r"'[^']*'|\"[^\"]*\""), "''"),
    (re.compile(r"\b[0-9a-f]{12,}\b"), "#"),
    (re.compile(r"\d+"), "#"),
    (re.compile(r"\s*\([^()]*\)$"), ""),
    (re.compile(r"^[a-z]+: "), ""),
)
"""Paths below a host, files, quoted names, digests, numbers, what stands in brackets at the end, and the stage."""


def shared_cause(text: str, *, pipeline: str, store: str = "") -> str:
    """The same for every pipeline that fails from the same. store: the store's URI."""
    if store and _names_store(text, store):
        return STORE
    text = re.sub(rf"(?<![\w-]){re.escape(pipeline)}(?![\w-])", "#", text)
    for own, plain in _OWN:
        text = own.sub(plain, text)
    return text.strip()[:_LONGEST]


def _names_store(text: str, store: str) -> bool:
    """Whether a cause is about the store: errors name its URI or its folder, and those of S3 its bucket."""
    place = re.escape(store.removeprefix("file://").rstrip("/"))
    bucket = re.escape(urlsplit(store).netloc) if store.startswith("s3://") else ""
    found = re.search(rf"(?<![\w./-]){place}(?![\w.-])", text)
    return bool(found or (bucket and re.search(rf"\bbucket {bucket}(?![\w.-])", text)))
