"""Checkpoints of a training, written so that a crash at any moment leaves a whole one.

A checkpoint is a file of tensors (safetensors) and a JSON document with the rest of the state and the sha256 of both.
The document is written last: without it the checkpoint does not exist. Nothing is pickled.

A change here violates the promise of the project when a training resumes from a damaged checkpoint, or when the last
good one can be lost while another is written.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Protocol

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

_LISTINGS = 3
_DOCUMENT = re.compile(r"^step-(\d{10})\.json$")


class ReadFolder(Protocol):
    """Files by plain name."""

    def get(self, name: str) -> bytes:
        """Read a file. Raises FileNotFoundError."""
        ...

    def names(self) -> Iterable[str]:
        """List all files."""
        ...


class CheckpointFolder(ReadFolder, Protocol):
    """Stores whole files by plain name. A file is durable when `put` returns."""

    def put(self, name: str, data: bytes) -> None:
        """Write a file."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        ...

    def others(self) -> Iterable[ReadFolder]:
        """The folders of other trainings that compute the same."""
        ...


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A saved state.

    step: completed steps of all epochs. state: what `TrainState.state_dict` returned, that is tensors and JSON values.
    is_own: whether this training wrote it, not another that computes the same.
    """

    step: int
    state: Mapping[str, Any]
    is_own: bool = True


class Checkpointer:
    """Saves in the background, one checkpoint at a time, and keeps the newest `keep`.

    A save that fails is logged through `warn`, and training continues. stalls: seconds that the loop waited for each
    save. durations: seconds from the start of each save until it was durable. failures: saves that failed.
    newest_step: of the newest checkpoint that this process has read or made durable.
    """

    def __init__(self, folder: CheckpointFolder, *, keep: int, warn: Callable[[str], None]) -> None:
        self._folder = folder
        self._keep = keep
        self._warn = warn
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._pending: Future[None] | None = None
        self.stalls: list[float] = []
        self.durations: list[float] = []
        self.failures = 0
        self.newest_step: int | None = None
        self._unreadable: set[int] = set()

    def save(self, checkpoint: Checkpoint) -> None:
        """Copy the state, and write the copy while training continues."""
        begin = perf_counter()
        self.wait()
        tensors, values = _split(checkpoint.state)
        tensors = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
        values = json.loads(json.dumps(values))
        self._pending = self._pool.submit(self._write, checkpoint.step, tensors, values, begin)
        self.stalls.append(perf_counter() - begin)

    def wait(self) -> BaseException | None:
        """Wait for the save in progress. Returns its error, which is logged, not raised; None if it is durable."""
        pending, self._pending = self._pending, None
        error = None if pending is None else pending.exception()
        if error is not None:
            self.failures += 1
            self._warn(f"a checkpoint could not be saved; training continues: {error}")
        return error

    def close(self) -> BaseException | None:
        """Finish the save in progress and end the background thread. Returns the error of that save, if it failed."""
        error = self.wait()
        self._pool.shutdown()
        return error

    def newest(self) -> Checkpoint | None:
        """The newest whole checkpoint, of this training or another that computes the same. Damaged ones are skipped."""
        for _ in range(_LISTINGS):  # another training may replace its checkpoints meanwhile
            replaced = False
            for step, is_own, folder in self._newest_first():
                try:
                    checkpoint = replace(_read(folder, step), is_own=is_own)
                except (ValueError, KeyError, TypeError, FileNotFoundError, SafetensorError) as error:
                    gone = isinstance(error, FileNotFoundError) and not is_own
                    replaced = replaced or gone
                    self._skip(step, f"{'gone' if gone else 'damaged'} ({error})", is_own=is_own)
                else:
                    self.newest_step = step
                    return checkpoint
            if not replaced:
                break
        return None

    def _newest_first(self) -> list[tuple[int, bool, ReadFolder]]:
        """(step, whether it is this training's own, folder) of each checkpoint; at one step the own one first."""
        folders = [(True, self._folder), *((False, folder) for folder in self._folder.others())]
        found = [(step, is_own, folder) for is_own, folder in folders for step in _steps(folder)]
        return sorted(found, key=lambda each: each[:2], reverse=True)

    def _skip(self, step: int, state: str, *, is_own: bool) -> None:
        if is_own:
            self._unreadable.add(step)
        self._warn(f"the checkpoint of step {step} is {state}; training uses the one before it")

    def _write(self, step: int, tensors: dict[str, Tensor], values: dict[str, Any], begin: float) -> None:
        data = save_tensors(tensors)
        document = {
            "progress": values,
            "progress_sha256": _digest_of_json(values),
            "tensors_sha256": hashlib.sha256(data).hexdigest(),
        }
        self._folder.put(_tensors(step), data)
        self._folder.put(_document(step), json.dumps(document).encode())
        self.durations.append(perf_counter() - begin)
        self.newest_step = step
        self._remove_old(step)

    def _remove_old(self, step: int) -> None:
        """Keep the newest ones that can be read."""
        self._unreadable.discard(step)
        try:
            found = sorted(_steps(self._folder))
            readable = [each for each in found if each not in self._unreadable]
            for old in (*readable[: -self._keep], *self._unreadable.intersection(found)):
                self._folder.remove(_document(old))
                self._folder.remove(_tensors(old))
        except Exception as error:  # noqa: BLE001 - whatever it is, the state of this step is saved
            self._warn(f"old checkpoints could not be removed, and use up the store: {error}")


def _steps(folder: ReadFolder) -> list[int]:
    return [int(found.group(1)) for name in folder.names() if (found := _DOCUMENT.match(name))]


def _read(folder: ReadFolder, step: int) -> Checkpoint:
    document = json.loads(folder.get(_document(step)))
    data = folder.get(_tensors(step))
    if _digest_of_json(document["progress"]) != document["progress_sha256"]:
        raise ValueError("its document does not match its digest")
    if hashlib.sha256(data).hexdigest() != document["tensors_sha256"]:
        raise ValueError("its tensors do not match their digest")
    return Checkpoint(step=step, state={**document["progress"], **load_tensors(data)})


def _document(step: int) -> str:
    return f"step-{step:010d}.json"


def _tensors(step: int) -> str:
    return f"step-{step:010d}.safetensors"


def _split(state: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """(tensors, JSON values) of a state."""
    tensors = {name: value for name, value in state.items() if isinstance(value, Tensor)}
    return tensors, {name: value for name, value in state.items() if name not in tensors}


def _digest_of_json(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
