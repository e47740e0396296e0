"""One step of a pipeline's own network and loss on a few rows, before days are read.

A change here violates the promise of the project when the trial changes what the training that follows computes.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from ratchet.contracts.errors import ConfigurationError
from ratchet.model.custom import custom_body, place_of_forward
from ratchet.model.description import Description
from ratchet.model.lists import NOTHING
from ratchet.model.networks import Network
from ratchet.model.signatures import place
from ratchet.runtime.user_code import lacks_memory, load_module
from tasks.train.body_inputs import numbers_of
from tasks.train.custom_code import locate_errors
from tasks.train.data import Rows
from tasks.train.loss_check import loss_of, refuse_other_mean
from tasks.train.losses import Loss, Mass
from tasks.train.parameter_groups import own_groups
from tasks.train.precision import FP32, Precision
from tasks.train.random_states import generator_states, restore_generators

_SIZES = (1, 1, 2, 1, 1, 2, 1, 1, 2, 6, 6)
"""Rows of each group: halves of the rows differ in their number of groups, and in the sum of their weights."""
_VOCABULARY = 3
_ALONE = 4
_CLOSE = 1e-3
"""Of the largest output: what rounding may change between a row alone and in a batch, also on a GPU."""
_STEP = 0.1


def try_own_code(
    description: Description,
    folder: Path,
    device: torch.device,
    *,
    loss: Loss,
    mass: Mass,
    weighted: bool,
    grouped: bool,
    precision: str = FP32,
) -> None:
    """Try one step of the pipeline's own network and loss on made-up rows; nothing where it has none.

    Works on a network of its own, with few categories, and leaves the random generators as they are. weighted,
    grouped: whether rows have weights, and groups. precision: in which layers multiply while they train. Raises
    ConfigurationError with file and line. Where memory runs out, training reports it.
    """
    kind = description.architecture.kind
    if ":" not in kind:
        return
    small = replace(
        description,
        categorical=tuple(replace(one, vocabulary=_VOCABULARY) for one in description.categorical),
        lists=tuple(replace(one, vocabulary=_VOCABULARY) for one in description.lists),
    )
    states = generator_states()
    with torch.random.fork_rng([device] if device.type == "cuda" else []), locate_errors(folder, kind):
        try:
            torch.manual_seed(0)
            network = Network(small, custom_body(small, folder)).to(device)
            Precision(precision).apply_to(network.body, device.type)
            rows = _made_up_rows(small, network, weighted=weighted, grouped=grouped).to(device)
            try_step(network, rows, folder, kind, loss=loss, mass=mass)
        except Exception as error:
            if not lacks_memory(error):
                raise
        finally:
            restore_generators(states)


def try_step(network: Network, rows: Rows, folder: Path, kind: str, *, loss: Loss, mass: Mass) -> float:
    """One forward and backward pass; the loss. The gradients stay in the network's parameters.

    rows: on the network's device, with the labels as the loss takes them. kind: of the model. Raises ConfigurationError
    if outputs have no gradient, a row has another output alone (its group, where the network reads groups), or the
    loss is no mean over rows.
    """
    own_groups(network.body)
    network.train()
    scores = network.scores(rows.numeric, rows.places, rows.sizes)
    if not scores.requires_grad:
        where = _place(network, folder, kind)
        raise ConfigurationError(
            f"{where}: forward returned outputs without a gradient; allowed: outputs that parameters make",
            remedy="compute them with the module's parameters, without detach, item or numpy",
        )
    module = load_module(folder, "model.py") if kind.startswith("model.py") else None
    own = getattr(module, "loss", None)
    value = loss_of(loss, scores, rows)
    _backward(value, scores, where=_place(network, folder, kind), of_loss=place(own, "model.py") if own else "")
    _refuse_sparse(network, where=_place(network, folder, kind))
    outputs = _refuse_neighbours(network, rows, _place(network, folder, kind))
    if own:
        refuse_other_mean(loss, mass, rows, outputs, where=place(own, "model.py"))
    return float(value.detach())


def _backward(value: Tensor, scores: Tensor, *, where: str, of_loss: str) -> None:
    """Compute the gradients, first of the loss and then of the network. Raises ConfigurationError if one fails.

    where, of_loss: `file:line` of the network, and of the pipeline's own loss, if it has one.
    """
    place_of_step = of_loss or where
    try:
        (gradient,) = torch.autograd.grad(value, scores, retain_graph=True, allow_unused=True)
        place_of_step = where
        if gradient is not None:
            scores.backward(gradient)  # type: ignore[no-untyped-call]  # torch has no types here
    except RuntimeError as error:
        if lacks_memory(error):
            raise
        cause = str(error).partition(". Hint: ")[0]
        raise ConfigurationError(
            f"{place_of_step}: the gradient of a step cannot be computed: {type(error).__name__}: {cause}",
            remedy="compute with float32, and change no tensor in place",
        ) from error


def _refuse_sparse(network: Network, *, where: str) -> None:
    """Refuse own parameters with a sparse gradient: AdamW and SGD with a momentum take none."""
    for name, weight in network.body.named_parameters():
        if weight.grad is not None and weight.grad.is_sparse:
            raise ConfigurationError(
                f"{where}: the gradient of {name} is sparse; allowed: dense gradients",
                remedy="make its nn.Embedding without sparse=True",
            )


def _refuse_neighbours(network: Network, rows: Rows, where: str) -> Tensor:
    """Refuse a network that gives a row another output alone than in a batch. Returns the outputs of the batch.

    One that reads groups may give it another output in another group, and none for another order of its own.
    """
    network.eval()
    with torch.no_grad():
        batch = network.scores(rows.numeric, rows.places, rows.sizes)
        if not bool(batch.any()):  # its last layer starts at zero: so does what it adds to other rows
            _step(network)
            batch = network.scores(rows.numeric, rows.places, rows.sizes)
        close = _CLOSE * float(batch.abs().max())
        for how, places in _alone(rows, of_groups=network.reads_groups):
            sizes = torch.tensor([len(places)])
            alone = network.scores(rows.numeric[places], rows.places[places], sizes)
            far = (alone - batch[places]).abs().reshape(len(places), -1).amax(1) > close
            if bool(far.any()):
                first = int(far.nonzero()[0, 0])
                own = "the row and its group, in any order" if network.reads_groups else "the row itself"
                raise ConfigurationError(
                    f"{where}: forward gives a row {_shown(alone[first])} {how} and {_shown(batch[places[first]])} in a"
                    f" batch of {len(rows)}; allowed: an output of {own}",
                    remedy=f"compute it from {own}, after eval(); a server may get no other rows",
                )
    return batch


def _alone(rows: Rows, *, of_groups: bool) -> Iterator[tuple[str, list[int]]]:
    """(in words, the places of its rows) of each part of a batch whose outputs must be those in the batch."""
    if not of_groups or rows.sizes is None:
        yield from (("alone", [row]) for row in range(min(_ALONE, len(rows))))
        return
    begin = 0
    for size in rows.sizes.tolist():
        places = list(range(begin, begin + size))
        yield "in its group alone", places
        yield "in another order of its group", places[::-1]
        begin += size


def _step(network: Network) -> None:
    """A step against the gradients, as long as those that are numbers allow."""
    for weight in network.parameters():
        if weight.grad is not None:
            weight.sub_(_STEP * weight.grad.nan_to_num(0.0).sign())


def _shown(output: Tensor) -> str:
    return f"{float(output.flatten()[0]):.4g}"


def _place(network: Network, folder: Path, kind: str) -> str:
    """`file:line` of the forward of the pipeline's own network, or of what makes it."""
    file, _, name = kind.partition(":")
    module = load_module(folder, file) if name else None
    if module is None:
        return "train.model.kind"
    return place_of_forward(network.body, file) or place(getattr(module, name), file)


