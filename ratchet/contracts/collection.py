"""What a store keeps, and Airflow, and for how long: the policy of `ratchet gc`."""

import re

from pydantic import Field, ValidationError

from ratchet.contracts.document import Document

_PAIR = re.compile(r"([a-z]+)=(\d{1,6})")
_WORDS = frozenset({"weekly", "images"})
_ALLOWED = "weekly, images, results=DAYS, runs=DAYS, last=RUNS, grace=DAYS and airflow=DAYS, with commas between them"
LEAST_RESULTS = 8
"""A day more than the question of `register.promote: approve` waits for its answer."""
LEAST_AIRFLOW = 8
"""Likewise: the task that waits for the answer is a row of Airflow, too."""
_WHY = {
    "results": ": a night may wait 7 days for its answer, and registers its results then",
    "airflow": ": a night may wait 7 days for its answer, as a row of Airflow",
}
"""Why a number is too small, where that is not plain."""


class Policy(Document):
    """How long what nothing else names is kept. Days count from the last write, by the store's clock."""

    weekly: bool = Field(default=False, description="Whether the DAG ratchet-gc deletes, once a week.")
    images: bool = Field(default=False, description="Whether stage images of the engine go that no run needs.")
    results: int = Field(
        30, ge=LEAST_RESULTS, description="Days for which a run keeps its results whole, with its logs."
    )
    runs: int = Field(730, ge=2, description="Days for which the records of a run stay: plan, outcomes, pages, alerts.")
    last: int = Field(14, ge=1, description="The newest runs of a pipeline, which stay whole at any age.")
    grace: int = Field(7, ge=2, description="Days for which every object stays, whatever names it.")
    airflow: int = Field(
        90,
        ge=LEAST_AIRFLOW,
        description="With weekly: days for which Airflow keeps its own rows of runs, and with `make serve` their logs.",
    )


def parse_policy(value: object) -> object:
    """`weekly, results=60` -> a Policy. Raises ValueError for other text, and for numbers that do not go together."""
    if not isinstance(value, str):
        return value
    given: dict[str, bool | int] = {}
    for word in filter(None, map(str.strip, value.split(","))):
        found = _PAIR.fullmatch(word)
        if word not in _WORDS and (found is None or found[1] not in {*Policy.model_fields} - _WORDS):
            raise ValueError(f"{word!r} is none of {_ALLOWED}")
        name, number = (found[1], int(found[2])) if found else (word, True)
        if given.setdefault(name, number) != number:
            raise ValueError(f"{name} is given twice, as {given[name]} and as {number}")
    try:
        policy = Policy.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        raise ValueError(f"{name}={first['input']}: {first['msg'].lower()}{_WHY.get(name, '')}") from None
    if not policy.grace <= policy.results <= policy.runs:
        days = f"grace={policy.grace}, results={policy.results}, runs={policy.runs}"
        raise ValueError(f"{days}: allowed are grace <= results <= runs")
    return policy
