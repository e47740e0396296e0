"""The code of a pipeline in a training: the function `loss` of its model.py, and the errors of its file."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path

from torch import Tensor

from ratchet.contracts.errors import ConfigurationError
from ratchet.model.custom import located
from ratchet.model.signatures import described, fits, place
from ratchet.runtime.user_code import blame, is_fault, load_module
from tasks.train.losses import LOSSES, MASSES, Loss, Mass, mass_of_rows, of_members

_CODE = "model.py"
_CALL = "loss(scores, labels, weights, groups)"


def load_loss(objective: str, kind: str, folder: Path) -> tuple[Loss, Mass]:
    """The loss, and the mass that it is a mean over. A loss of model.py is taken to be a mean over rows.

    kind: of the model; model.py is read where it starts with that name. folder: the pipeline's. Raises
    ConfigurationError if the function takes other arguments.
    """
    module = load_module(folder, _CODE) if kind.startswith(_CODE) else None
    custom = getattr(module, "loss", None)
    if custom is None:
        loss = LOSSES[objective]
        return of_members(loss) if kind == "tabm" else loss, MASSES[objective]
    fits(custom, _CALL, (None,) * 4, place(custom, _CODE))
    return _checked(custom, folder), mass_of_rows


@contextmanager
def locate_errors(folder: Path, kind: str) -> Iterator[None]:
    """Raise ConfigurationError, with file and line, for an error that the file of the pipeline's own network raised."""
    file, _, name = kind.partition(":")
    try:
        yield
    except BaseException as error:
        cause = located(error, folder, file) if name and is_fault(error) else None
        if cause is None:
            raise
        raise ConfigurationError(cause, remedy=f"correct {file}") from error


def _checked(custom: Callable[..., object], folder: Path) -> Loss:
    """A loss that raises ConfigurationError, with the line in model.py, if the function fails or returns no scalar."""
    where = place(custom, _CODE)

    @wraps(custom)
    def loss(scores: Tensor, label: Tensor, weight: Tensor | None, group: Tensor | None) -> Tensor:
        try:
            value = custom(scores, label, weight, group)
        except BaseException as error:
            if not is_fault(error):
                raise
            raise ConfigurationError(blame(error, folder, _CODE), remedy=f"correct loss in {_CODE}") from error
        if not isinstance(value, Tensor) or value.dim():
            raise ConfigurationError(
                f"{where}: loss returned {described(value)}; allowed: a tensor with one number",
                remedy="return the mean over the rows",
            )
        if scores.requires_grad and not value.requires_grad:
            raise ConfigurationError(
                f"{where}: loss returned a number without a gradient",
                remedy="compute it from scores, without detach, item or numpy",
            )
        return value

    return loss
