"""What a pipeline file may not ask for, and a document that is stored already may still hold."""

from collections.abc import Iterator

from ratchet.contracts.gate import DECISIVE, METRICS, family
from ratchet.contracts.misfits import Misfit, Rule
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.quantities import show_duration, show_fraction

_DAY = 86_400
_MOST_STALE_LOSS = 0.1


def _metric_decides(spec: PipelineSpec) -> Iterator[Misfit]:
    metric, objective = spec.evaluate.metric, spec.train.objective
    if metric and family(metric) in METRICS[objective] and family(metric) not in DECISIVE[objective]:
        yield Misfit(
            ("evaluate", "metric"),
            f"{metric} compares scores of different groups, and a ranking learns the order within a group alone",
            ", ".join(DECISIVE[objective]),
            remedy="use one of these; or set train.objective: binary, whose scores are probabilities",
        )


def _one_gpu(spec: PipelineSpec) -> Iterator[Misfit]:
    gpus = getattr(spec.resources.get("train"), "gpus", 0)  # of a part of a spec, resources may lack stages
    if gpus > 1:
        yield Misfit(("resources", "train", "gpus"), f"training uses one GPU, and {gpus} would be taken", "0, 1")


def _stale_is_old(spec: PipelineSpec) -> Iterator[Misfit]:
    """A champion is stale after days, and against a stale one a candidate may not lose what it likes."""
    given, loss = spec.gate.stale_after, spec.gate.max_stale_loss
    if given is not None and given < _DAY:
        message = f"{show_duration(given)} is no age: with it, no candidate has to be better"
        yield Misfit(("gate", "stale_after"), message, "1d or more", "7d")
    if loss > _MOST_STALE_LOSS:
        message = f"{show_fraction(loss)} is no tie: production would get worse with each stale night"
        yield Misfit(("gate", "max_stale_loss"), message, f"0% to {show_fraction(_MOST_STALE_LOSS)}")


LIMITS: tuple[Rule, ...] = (_metric_decides, _one_gpu, _stale_is_old)
"""Rules for pipeline files alone."""
