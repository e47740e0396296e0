"""The optimizer: AdamW, with settings for each kind of parameter."""

from torch import nn

from ratchet.model.inputs import Embeddings
from tasks.train.startup import AdamW

_EPS_OF_VECTORS = 1e-3
"""Added to the root of the second moment of the vectors of categories. A rare category has tiny gradients, and Adam
with its usual 1e-8 would give each of its few rows a whole step: that is how networks learn ids by heart."""
_RATE_OF_VECTORS = 3.0
"""Their learning rate, as a multiple of that of the layers."""


def make_optimizer(network: nn.Module, *, learning_rate: float, weight_decay: float) -> AdamW:
    """Decay is for matrices alone: not for biases and scales, and not for the vectors of categories."""
    vectors = [
        weight for module in network.modules() if isinstance(module, Embeddings) for weight in module.parameters()
    ]
    ours = {id(weight) for weight in vectors}
    others = [weight for weight in network.parameters() if id(weight) not in ours]
    groups = [
        {"params": [weight for weight in others if weight.dim() > 1], "weight_decay": weight_decay, "factor": 1.0},
        {"params": [weight for weight in others if weight.dim() <= 1], "weight_decay": 0.0, "factor": 1.0},
        {"params": vectors, "weight_decay": 0.0, "eps": _EPS_OF_VECTORS, "factor": _RATE_OF_VECTORS},
    ]
    return AdamW([group for group in groups if group["params"]], lr=learning_rate, fused=True)


def set_learning_rate(optimizer: AdamW, rate: float) -> None:
    """Set the learning rate of the layers, and the others by it."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["factor"]
