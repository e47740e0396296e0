"""The trigger form: what a person may change for one run. An empty field keeps the pipeline file's value."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from airflow.sdk import Param

from ratchet.contracts.dates import parse_date
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.gate import Promote
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.request import RunKind

LATEST = "latest"
"""What `promote` of a backfill may ask for beside the modes of a run."""

KEYS = {
    "window_days": "source.window_days",
    "epochs": "train.epochs",
    "learning_rate": "train.learning_rate",
    "seed": "train.seed",
}
"""The key of the pipeline file that a field of the form overrides."""


def params(spec: PipelineSpec) -> dict[str, Param]:
    """The form of a pipeline. All defaults are valid, so that a schedule can start a run without a form."""
    allowed = spec.register_.promote
    modes = [None, *dict.fromkeys([allowed, "never", *([LATEST] if allowed != "never" else [])])]
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
        "epochs": _number("Epochs", f"Passes over the training data, at most. Empty: {spec.train.epochs}.", 1, 10_000),
        "learning_rate": Param(
            None,
            type=["null", "number"],
            exclusiveMinimum=0,
            maximum=10,
            title="Learning rate",
            description_md=f"Step size of the optimizer. Empty: {spec.train.rates[0]:g}.",
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
                "it. `latest`, for a backfill: the newest date may do what the file allows, and the others are judged "
                "along their own winners. A run can ask for no more than the file allows. "
                f"Empty: `{spec.register_.promote}`; for a backfill, or a date before "
                "that of production: `never`."
            ),
        ),
        "latest": Param(
            None,
            type=["null", "string"],
            format="date",
            title="Newest date of the backfill",
            description_md="With `promote` = `latest`: the one date that may promote, such as 2026-10-30.",
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


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the form asks for about promotion. mode: None for the file's. latest: whether it is the date of `latest`."""

    mode: Promote | None
    latest: bool = False


def promotion(given: Mapping[str, Any], kind: RunKind, data_date: date, allowed: Promote) -> Asked:
    """The promotion that a form asks for. allowed: `register.promote` of the file, which no form raises.

    Raises ConfigurationError for `latest` without its date, for a date after it, or outside a backfill: Airflow does
    not say to a task which dates its backfill has, so that a person has to name the newest.
    """
    mode, newest = given.get("promote"), given.get("latest")
    if mode != LATEST:
        if newest is not None:
            raise ConfigurationError(f"latest is {newest}, and promote is not latest", remedy="set both, or neither")
        return Asked(mode=mode)
    if kind != "backfill":
        raise ConfigurationError(
            "promote latest is for a backfill", remedy="leave promote empty, or set it to what one date may do"
        )
    if newest is None or data_date > (last := parse_date(str(newest), "latest")):
        which = "its newest date is not given" if newest is None else f"{data_date} is after latest, {newest}"
        raise ConfigurationError(
            f"promote latest: {which}",
            remedy='name the newest date of the backfill: {"promote": "latest", "latest": "YYYY-MM-DD"}',
        )
    if allowed == "never":  # the form does not offer it; a conf is refused by what the file allows
        raise ConfigurationError(
            "promote latest: register.promote is never, and a single run may not ask for more",
            remedy="change register.promote in pipeline.yaml",
        )
    return Asked(mode=allowed if data_date == last else "never", latest=data_date == last)


def _number(title: str, description: str, least: int, most: int) -> Param:
    return Param(None, type=["null", "integer"], minimum=least, maximum=most, title=title, description_md=description)
