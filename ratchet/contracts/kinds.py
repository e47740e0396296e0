"""The kinds of models that Ratchet brings, as `train.model.kind` names them; pure: training and scoring read it."""

BOOSTED = "lightgbm"
"""Boosted trees; all other kinds are networks."""
KINDS = ("mlp", "dcn", "linear", "set", "tabm", BOOSTED)

MOST_ROUNDS, UNMEASURED_ROUNDS = 2000, 200
"""Of `train.model.rounds: auto`: at most, as a plateau ends them sooner; without validation days, twice LightGBM's own
number, as the rate is half of its own."""


def most_rounds(given: int | str, *, measured: bool) -> int:
    """The largest number of rounds of boosted trees. given: train.model.rounds. measured: whether a plateau is seen."""
    if isinstance(given, int):
        return given
    return MOST_ROUNDS if measured else UNMEASURED_ROUNDS
