"""refit: the recipe of a model that was judged better, on more days; and the guard that this was no accident.

A change here violates the promise of the project when a refit differs from the measured training in more than its days,
or is shipped although its guard found it worse.
"""

import torch
from safetensors.torch import load as load_tensors

from ratchet.contracts import summaries
from ratchet.contracts.errors import RatchetError
from ratchet.contracts.gate import lower_is_better
from ratchet.contracts.refit import Refit
from ratchet.contracts.result import StageResult
from ratchet.contracts.summaries import FeatureSet, Split, TrainedModel
from ratchet.model.description import from_json
from ratchet.model.kinds import make_model
from ratchet.model.networks import Predictor, finish, load_weights
from ratchet.model.own_metric import PipelineMetrics
from ratchet.runtime.context import Finished, StageContext
from ratchet.store.artifacts import read_bytes
from tasks.train.computation import Computation
from tasks.train.days import read
from tasks.train.launch import launch
from tasks.train.memory import convert_memory_errors
from tasks.train.ranks import Ranks
from tasks.train.refit_service import ask_as_service
from tasks.train.stage import ranks_of, train_model
from tasks.train.step_losses import NotFinite
from tasks.train.training import Training, metric_of

DIVERGED = "refit-diverged"
"""The outcome of a refit that its guard refuses."""
MOST_LOSS = 0.5
"""So much may the training loss be above the measured training's: as a share of it, or of what that training gained."""
MOST_WORSE = 0.02
"""The metric on the held-out days may be this much worse than the measured model's. The refit was trained on them."""


def run(ctx: StageContext, ranks: Ranks | None = None) -> Finished:
    """Train on the days of the refit, or resume; compare with the measured model, and ask as a service asks.

    One that is refused is published with the reason, and register is skipped. Raises Preempted on a notice to stop,
    after saving the state. ranks: the processes of this training, where this is one of several.
    """
    if ranks is None and (count := ranks_of(ctx)) > 1:
        return launch(ctx, count)
    features = summaries.features(ctx.upstream("features"))
    result = ctx.upstream("train")
    measured = summaries.trained(result)
    again = features.model_copy(update={"split": Split(train=features.refit, valid=(), holdout=())})
    made = _train(ctx, again, measured, ranks)
    with ctx.phase("guard"), convert_memory_errors(made.settings.batch_size, made.settings.accumulation):
        compared = _compare(ctx, features, made, result)
    metrics = {f"refit.{name}": value for name, value in made.metrics.items()}
    if not compared.refused:
        with ctx.phase("ask"):
            served, refused = ask_as_service(ctx, result)
        compared = compared.model_copy(update={"refused": refused})
        metrics["refit.latency_ms"] = served.latency_ms
    if compared.refused:
        ctx.log.event("refit", compared.refused, level="warning")
    summary = made.summary.model_copy(update={"refit": compared})
    return Finished(content=summary.digest, summary=summary, metrics=metrics)


def _train(ctx: StageContext, features: FeatureSet, measured: TrainedModel, ranks: Ranks | None) -> Training:
    try:
        return train_model(ctx, features, fitted="refitted", measured=measured, ranks=ranks)
    except RatchetError as error:
        if isinstance(error.__cause__, NotFinite):
            raise RatchetError(f"{DIVERGED}: {error.cause}", remedy=error.remedy) from error
        raise


def _compare(ctx: StageContext, features: FeatureSet, made: Training, result: StageResult) -> Refit:
    measured = summaries.trained(result)
    losses = [each.loss for each in measured.evaluations]
    found = Refit(
        of=measured.digest,
        loss=made.summary.evaluations[-1].loss,
        measured_loss=losses[-1],
        metric=ctx.spec.metric,
        score=_score(ctx, made, features, made.network),
        measured_score=_score(ctx, made, features, _network(ctx, result)),
    )
    finite = all(bool(weight.isfinite().all()) for weight in made.network.state_dict().values())
    return found.model_copy(update={"refused": refusal(found, first_loss=losses[0], finite=finite)})


def refusal(found: Refit, *, first_loss: float, finite: bool) -> str:
    """Why a refit may not be shipped, as the name of the outcome and a sentence; empty if it may.

    first_loss: of the measured training's first epoch. finite: whether all weights are.
    """
    if not finite:
        return f"{DIVERGED}: a weight of the refit is not finite"
    scale = max(abs(found.measured_loss), first_loss - found.measured_loss)
    if found.loss > found.measured_loss + MOST_LOSS * scale:
        return (
            f"{DIVERGED}: the training loss of the refit is {found.loss:.4g}, and that of the measured model"
            f" {found.measured_loss:.4g}"
        )
    if found.score is None or found.measured_score is None:
        return f"{DIVERGED}: {found.metric} has no value on the held-out days, so the refit cannot be checked"
    sign = -1 if lower_is_better(found.metric) else 1
    if sign * (found.measured_score - found.score) > MOST_WORSE * abs(found.measured_score):
        return (
            f"{DIVERGED}: {found.metric} of the refit is {found.score:.4g} on the held-out days that it was trained on,"
            f" and {found.measured_score:.4g} of the measured model, which has not seen them"
        )
    return ""


def _network(ctx: StageContext, result: StageResult) -> Predictor:
    """The network of a training of this pipeline."""
    description = from_json(read_bytes(ctx.store, result.outputs["description"]))
    network = make_model(description, ctx.folder)
    load_weights(network, load_tensors(read_bytes(ctx.store, result.outputs["weights"])))
    return network


def _score(ctx: StageContext, made: Training, features: FeatureSet, network: Predictor) -> float | None:
    """The metric that decides, of a network on the held-out days, computed where the refit was trained."""
    device = made.network.device
    rows = read(ctx, network.cpu(), features, features.split.holdout)
    computation = Computation(network.to(device), made.settings, loss=made.loss, mass=made.mass)
    network.eval()
    with torch.inference_mode():
        scores = finish(network, made.settings.objective, computation.scores(rows))
    return metric_of(PipelineMetrics(ctx.spec, ctx.folder), ctx.spec.metric, rows, scores)
