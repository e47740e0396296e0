"""The one place that knows which kind of model is made of what."""

from pathlib import Path

from ratchet.model.boosted import Boosted
from ratchet.model.custom import custom_body
from ratchet.model.description import Description
from ratchet.model.networks import Network, Predictor


def make_model(description: Description, folder: Path) -> Predictor:
    """A model that was not trained. folder: the pipeline's, which holds its own code."""
    if description.architecture.is_boosted:
        return Boosted(description)
    return Network(description, custom_body(description, folder))
