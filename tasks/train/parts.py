"""Tensors to files of bounded size, each in the format of safetensors.

A tensor that is larger than a file is cut into blocks of rows, which are stored as `<name>[<first>:<end>]`. A file is
written from the memory of its tensors: nothing is copied.

Format: https://github.com/huggingface/safetensors#format
"""

import json
from collections.abc import Iterator, Mapping
from typing import Protocol

import torch
from torch import Tensor

PART_BYTES = 256 << 20
"""Of a file, at most; one row of a tensor is never cut."""
_DTYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8",
    torch.uint64: "U64", torch.uint32: "U32", torch.uint16: "U16", torch.bool: "BOOL", torch.complex64: "C64",
    torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2",
}  # fmt: skip


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
    """The shapes of the tensors that are cut into blocks, by name: `Reading.join` needs them."""
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
