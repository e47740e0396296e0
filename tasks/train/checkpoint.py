"""The state of a training, saved so that a crash at any moment leaves a whole one, and resumed to the same bits.

A checkpoint is tensors (safetensors) and a JSON document that names their sha256. The document is written last: without
it the tensors do not exist. Nothing is pickled.

A change here violates the promise of the project when a damaged checkpoint is resumed from, or the last good one can be
lost while another is written.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

_DOCUMENT = re.compile(r"^step-(\d{10})\.json$")


class Shelf(Protocol):
    """Where checkpoints lie: whole files by plain name, durable when `put` returns."""

    def put(self, name: str, data: bytes) -> None:
        """Write a file."""
        ...

    def get(self, name: str) -> bytes:
        """Read a file. Raises FileNotFoundError."""
        ...

    def names(self) -> Iterable[str]:
        """All files."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        ...


@dataclass(frozen=True, kw_only=True)
class Saved:
    """step: steps done. progress: epoch, history, best and so on, as JSON. tensors: model, optimizer, RNG."""

    step: int
    progress: Mapping[str, Any]
    tensors: Mapping[str, Tensor]


class Checkpoints:
    """Saves in the background, one at a time; keeps the newest `keep`. A failed save is told, and training goes on."""

    def __init__(self, shelf: Shelf, *, keep: int, warn: Callable[[str], None]) -> None:
        self._shelf = shelf
        self._keep = keep
        self._warn = warn
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._pending: Future[None] | None = None
        self.stalls: list[float] = []
        """Seconds that the loop waited for each save."""

    def save(self, saved: Saved) -> None:
        """Copy the state, and write the copy while training goes on."""
        begin = perf_counter()
        self.wait()
        tensors = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in saved.tensors.items()}
        copy = Saved(step=saved.step, progress=json.loads(json.dumps(saved.progress)), tensors=tensors)
        self._pending = self._pool.submit(self._write, copy)
        self.stalls.append(perf_counter() - begin)

    def wait(self) -> bool:
        """Wait for the save that is under way; whether it succeeded. What failed is told, not raised."""
        pending, self._pending = self._pending, None
        if pending is None:
            return True
        error = pending.exception()
        if error is not None:
            self._warn(f"a checkpoint could not be saved, training goes on: {error}")
        return error is None

    def close(self) -> None:
        """Finish what is under way."""
        self.wait()
        self._pool.shutdown()

    def newest(self) -> Saved | None:
        """The newest checkpoint that is whole; damaged ones are told and passed over."""
        for step in sorted(self._steps(), reverse=True):
            try:
                return self._read(step)
            except (ValueError, KeyError, FileNotFoundError, SafetensorError) as error:
                self._warn(f"checkpoint of step {step} is damaged ({error}); the one before it is used")
        return None

    def _steps(self) -> list[int]:
        return [int(found.group(1)) for name in self._shelf.names() if (found := _DOCUMENT.match(name))]

    def _read(self, step: int) -> Saved:
        document = json.loads(self._shelf.get(f"step-{step:010d}.json"))
        body = json.dumps(document["progress"], sort_keys=True).encode()
        data = self._shelf.get(f"step-{step:010d}.safetensors")
        if hashlib.sha256(body).hexdigest() != document["progress_sha256"]:
            raise ValueError("its document does not match its digest")
        if hashlib.sha256(data).hexdigest() != document["tensors_sha256"]:
            raise ValueError("its tensors do not match their digest")
        return Saved(step=step, progress=document["progress"], tensors=load_tensors(data))

    def _write(self, saved: Saved) -> None:
        data = save_tensors(dict(saved.tensors))
        body = json.dumps(saved.progress, sort_keys=True).encode()
        document = {
            "progress": saved.progress,
            "progress_sha256": hashlib.sha256(body).hexdigest(),
            "tensors_sha256": hashlib.sha256(data).hexdigest(),
        }
        self._shelf.put(f"step-{saved.step:010d}.safetensors", data)
        self._shelf.put(f"step-{saved.step:010d}.json", json.dumps(document).encode())
        for old in sorted(self._steps())[: -self._keep]:
            self._shelf.remove(f"step-{old:010d}.json")
            self._shelf.remove(f"step-{old:010d}.safetensors")


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """An optimizer's state as flat tensors, `optimizer.<parameter number>.<name>`."""
    return {
        f"optimizer.{number}.{name}": value if isinstance(value, Tensor) else torch.tensor(value)
        for number, state in optimizer.state_dict()["state"].items()
        for name, value in state.items()
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put back what `optimizer_tensors` took."""
    whole = optimizer.state_dict()
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        first, _, rest = key.partition(".")
        if first == "optimizer":
            number, _, name = rest.partition(".")
            state.setdefault(int(number), {})[name] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": whole["param_groups"]})
