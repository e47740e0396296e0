"""A device that the host has to wait for, on any machine: real numbers, and a note of each wait.

Its tensors say that they are on torch's meta device, so the host's code takes them for those of an accelerator. What
makes the host wait on a GPU is noted: an answer that depends on numbers (`item`, `nonzero`, a boolean mask), a copy to
the host, a copy from it that is not `non_blocking`, and a tensor of the host among those of the device, such as an
index. Two things of a GPU are not seen: whether the memory of a copy is pinned, and what a kernel waits for by itself.
The sum of the rows of a sparse gradient is such a kernel, and is noted by its name.
"""

from traceback import extract_stack
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

FAR = torch.device("meta")
_HOST = torch.device("cpu")
_ANSWERS = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
_COPIES = ("_to_copy", "copy_")


class FarTensor(Tensor):
    """A tensor of the far device. near: its numbers, in the host's memory."""

    near: Tensor

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(f"{func} where the far device is not entered")


class FarDevice(TorchDispatchMode):
    """While it is entered, tensors may be on FAR. waits: what the host waited for, `operator (file, function)`."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given, shape = tree_flatten((args, kwargs or {}))
        far = {id(each.near): each for each in given if isinstance(each, FarTensor)}
        hosts = [each for each in given if isinstance(each, Tensor) and not isinstance(each, FarTensor)]
        devices = [each for each in given if isinstance(each, torch.device)]
        if any(each.device == FAR for each in hosts):  # torch has copied a list, and left out its numbers
            raise AssertionError(f"{_place()}: a list is the index of a tensor of the device")
        if not far and FAR not in devices:
            return func(*args, **(kwargs or {}))
        name = func._schema.name.removeprefix("aten::")
        named = dict(zip((each.name for each in func._schema.arguments), args, strict=False)) | (kwargs or {})
        if _waits(func, name, named, hosts, to_host=_HOST in devices):
            self.waits.append(f"{name} ({_place()})")
        near_args, near_kwargs = tree_unflatten([_near(each) for each in given], shape)
        out = func(*near_args, **near_kwargs)
        if _HOST in devices or (name in _COPIES and hosts and named.get("self") is hosts[0] and not devices):
            return out
        return tree_map_only(Tensor, lambda each: far[id(each)] if id(each) in far else _far(each), out)


def _far(near: Tensor) -> FarTensor:
    like = near.detach()
    if near.is_sparse:
        empty = like.to(FAR)
    else:
        empty = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=FAR)
    made: FarTensor = Tensor._make_subclass(FarTensor, empty)
    made.near = near
    return made


def _near(value: Any) -> Any:
    if isinstance(value, FarTensor):
        return value.near
    return _HOST if isinstance(value, torch.device) and value == FAR else value


def _waits(func: Any, name: str, named: dict[str, Any], hosts: list[Tensor], *, to_host: bool) -> bool:
    if name in _COPIES:
        into_host = to_host or any(named.get("self") is each for each in hosts if name == "copy_")
        return into_host or (bool(hosts) and not named.get("non_blocking"))
    if name == "index":
        masks = [each for each in named["indices"] if each is not None and each.dtype in (torch.bool, torch.uint8)]
        return bool(masks) or bool(hosts)
    if name == "repeat_interleave":
        return named.get("output_size") is None
    is_answer = not _ANSWERS.isdisjoint(func.tags) or name == "_coalesce"
    return is_answer or any(each.dim() > 0 for each in hosts)


def _place() -> str:
    ours = [each for each in extract_stack() if "/tasks/" in each.filename or "/ratchet/" in each.filename]
    return f"{ours[-1].filename.rpartition('/')[2]}, {ours[-1].name}" if ours else "test"
