"""The registered model: MLflow runs this file when it loads one ("models from code"; nothing is unpickled).

It only hands rows to ratchet.model, which comes with the model, so what is served scores as evaluation did.
"""

from pathlib import Path

from mlflow.models import set_model
from mlflow.pyfunc import PythonModel, PythonModelContext

ARTIFACT = "trained"


class RatchetModel(PythonModel):  # type: ignore[misc] # MLflow's types are not looked at
    """Scores raw rows."""

    # MLflow takes type hints on predict for a promise about single rows; the signature says what rows look like.
    _skip_type_hint_validation = True

    def load_context(self, context: PythonModelContext) -> None:
        """Load the weights, the description and the pipeline's code that were registered."""
        from ratchet.model.scoring import load

        self.model = load(Path(context.artifacts[ARTIFACT]))

    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201, ARG002
        """Scores of a data frame of raw rows: [rows], for multiclass [rows, classes]."""
        return self.model.score(model_input)


set_model(RatchetModel())
