"""The document of a checkpoint: the state that is no tensor, and the names and digests of all files.

Several ranks whose tables are sharded by row write one together: it then names the files of each.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from tasks.train.checkpoint_files import ReadFolder

_FORMAT, _STRIPED = 4, 5
"""The second one is that of several ranks."""
_DOCUMENT = re.compile(r"^step-(\d{10})\.json$")
FILE = re.compile(r"^(?:step|best)-(\d{10})\.(?:json$|.*safetensors$)")


class OtherRelease(ValueError):
    """A document of another format."""


def document(content: Mapping[str, Any]) -> bytes:
    """The document of a checkpoint, with its digest."""
    form = _STRIPED if "ranks" in content else _FORMAT
    return json.dumps({"format": form, "content": content, "sha256": _digest(content)}).encode()


def read_document(folder: ReadFolder, step: int) -> tuple[dict[str, Any], str]:
    """The content of a document, and its digest. Raises one of DAMAGE."""
    found = json.loads(folder.get(name_of(step)))
    if "format" not in found or found["format"] not in (_FORMAT, _STRIPED):
        raise OtherRelease(f"it is not of format {_FORMAT} or {_STRIPED}")
    content: dict[str, Any] = found["content"]
    if content["step"] != step or _digest(content) != found["sha256"]:
        raise ValueError("its document does not match its digest")
    return content, found["sha256"]


def files_of(content: Mapping[str, Any]) -> frozenset[str]:
    """All files of a checkpoint."""
    stored = (each[name] for each in (content, *content.get("ranks", [])) for name in ("state", "best"))
    return frozenset((name_of(content["step"]), *(file["name"] for one in stored for file in one["files"])))


def steps_of(names: Iterable[str]) -> list[int]:
    """The steps of the checkpoints among files."""
    return [int(found.group(1)) for name in names if (found := _DOCUMENT.match(name))]


def name_of(step: int) -> str:
    """The name of a document."""
    return f"step-{step:010d}.json"


def _digest(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
