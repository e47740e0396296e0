"""What a result of a training has to track, as numbers: speed, waiting, saving, and how well it learnt."""

from collections.abc import Sequence

from tasks.train.checkpoint import Checkpointer
from tasks.train.loop import TrainResult


def metrics(result: TrainResult, rows: int, checkpointer: Checkpointer) -> dict[str, float]:
    """The metrics by name. rows: for training."""
    best = result.history[result.best - 1]
    seconds = sum(each.seconds for each in result.history)
    found = {
        "training_throughput_samples_per_sec": rows * result.history[-1].epoch / max(seconds, 1e-9),
        "data_loading_latency_ms": result.loading * 1000,
        "checkpoint_duration_ms": _mean_ms(checkpointer.durations),
        "checkpoint_stall_ms": _mean_ms(checkpointer.stalls),
        "checkpoint_failures": float(checkpointer.failures),
        "checkpoint_waits": float(checkpointer.waits),
        "train_loss": result.history[-1].loss,
        "epochs": result.history[-1].epoch,
        "steps": float(result.history[-1].step),
        "skipped_steps": float(result.skipped),
    }
    return found if best.valid_metric is None else {**found, "valid_metric": best.valid_metric}


def _mean_ms(seconds: Sequence[float]) -> float:
    return 1000 * sum(seconds) / max(len(seconds), 1)
