"""The keys that decide how a candidate is measured, when it replaces the champion, and where it is registered."""

import re
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, Field

from ratchet.contracts.document import Document
from ratchet.contracts.losses import LossKey
from ratchet.contracts.quantities import Duration, Fraction, Memory
from ratchet.contracts.slices import SliceKey
from ratchet.contracts.training import Objective

METRICS: dict[Objective, tuple[str, ...]] = {
    "ranking": ("ndcg@K", "mrr@K", "map@K", "precision@K", "recall@K", "auc", "logloss"),
    "binary": ("auc", "pr_auc", "logloss", "brier", "ece"),
    "regression": ("rmse", "mae", "r2", "pinball@Q"),
    "multiclass": ("accuracy", "macro_f1", "logloss"),
}
"""The metrics that are shown for an objective, logloss of a ranking in documents of before."""
DECISIVE: dict[Objective, tuple[str, ...]] = {
    **METRICS,
    "ranking": ("ndcg@K", "mrr@K", "map@K", "precision@K", "recall@K"),
}
"""The metrics that may decide. A listwise loss fixes the order in a group; the level of its scores is left open."""
DEFAULT_METRIC: dict[Objective, str] = {
    "ranking": "ndcg@10",
    "binary": "auc",
    "regression": "rmse",
    "multiclass": "accuracy",
}
Promote = Literal["auto", "approve", "never"]
_LOWER_IS_BETTER = frozenset({"logloss", "brier", "ece", "rmse", "mae", "pinball@Q"})
NAME = r"^[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*$"


_OWN = re.compile(r"(metric\.py):([A-Za-z_]\w*)(:lower)?")


class OwnMetric(NamedTuple):
    """A function of the pipeline's folder that is a metric, as `metric.py:NAME` names it."""

    file: str
    function: str


def own_metric(metric: str) -> OwnMetric | None:
    """The function that a metric names, or None for a metric of ours."""
    found = _OWN.fullmatch(metric)
    return OwnMetric(found[1], found[2]) if found else None


def lower_is_better(metric: str) -> bool:
    """Whether a lower value of a metric is better; of the pipeline's own metric, whether its name ends in `:lower`."""
    return metric.endswith(":lower") or family(metric) in _LOWER_IS_BETTER


def family(metric: str) -> str:
    """The family of a metric: `ndcg@10` -> `ndcg@K`, `pinball@0.9` -> `pinball@Q`; without @ the metric itself."""
    return re.sub(r"@0\.\d{1,4}$", "@Q", re.sub(r"@[1-9]\d{0,3}$", "@K", metric))


def _known_metric(metric: str) -> str:
    if own_metric(metric):
        return metric
    known = sorted({name for names in METRICS.values() for name in names})
    if family(metric) not in known or metric.endswith(("@K", "@Q")) or re.search(r"@0\.0+$", metric):
        raise ValueError(
            f"{metric!r} is not a metric; allowed: {', '.join(known)} (K a number, as in ndcg@10; Q between 0 and 1, as"
            " in pinball@0.9), or a function of the pipeline's folder, as in metric.py:revenue"
        )
    return metric


class Evaluate(Document):
    """The measurement on the held-out days."""

    metric: Annotated[str, AfterValidator(_known_metric)] | None = Field(
        None,
        description="The metric that decides, such as ndcg@10. The default depends on the objective: ndcg@10, auc, "
        "rmse or accuracy. metric.py:NAME is a function of the pipeline's folder, of which more is better; "
        "metric.py:NAME:lower one of which less is.",
    )
    holdout_days: int = Field(
        1, ge=1, le=365, description="How many of the newest days are held out. The candidate is not trained on them."
    )
    cluster: str | None = Field(
        None,
        description="A column whose equal values mark rows that vary together, such as the user of a payment or of a "
        "query, on all held-out days. Such rows count as one observation. Any column may be named, one with role id or "
        "ignore too. The default is the column with role group; without one each row is an observation.",
    )
    slices: tuple[SliceKey, ...] = Field(
        (),
        description="Parts of the held-out rows, none of which may lose more than gate.max_slice_loss: a column, for "
        "each of its values; `{column: price, bins: 4}`, for bins of a number with about as many rows each, or with "
        'the inner edges `bins: [10, 50]`; `{where: \'price > 100 and country in ["DE", "FR"]\'}`, for the rows that '
        "an expression chooses. Any column but label and weight, also of role id or ignore. Metrics of ranks judge "
        "a slice by the whole groups that have a row in it.",
    )


