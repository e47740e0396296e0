"""Copies from the host to a device that the host does not wait for."""

import torch
from torch import Tensor


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on the device. From a host it goes through pinned memory, in the order of what the device has to do.

    A plain `to` makes the host wait until a GPU has done all that it was given before.
    """
    if tensor.device == device:
        return tensor
    if device.type == "cuda" and tensor.device.type == "cpu":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=device.type != "cpu")