def _made_up_rows(description: Description, network: Network, *, weighted: bool, grouped: bool) -> Rows:
    """Rows as training reads them; labels of a regression are standardised. Lists have from no value to all."""
    count = sum(_SIZES)
    first = network.embedding.first.cpu()
    places = first + torch.randint(0, _VOCABULARY + 1, (count, len(first)))
    begin = len(description.categorical)
    for one in description.lists:
        ends = torch.randint(0, one.length + 1, (count, 1))
        behind = torch.arange(one.length) >= ends
        places[:, begin : begin + one.length].masked_fill_(behind, NOTHING)
        begin += one.length
    numeric = torch.randn(count, len(network.preprocess.mean))
    weights = len(numbers_of(description))
    numeric[:, weights:] = numeric[:, weights:].abs()
    label = torch.arange(count) % {"binary": 2, "ranking": 3}.get(description.objective, max(description.classes, 1))
    if description.objective == "regression":
        label = torch.linspace(-1.7, 1.7, count)[
            torch.arange(count) * 7 % count
        ]  # each part has mean 0 and deviation 1, about
    return Rows(
        numeric=numeric,
        places=places,
        label=label if description.objective == "multiclass" else label.float(),
        weight=1 + torch.arange(count) / 4 if weighted else None,
        sizes=torch.tensor(_SIZES) if grouped else None,
    )
