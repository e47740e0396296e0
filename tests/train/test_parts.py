"""Tensors in files of bounded size come back to the bit, and safetensors reads each file."""

from io import BytesIO
from pathlib import Path

import pytest
import torch
from safetensors.torch import load, load_file
from torch import Tensor

from tasks.train import parts
from tasks.train.stripes import Reading

TENSORS = {
    "large": torch.arange(3000, dtype=torch.float32).reshape(1000, 3),
    "scalar": torch.tensor(7.0),
    "empty": torch.zeros(0, 3),
    "half": torch.randn(5, 5, generator=torch.Generator().manual_seed(0)).bfloat16(),
    "turned": torch.arange(12).reshape(3, 4).T,
    "flags": torch.tensor([True, False]),
    "name[0:9]": torch.ones(9, dtype=torch.uint8),
    "wide": torch.ones(1, 2000),
    "long": torch.arange(997, dtype=torch.int64),
}


def stored(part: dict[str, Tensor]) -> bytes:
    buffer = BytesIO()
    parts.write(part, buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("most", [1, 100, 4096, 1 << 20])
def test_tensors_come_back_to_the_bit_whatever_the_size_of_a_file(most: int, tmp_path: Path) -> None:
    divided = parts.divide(TENSORS, most)
    found, left = dict[str, Tensor](), dict[str, int]()
    for number, part in enumerate(divided):
        rows = [tensor.nbytes for tensor in part.values()]
        assert sum(rows) <= most or len(rows) == 1
        path = tmp_path / f"{number}.safetensors"
        path.write_bytes(stored(part))
        Reading().join(path, parts.shapes_of_divided(TENSORS, most), found, left)
        path.write_bytes(b"")  # what was read does not need the file
    assert found.keys() == TENSORS.keys()
    assert not any(left.values())
    for name, tensor in TENSORS.items():
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape)
        assert torch.equal(found[name], tensor)


def test_safetensors_reads_the_same_from_a_file(tmp_path: Path) -> None:
    (part,) = parts.divide(TENSORS, 1 << 20)
    path = tmp_path / "part.safetensors"
    path.write_bytes(stored(part))
    for found in (load_file(path), load(path.read_bytes())):
        assert found.keys() == TENSORS.keys()
        assert all(torch.equal(found[name], tensor) for name, tensor in TENSORS.items())
