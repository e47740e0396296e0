"""The files of a checkpoint: a folder that stores them, and tensors in files with their digests."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from safetensors import SafetensorError
from torch import Tensor

from tasks.train import parts
from tasks.train.parts import Output
from tasks.train.stripes import Reading

DAMAGE = (ValueError, KeyError, TypeError, RuntimeError, FileNotFoundError, SafetensorError)
"""What the reading of damaged files raises."""
_ALL = Reading()


class ReadFolder(Protocol):
    """Files by plain name."""

    def get(self, name: str) -> bytes:
        """Read a small file. Raises FileNotFoundError."""
        ...

    def fetch(self, name: str) -> AbstractContextManager[Path]:
        """A file on a disk of this machine, while the block runs. Raises FileNotFoundError."""
        ...

    def names(self) -> Iterable[str]:
        """List all files."""
        ...


class CheckpointFolder(ReadFolder, Protocol):
    """Stores whole files by plain name. A file is durable when `put` or `write` returns."""

    def put(self, name: str, data: bytes) -> None:
        """Write a small file."""
        ...

    def write(self, name: str, content: Callable[[Output], None]) -> None:
        """Write a large file. content: writes its bytes."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        ...

    def others(self) -> Iterable[ReadFolder]:
        """The folders of other trainings that compute the same."""
        ...


@dataclass(frozen=True, kw_only=True)
class Stored:
    """Tensors that are in files. files: name and sha256 of each. shapes: of the tensors that are cut into blocks."""

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    files: list[dict[str, str]] = field(default_factory=list)
    shapes: dict[str, list[int]] = field(default_factory=dict)

    @property
    def document(self) -> dict[str, Any]:
        """What `load` reads them by."""
        return {"files": self.files, "shapes": self.shapes}

    def holds(self, tensors: Mapping[str, Tensor]) -> bool:
        """Whether these very tensors are stored."""
        return tensors.keys() == self.tensors.keys() and all(tensors[name] is self.tensors[name] for name in tensors)


def store(folder: CheckpointFolder, name: str, tensors: Mapping[str, Tensor], *, writer: str, most: int) -> Stored:
    """Write tensors, a file after the other. writer: a name that no other process has. most: bytes of a file."""
    divided = parts.divide(tensors, most)
    files = []
    for number, part in enumerate(divided, 1):
        file = f"{name}.part-{number}-of-{len(divided)}.{writer}.safetensors"
        files.append({"name": file, "sha256": _write(folder, file, part)})
    return Stored(tensors=tensors, files=files, shapes=parts.shapes_of_divided(tensors, most))


def load(folder: ReadFolder, stored: Iterable[Mapping[str, Any]], reading: Reading = _ALL) -> dict[str, Tensor]:
    """Read tensors, a file after the other. stored: documents of `Stored`, of all ranks. Raises one of DAMAGE."""
    tensors, left = dict[str, Tensor](), dict[str, int]()
    for one in stored:
        for each in one["files"]:
            with folder.fetch(each["name"]) as path:
                with path.open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
                if digest != each["sha256"]:
                    raise ValueError(f"{each['name']} does not match its digest")
                reading.join(path, one["shapes"], tensors, left)
    if any(left.values()):
        raise ValueError(f"rows of {', '.join(sorted(name for name, count in left.items() if count))} are missing")
    return tensors


def _write(folder: CheckpointFolder, name: str, part: Mapping[str, Tensor]) -> str:
    """Write a file. Returns its sha256."""
    digest = hashlib.sha256()

    def content(output: Output) -> None:
        parts.write(part, _Digesting(output, digest.update))

    folder.write(name, content)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class _Digesting:
    """Writes on, and updates a digest."""

    output: Output
    update: Callable[[bytes | memoryview], None]

    def write(self, data: bytes | memoryview, /) -> None:
        self.update(data)
        self.output.write(data)
