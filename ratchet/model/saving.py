"""A trained network as the bytes of a model, and their identity. `model.load` is the way back.

Training ends here, so nothing of this needs pandas, which takes a fifth of the time that a small training starts in.
"""

import hashlib
from dataclasses import replace
from pathlib import Path

from safetensors.torch import save as save_tensors
from torch import Tensor

from ratchet.contracts import bundle
from ratchet.contracts.fingerprint import digest_of
from ratchet.model.description import Description, to_json
from ratchet.model.hashing import probe
from ratchet.model.networks import Predictor


def dump(description: Description, network: Predictor) -> tuple[bytes, bytes, Description]:
    """(weights, description, description) as bytes and as it is then.

    It names the weights that belong to it, and the group column only where the layers ask for groups.
    """
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
    weights = save_tensors(_apart(state))
    group = description.group if network.reads_groups else None
    named = replace(description, group=group, ids=probe(), weights=hashlib.sha256(weights).hexdigest())
    return weights, to_json(named), named


def _apart(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tensors that share memory with none before them: of a parameter under two names, each name keeps its values.

    Loading fills both names with the same values, and the module ties them again when it is built.
    """
    seen: set[int] = set()
    found = {}
    for name, tensor in state.items():
        memory = tensor.untyped_storage().data_ptr()
        found[name] = tensor.clone() if memory in seen else tensor
        seen.add(memory)
    return found


def digest_of_model(weights: bytes, description: bytes) -> str:
    """The identity of a model: sha256 over its weights' digest and its description."""
    return hashlib.sha256(hashlib.sha256(weights).digest() + description).hexdigest()


def code_digest(folder: Path) -> str:
    """Sha256 over the files of a pipeline's folder and their names."""
    return digest_of(bundle.digests(folder))
