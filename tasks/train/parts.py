"""Tensors in files of bounded size, each in the format of safetensors.

A tensor that is larger than a file is cut into blocks of rows, which are stored as `<name>[<first>:<end>]`. A file is
written from the memory of its tensors: nothing is copied.

Format: https://github.com/huggingface/safetensors#format
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

import torch
from safetensors import safe_open
from torch import Tensor

PART_BYTES = 256 << 20
"""Of a file, at most; one row of a tensor is never cut."""
_DTYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8",
    torch.uint64: "U64", torch.uint32: "U32", torch.uint16: "U16", torch.bool: "BOOL", torch.complex64: "C64",
    torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2",
}  # fmt: skip
_BLOCK = re.compile(r"^(.*)\[(\d+):\d+\]$", re.DOTALL)


class Output(Protocol):
    """What bytes can be written to."""

    def write(self, data: bytes | memoryview, /) -> object:
        """Write all of the bytes."""
        ...


def divide(tensors: Mapping[str, Tensor], most: int) -> list[dict[str, Tensor]]:
    """The tensors of each file, in their order. most: bytes of a file."""
    parts, size = list[dict[str, Tensor]](), 0
    for name, tensor in _blocks(tensors, most):
        if not parts or size + tensor.nbytes > most:
            parts.append({})
            size = 0
        parts[-1][name] = tensor
        size += tensor.nbytes
    return parts


def shapes_of_divided(tensors: Mapping[str, Tensor], most: int) -> dict[str, list[int]]:
    """The shapes of the tensors that are cut into blocks, by name: `join` needs them."""
    return {name: list(tensor.shape) for name, tensor in tensors.items() if _is_divided(tensor, most)}


def write(part: Mapping[str, Tensor], output: Output) -> None:
    """Write a file."""
    header, end = {}, 0
    for name, tensor in part.items():
        begin, end = end, end + tensor.nbytes
        header[name] = {"dtype": _DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    output.write(len(text).to_bytes(8, "little") + text)
    for tensor in part.values():
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        output.write(flat.view(torch.uint8).numpy().data)


def join(path: Path, shapes: Mapping[str, list[int]], into: dict[str, Tensor]) -> None:
    """Read a file. Its blocks become parts of whole tensors. Raises SafetensorError, ValueError or RuntimeError.

    The tensors are copies: the file is free afterwards.
    """
    with safe_open(path, framework="pt") as file:
        names = file.keys()
        for name in names:
            tensor = file.get_tensor(name)
            block = _BLOCK.match(name)
            if block is None or block[1] not in shapes:
                into[name] = tensor.clone()
                continue
            whole, first = block[1], int(block[2])
            if whole not in into:
                into[whole] = torch.empty(shapes[whole], dtype=tensor.dtype)
            into[whole][first : first + len(tensor)].copy_(tensor)


def _blocks(tensors: Mapping[str, Tensor], most: int) -> Iterator[tuple[str, Tensor]]:
    for name, tensor in tensors.items():
        if not _is_divided(tensor, most):
            yield name, tensor
            continue
        rows = max(1, most // (tensor.nbytes // len(tensor)))
        for first in range(0, len(tensor), rows):
            block = tensor[first : first + rows]
            yield f"{name}[{first}:{first + len(block)}]", block


def _is_divided(tensor: Tensor, most: int) -> bool:
    return tensor.nbytes > most and tensor.dim() > 0 and len(tensor) > 1
