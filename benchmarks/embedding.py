"""embedding: the time of a training step with ten million known ids, against that with ten thousand.

One column of ids, drawn uniformly, beside eight numbers; the default network and optimizer, steps of 4,096 rows, on one
thread. Also AdamW over all rows of the table, as training did it before.
"""

from benchmarks.made_up import BATCH, made_up_network, made_up_rows, seconds_of_a_step
from benchmarks.measure import Result
from tasks.train import optimizer
from tasks.train.startup import prepare

_FEW, _MANY = 10_000, 10_000_000
_STEPS, _STEPS_OF_ALL, _ROUNDS = 400, 5, 3


def run(*, full: bool) -> Result:
    """Ten million ids for --full, else one million; the best of three rounds each."""
    many = _MANY if full else _MANY // 10
    few_s = min(_step_seconds(_FEW, _STEPS) for _ in range(_ROUNDS))
    many_s = min(_step_seconds(many, _STEPS) for _ in range(_ROUNDS))
    large, optimizer.LARGE = optimizer.LARGE, many + 2
    try:
        all_s = _step_seconds(many, _STEPS_OF_ALL)
    finally:
        optimizer.LARGE = large
    return Result(
        name="embedding",
        ratio=many_s / few_s,
        goal=1.3,
        unit="times the step with 10,000 ids",
        ours=many_s * 1000,
        peer=few_s * 1000,
        peer_name="10,000 ids, ms",
        rows=(
            (f"{many:,} ids", f"{many_s * 1000:.1f} ms a step"),
            (f"{_FEW:,} ids", f"{few_s * 1000:.1f} ms a step"),
            (f"{many:,} ids, all rows of the table in each step", f"{all_s * 1000:.1f} ms a step"),
        ),
    )


def _step_seconds(ids: int, steps: int) -> float:
    prepare(seed=0, cpus=1, gpus=0)
    return seconds_of_a_step(made_up_network(ids), made_up_rows(ids, BATCH * steps))
