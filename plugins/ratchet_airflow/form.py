"""The trigger form: what a person may change for one run. An empty field keeps the pipeline file's value."""

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Param

from ratchet.contracts.pipeline import PipelineSpec

KEYS = {
    "window_days": "source.window_days",
    "epochs": "train.epochs",
    "learning_rate": "train.learning_rate",
    "seed": "train.seed",
}
"""The key of the pipeline file that a field of the form overrides."""


def params(spec: PipelineSpec) -> dict[str, Param]:
    """The form of a pipeline. All defaults are valid, so that a schedule can start a run without a form."""
    modes = [None, *dict.fromkeys([spec.register_.promote, "never"])]
    return {
        "date": Param(
            None,
            type=["null", "string"],
            format="date",
            title="Data date",
            description_md="The newest day of data, such as 2026-11-20. Empty: the day of the run, or yesterday.",
        ),
        "window_days": _number(
            "Window (days)", f"Days of data up to the data date. Empty: {spec.source.window_days}.", 1, 3660
        ),
        "epochs": _number("Epochs", f"Passes over the training data. Empty: {spec.train.epochs}.", 1, 10_000),
        "learning_rate": Param(
            None,
            type=["null", "number"],
            exclusiveMinimum=0,
            maximum=10,
            title="Learning rate",
            description_md=f"Step size of the optimizer. Empty: {spec.train.learning_rate:g}.",
        ),
        "seed": _number(
            "Seed", f"Random seed of the weights and of the order of rows. Empty: {spec.train.seed}.", 0, 2**31 - 1
        ),
        "promote": Param(
            None,
            type=["null", "string"],
            enum=modes,
            title="Promote",
            description_md=(
                "What happens to a better model. `auto`: promote it. `approve`: ask a person. `never`: only register "
                "it. A run can ask for no more than the file allows. "
                f"Empty: `{spec.register_.promote}`; for a backfill, or a date before "
                "that of production: `never`."
            ),
        ),
        "as_of": Param(
            None,
            type=["null", "string"],
            enum=[None, "then", "now"],
            title="Data as of",
            description_md=(
                "`then`: the data as the nightly run of that date saw it. `now`: as it is now, with later changes. "
                "Empty: `then` for a backfill, else `now`."
            ),
        ),
        "rebuild": Param(
            False,  # noqa: FBT003 - the default of a check box
            type="boolean",
            title="Rebuild",
            description_md="Run every stage again, even if its result exists.",
        ),
    }


def overrides(given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the form that override the pipeline file, by dotted key."""
    return {key: given[field] for field, key in KEYS.items() if given.get(field) is not None}


def _number(title: str, description: str, least: int, most: int) -> Param:
    return Param(None, type=["null", "integer"], minimum=least, maximum=most, title=title, description_md=description)
