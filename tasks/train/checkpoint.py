"""Checkpoints of a training, written so that a crash at any moment leaves a whole one.

A checkpoint is a JSON document and files of tensors (safetensors) of bounded size. The document holds the rest of the
state and the sha256 of everything. It is written last: without it the checkpoint does not exist. Nothing is pickled,
and no file is written twice. The best weights have files of their own: each is written in two copies, and the
checkpoints that follow use one and the other in turn.

A change here violates the promise of the project when a training resumes from a damaged checkpoint, or when the last
good one can be lost while another is written.
"""

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from torch import Tensor

from tasks.train.checkpoint_files import DAMAGE, CheckpointFolder, ReadFolder, Stored, load, store
from tasks.train.parts import PART_BYTES
from tasks.train.staging import Staging

FORMAT = 4
BEST = "best."
"""The names of the best weights begin with it."""
_COPIES = 2
"""Of the best weights: so one that is damaged costs the newest checkpoint, and not the one before it."""
_LISTINGS = 3
_DOCUMENT = re.compile(r"^step-(\d{10})\.json$")
_FILE = re.compile(r"^(?:step|best)-(\d{10})\.(?:json$|.*safetensors$)")


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A saved state.

    step: completed steps of all epochs. state: what `TrainState.state_dict` returned, that is tensors and JSON values.
    moving: the names of tensors that may change before the next update of the weights. is_own: whether this training
    wrote it, not another that computes the same.
    """

    step: int
    state: Mapping[str, Any]
    moving: AbstractSet[str] = frozenset()
    is_own: bool = True


class Checkpointer:
    """Saves in the background, one checkpoint at a time, and keeps the newest `keep`.

    A save that begins while the one before is being written waits for it: so a training loses one interval at most. A
    save that fails is logged through `warn`, and training continues. part_bytes: of a file of tensors, at most. stalls:
    seconds that the loop waited for each save. durations: seconds from the start of each save until it was durable.
    failures: saves that failed. waits: saves that waited for the one before. newest_step: of the newest checkpoint that
    this process has read or made durable.
    """

    def __init__(
        self,
        folder: CheckpointFolder,
        *,
        keep: int,
        warn: Callable[[str], None],
        part_bytes: int = PART_BYTES,
    ) -> None:
        self._folder = folder
        self._keep = keep
        self._warn = warn
        self._part_bytes = part_bytes
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._pending: Future[None] | None = None
        self._staging = Staging()
        self._token = secrets.token_hex(4)
        self._best = list[Stored]()
        self._files: dict[int, frozenset[str]] = {}
        self._unreadable: set[int] = set()
        self.stalls: list[float] = []
        self.durations: list[float] = []
        self.failures = self.waits = 0
        self.newest_step: int | None = None

    def save(self, checkpoint: Checkpoint) -> None:
        """Copy and write the state while training continues. Call `wait_for_copy` before its weights change."""
        begin = perf_counter()
        self.waits += self._pending is not None and not self._pending.done()
        self.wait()
        tensors = {name: value for name, value in checkpoint.state.items() if isinstance(value, Tensor)}
        progress = json.dumps({name: value for name, value in checkpoint.state.items() if name not in tensors})
        best = {name: tensors.pop(name) for name in list(tensors) if name.startswith(BEST)}
        self._staging.begin(tensors, moving=checkpoint.moving)
        self._pending = self._pool.submit(self._write, checkpoint.step, best, progress, begin)
        self.stalls.append(perf_counter() - begin)

    def wait_for_copy(self) -> None:
        """Before the weights change: let the copy of the last save end."""
        if self._pending is not None:
            begin = perf_counter()
            self._staging.wait()
            self.stalls[-1] += perf_counter() - begin

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
                    checkpoint, best = _read(folder, step)
                except DAMAGE as error:
                    gone = isinstance(error, FileNotFoundError) and not is_own
                    replaced = replaced or gone
                    other = "of another release" if isinstance(error, _OtherRelease) else "damaged"
                    self._skip(step, f"{'gone' if gone else other} ({error})", is_own=is_own)
                else:
                    self.newest_step = step
                    self._best = [best] if is_own else []
                    return replace(checkpoint, is_own=is_own)
            if not replaced:
                break
        return None

    def _newest_first(self) -> list[tuple[int, bool, ReadFolder]]:
        """(step, whether it is this training's own, folder) of each checkpoint; at one step the own one first."""
        folders = [(True, self._folder), *((False, folder) for folder in self._folder.others())]
        found = [(step, is_own, folder) for is_own, folder in folders for step in _steps(folder.names())]
        return sorted(found, key=lambda each: each[:2], reverse=True)

    def _skip(self, step: int, state: str, *, is_own: bool) -> None:
        if is_own:
            self._unreadable.add(step)
        self._warn(f"the checkpoint of step {step} is {state}; training uses the one before it")

    def _write(self, step: int, best: Mapping[str, Tensor], progress: str, begin: float) -> None:
        state = self._store(f"step-{step:010d}", self._staging.finish())
        copies = [copy for copy in self._best if copy.holds(best)]
        if len(copies) < min(self._keep, _COPIES):
            copies.append(self._store(f"best-{step:010d}", best))
        else:
            copies.append(copies.pop(0))
        self._staging.check()
        content = {
            "step": step,
            "progress": json.loads(progress),
            "state": state.document,
            "best": copies[-1].document,
        }
        document = {"format": FORMAT, "content": content, "sha256": _digest_of_json(content)}
        self._folder.put(_name(step), json.dumps(document).encode())
        self._best = copies  # not before: a copy that no document names is removed
        self.durations.append(perf_counter() - begin)
        self.newest_step = step
        self._files[step] = _files_of(content)
        self._remove_old(step)

    def _store(self, name: str, tensors: Mapping[str, Tensor]) -> Stored:
        return store(self._folder, name, tensors, writer=self._token, most=self._part_bytes)

    def _remove_old(self, step: int) -> None:
        """Keep the newest ones that can be read, with their files, and remove the rest, also that of crashed saves."""
        self._unreadable.discard(step)
        try:
            names = {name for name in self._folder.names() if _FILE.match(name)}
            kept = self._kept(names)
            for name in sorted(names - kept, key=lambda name: (not name.endswith(".json"), name)):  # documents first
                self._folder.remove(name)
        except Exception as error:  # noqa: BLE001 - whatever it is, the state of this step is saved
            self._warn(f"old checkpoints could not be removed, and use up the store: {error}")

    def _kept(self, names: Iterable[str]) -> set[str]:
        """The names of the files of the newest checkpoints that can be read."""
        known, self._files = self._files, {}
        for step in sorted(_steps(names), reverse=True):
            if step not in self._unreadable and len(self._files) < self._keep:
                try:
                    self._files[step] = known.get(step) or _files_of(_document(self._folder, step))
                except DAMAGE:
                    self._unreadable.add(step)
        return set[str]().union(*self._files.values())


class _OtherRelease(ValueError):
    """A document of another format."""


def _steps(names: Iterable[str]) -> list[int]:
    return [int(found.group(1)) for name in names if (found := _DOCUMENT.match(name))]


def _read(folder: ReadFolder, step: int) -> tuple[Checkpoint, Stored]:
    """A checkpoint, and its best weights. Raises one of DAMAGE."""
    content = _document(folder, step)
    state, best = (load(folder, content[name]) for name in ("state", "best"))
    return Checkpoint(step=step, state={**content["progress"], **state.tensors, **best.tensors}), best


def _document(folder: ReadFolder, step: int) -> dict[str, Any]:
    """The content of a document. Raises one of DAMAGE."""
    document = json.loads(folder.get(_name(step)))
    if "format" not in document or document["format"] != FORMAT:
        raise _OtherRelease(f"it is not of format {FORMAT}")
    content: dict[str, Any] = document["content"]
    if content["step"] != step or _digest_of_json(content) != document["sha256"]:
        raise ValueError("its document does not match its digest")
    return content


def _files_of(content: Mapping[str, Any]) -> frozenset[str]:
    """All files of a checkpoint."""
    tensors = (each["name"] for stored in ("state", "best") for each in content[stored]["files"])
    return frozenset((_name(content["step"]), *tensors))


def _name(step: int) -> str:
    return f"step-{step:010d}.json"


def _digest_of_json(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
