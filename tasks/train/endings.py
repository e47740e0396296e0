"""How a training can end without a model, as errors that name their cause and the exit code.

A change here violates the promise of the project when exit code 75 is given for a state that was not saved.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from ratchet.contracts.errors import NoAnswer, Preempted, RatchetError, Unavailable
from ratchet.contracts.summaries import FeatureSet
from ratchet.model.description import Description
from ratchet.model.networks import Predictor
from tasks.train.data import Rows
from tasks.train.extremes import extremes
from tasks.train.precision import FP16, FP32
from tasks.train.step_losses import NotFinite
from tasks.train.stopping import SaveFailed, StopTraining

_OF_NETWORKS = "lower train.learning_rate; limit columns with min and max, or give them transform: log1p"
_OF_FP16 = f"set train.precision to bf16 or fp32; {_OF_NETWORKS}"
_OF_TREES = "lower train.model.rate; limit the label and the column of role weight with min and max"


@contextmanager
def convert_endings(
    description: Description, network: Predictor, features: FeatureSet, rows: Rows, *, precision: str = FP32
) -> Iterator[None]:
    """Raise what the stage's contract knows for what the loop raises.

    rows: those for training, then for validation. precision: in which the layers multiply at first.
    """
    try:
        yield
    except StopTraining:
        raise Preempted("training received a notice to stop and has saved its state") from None
    except SaveFailed as error:
        raise _not_saved(error) from error
    except NotFinite as error:
        days = features.of((*features.split.train, *features.split.valid))
        where = "" if error.rows is None else f", in {extremes(description, network, days, rows, error.rows)}"
        remedy = _OF_FP16 if precision == FP16 else _OF_NETWORKS
        if description.architecture.is_boosted:
            remedy = _OF_TREES
        raise RatchetError(f"{error}{where}; no such state was saved", remedy=remedy) from error


def _not_saved(error: SaveFailed) -> RatchetError:
    """69 where the store may take the state later, also marked as no answer of it; else the error's own code."""
    cause = error.__cause__
    known = cause if isinstance(cause, RatchetError) else None
    passes = NoAnswer if isinstance(cause, NoAnswer) else Unavailable
    kind = passes if isinstance(cause, OSError | Unavailable) else RatchetError
    return kind(
        f"training received a notice to stop, but {error}",
        remedy=known.remedy
        if known
        else "make room in the store, and run again: it resumes from the newest checkpoint",
    )
