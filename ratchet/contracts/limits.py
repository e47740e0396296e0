"""What a pipeline file may not ask for, and a document that is stored already may still hold."""

from collections.abc import Iterator

from ratchet.contracts.gate import DECISIVE, METRICS, family
from ratchet.contracts.misfits import Misfit, Rule
from ratchet.contracts.pipeline import PipelineSpec


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


LIMITS: tuple[Rule, ...] = (_metric_decides, _one_gpu)
"""Rules for pipeline files alone."""