MetricName = Annotated[str, AfterValidator(_known_metric)]
Unproven = Literal["block", "warn"]


class Gate(Document):
    """A candidate is promoted if the lower bound of its relative gain is above min_gain, and no guard rail holds it."""

    min_gain: Fraction = Field(
        0.0,
        description="The relative gain over the champion that the lower bound must exceed; of a first model, over a "
        "constant and over a table of mean labels.",
    )
    confidence: Fraction = Field(
        0.95,
        description="The confidence of the one-sided lower bound, 50% to 99.99%. All attempts at the same held-out "
        "days share its error.",
    )
    max_slice_loss: Fraction = Field(0.02, description="The largest relative loss allowed in any slice.")
    unproven_slices: Unproven = Field(
        "warn",
        description="What follows if a slice neither surely keeps to max_slice_loss nor surely breaks it: warn "
        "promotes and says so, block does not promote.",
    )
    guards: dict[MetricName, LossKey] = Field(
        default_factory=dict,
        description="Other metrics, and the largest loss allowed in each: a share of the champion's value, or "
        "`{absolute: 0.005}`.",
    )
    max_latency: float | None = Field(
        None, gt=0, le=1000, description="How many times the champion's time the candidate may take to score a batch."
    )
    max_size: float | None = Field(
        None, gt=0, le=1000, description="How many times as large as the champion's files the candidate's may be."
    )
    unproven_guards: Unproven = Field(
        "block",
        description="What follows if guards or max_latency is neither surely kept nor surely broken: as "
        "unproven_slices.",
    )
    floors: dict[MetricName, float] = Field(
        default_factory=dict,
        description="Metrics, and the worst value allowed in each, also of a first model. The bound of the candidate's "
        "own value must be better.",
    )
    stale_after: Duration | None = Field(
        None,
        description="The age of the champion's data, at least 1d, from which a candidate only has to be not worse: the "
        "lower bound must be above minus max_stale_loss. Of a champion that a person put into production (rollback, "
        "promote), the days since then, where these are fewer. Without it, never.",
    )
    max_stale_loss: Fraction = Field(
        0.01, description="The largest relative loss against a champion that is stale, at most 10%."
    )
    unmeasurable_after: int = Field(
        3, ge=1, le=365, description="The nights after which a champion that cannot be measured needs a person."
    )


class Register(Document):
    """The registered model, and its promotion."""

    model: str | None = Field(
        None,
        pattern=NAME,
        max_length=100,
        description="The name of the registered model. The default is the name of the pipeline.",
    )
    promote: Promote = Field(
        "auto",
        description="auto promotes without approval, approve waits for a person in Airflow, never does not promote. "
        "A model with the verdict promote becomes a version of the registry in each case: it can be loaded by its "
        "number, and a later run that may promote the same model takes that version.",
    )
    approvers: tuple[Annotated[str, Field(min_length=1, max_length=100)], ...] = Field(
        (),
        description="With promote: approve, the people who may answer, by their names in Airflow. Empty: everybody "
        "whom Airflow lets answer.",
    )
    approvals: Literal[1, 2] = Field(
        1,
        description="With promote: approve, how many people have to approve. With 2 they are two different people, and "
        "neither of them started the run.",
    )
    max_latency_ms: float | None = Field(
        250.0,
        gt=0,
        description="The longest time, in milliseconds, in which the candidate may score one held-out row (the 99th "
        "percentile of 200 rows; of whole groups in a ranking with derived columns). null for no limit.",
    )
    max_memory: Memory | None = Field(
        4 << 30, description="The most memory that the process of the candidate may take for that. null for no limit."
    )
