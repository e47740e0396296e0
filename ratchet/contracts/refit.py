"""A refit: a model whose recipe was measured, and that is trained once more on more days, to be shipped.

A change here violates the promise of the project when a refit is stored, shown or loaded as the model that was
measured.
"""

from collections.abc import Mapping

from pydantic import Field

from ratchet.contracts.document import Document
from ratchet.contracts.result import Sha256


class Refit(Document):
    """The comparison of a refit with the model that was measured: not a proof, but a guard against an accident.

    loss: of the last epoch, on the training rows of each. score: the metric that decides, on the held-out days, which
    the refit was trained on and the measured model was not; None where it has no value.
    """

    of: Sha256 = Field(description="The digest of the measured model, whose recipe it repeats.")
    loss: float
    measured_loss: float
    metric: str
    score: float | None
    measured_score: float | None
    refused: str = Field("", description="Why it may not be shipped: the outcome's name and a sentence.")


def maker(manifests: Mapping[str, str]) -> str:
    """The key of the manifest with the files of a model: that of its refit, if it is one.

    manifests: keys by stage, of the run that made the model. Raises KeyError if its training is not among them.
    """
    return manifests.get("refit") or manifests["train"]
