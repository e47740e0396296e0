"""How a training ends on a notice to stop."""

from typing import NoReturn

from tasks.train.checkpoint import Checkpointer


class StopTraining(Exception):
    """The loop received a notice to stop, and has saved its state."""


class SaveFailed(Exception):
    """The loop received a notice to stop, and could not save its state; the cause is the error of the save."""


def end_after_save(checkpointer: Checkpointer, state: str) -> NoReturn:
    """End after the save in progress, of a `state`. Raises StopTraining if it succeeds, otherwise SaveFailed."""
    error = checkpointer.close()
    if error is None:
        raise StopTraining
    newest = checkpointer.newest_step
    left = "there is no earlier checkpoint" if newest is None else f"the newest checkpoint is that of step {newest}"
    raise SaveFailed(f"the state of {state} could not be saved: {error}; {left}") from error
