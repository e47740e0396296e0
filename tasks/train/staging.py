"""A copy of the weights and the optimizer's state, taken while the next step computes its gradients.

Both change only when the weights are updated, so a step waits for the copy before its update, not before its forward
pass. The copy is in memory that is allocated once: pinned where the tensors are on a GPU, which copies on a stream of
its own. What may change earlier, such as the buffers of a network, is copied at once.

A change here violates the promise of the project when a saved bit is not one of the step that it is saved for.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, nullcontext
from operator import attrgetter
from threading import Event

import torch
from torch import Tensor

_changes = attrgetter("_version")
"""How often a tensor was changed in place, as torch counts it."""


class Staging:
    """One copy at a time: `begin` in the thread of the loop, `finish` in another, `wait` before the next update.

    is_due: whether the next update has to `wait`.
    """

    def __init__(self) -> None:
        self.is_due = False
        self._buffers: dict[str, Tensor] = {}
        self._pending: dict[str, tuple[Tensor, int]] = {}
        self._moving: set[str] = set()
        self._changed: set[str] = set()
        self._copied = Event()
        self._copied.set()
        self._gpu: torch.device | None = None
        self._stream: torch.cuda.Stream | None = None
        self._event: torch.cuda.Event | None = None

    def begin(self, tensors: Mapping[str, Tensor], *, moving: AbstractSet[str]) -> None:
        """Begin a copy. moving: the names of those that may change before the next update."""
        self._changed = set()
        self._pending = {}
        self._buffers = {name: self._buffer(name, tensor) for name, tensor in tensors.items()}
        self._gpu = next((tensor.device for tensor in tensors.values() if tensor.is_cuda), None)
        for name, tensor in tensors.items():
            if name in moving or name in self._moving or (self._gpu is not None and not tensor.is_cuda):
                self._buffers[name].copy_(tensor.detach(), non_blocking=True)
            else:
                self._pending[name] = (tensor.detach(), _changes(tensor))
        self._copied.clear()
        if self._gpu is not None:
            self._prepare_stream(self._gpu)
        self.is_due = True

    def finish(self) -> dict[str, Tensor]:
        """Complete the copy, and return it. Raises RuntimeError if a tensor changed before it was copied."""
        try:
            if self._stream is not None and self._event is not None:
                self._copy_on(self._stream, self._event)
                self._copied.set()
                self._event.synchronize()
            else:
                for name, (tensor, _) in self._pending.items():
                    self._buffers[name].copy_(tensor)
                self._note_changes()  # not on a GPU: there the update may have begun
        finally:
            self._copied.set()
        self.check()
        return self._buffers

    def check(self) -> None:
        """Raises RuntimeError if a tensor changed before it was copied; from the next copy on it is copied at once."""
        if self._changed:
            some = ", ".join(sorted(self._changed)[:3])
            raise RuntimeError(f"{some} changed while it was copied; from now on training waits for its copy")

    def wait(self) -> None:
        """Before the weights are updated: let the copy end. On a GPU the update waits for it, and this process not."""
        if not self.is_due:
            return
        self.is_due = False
        self._copied.wait()  # on a GPU: until it is asked for the copy
        if self._event is not None:
            torch.cuda.current_stream(self._gpu).wait_event(self._event)
        self._note_changes()
        self._pending = {}

    def beside(self) -> AbstractContextManager[object]:
        """Meanwhile what is copied from a GPU is copied beside what the training has it do."""
        return nullcontext() if self._stream is None else torch.cuda.stream(self._stream)

    def _note_changes(self) -> None:
        """Find what a forward pass changed in place."""
        changed = {name for name, (tensor, before) in self._pending.items() if _changes(tensor) != before}
        self._changed |= changed
        self._moving |= changed

    def _buffer(self, name: str, tensor: Tensor) -> Tensor:
        found = self._buffers.get(name)
        if found is None or found.shape != tensor.shape or found.dtype != tensor.dtype:
            return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
        return found

    def _prepare_stream(self, device: torch.device) -> None:
        """Let the stream of the copy begin when the GPU has done what it was given so far."""
        self._stream = self._stream or torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch has no types here
        self._stream.wait_stream(torch.cuda.current_stream(device))
        self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]  # the same

    def _copy_on(self, stream: torch.cuda.Stream, event: torch.cuda.Event) -> None:
        with torch.cuda.stream(stream):
            for name, (tensor, _) in self._pending.items():
                self._buffers[name].copy_(tensor, non_blocking=True)
            event.record(stream)
