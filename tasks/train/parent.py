"""The parent of a training, as the request names it: its weights, and what is said of it.

A change here violates the promise of the project when weights are taken whose digest is not that of the request.
"""

from dataclasses import asdict

from safetensors.torch import load as load_tensors

from ratchet.contracts.parent import WarmStart
from ratchet.model.description import Description, from_json
from ratchet.model.networks import Network
from ratchet.runtime.context import StageContext
from ratchet.store.artifacts import read_bytes
from tasks.train.warm_start import warm_start


def begin_with_parent(ctx: StageContext, network: Network, description: Description) -> WarmStart | None:
    """Copy what fits of the parent's weights into a network; None, and its weights as they are, without a parent.

    network: on the host, fitted. The log says what was copied, or why nothing was although a champion was asked for.
    Raises CorruptArtifact if the parent is damaged or gone since the run was planned.
    """
    parent = ctx.request.parent
    if parent is None:
        if ctx.request.fresh:
            ctx.log.event("init", f"begins with random weights: {ctx.request.fresh}", level="warning")
        return None
    weights = load_tensors(read_bytes(ctx.store, parent.weights))
    copied = warm_start(network, description, weights, from_json(read_bytes(ctx.store, parent.description)))
    begun = WarmStart(parent=parent, **asdict(copied))
    ctx.log.event("init", f"begins with {parent.title}: {begun.in_words}", parent=parent.digest)
    return begun
