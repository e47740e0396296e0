"""The loss of a pipeline: that of its objective, or the function `loss` of its model.py."""

from collections.abc import Callable
from pathlib import Path

from torch import Tensor

from ratchet.contracts.errors import ConfigurationError
from ratchet.runtime.user_code import blame, load_module
from tasks.train.losses import LOSSES, MASSES, Loss, Mass, mass_of_rows
from tasks.train.memory import is_out_of_memory

_CODE = "model.py"


def load_loss(objective: str, kind: str, folder: Path) -> tuple[Loss, Mass]:
    """The loss, and the mass that it is a mean over. A loss of model.py is taken to be a mean over rows.

    kind: of the model; model.py is read where it starts with that name. folder: the pipeline's.
    """
    module = load_module(folder, _CODE) if kind.startswith(_CODE) else None
    custom = getattr(module, "loss", None)
    if custom is None:
        return LOSSES[objective], MASSES[objective]
    return _check(custom, folder), mass_of_rows


def _check(custom: Callable[..., object], folder: Path) -> Loss:
    """A loss that raises ConfigurationError, with the line in model.py, if the function fails or returns no scalar."""

    def loss(scores: Tensor, label: Tensor, weight: Tensor | None, group: Tensor | None) -> Tensor:
        try:
            value = custom(scores, label, weight, group)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            raise ConfigurationError(blame(error, folder, _CODE), remedy=f"fix loss in {_CODE}") from error
        if not isinstance(value, Tensor) or value.dim():
            raise ConfigurationError(f"{_CODE}: loss returned {value!r:.80}", remedy="return a tensor with one number")
        return value

    return loss
