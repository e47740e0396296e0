"""Logs each trained candidate to MLflow, also a rejected one: one MLflow run for each training."""

import json
import time
from collections.abc import Mapping
from typing import Any

from ratchet.contracts import summaries
from ratchet.contracts.fingerprint import flatten
from ratchet.contracts.request import StageRequest
from ratchet.contracts.result import StageResult
from ratchet.contracts.stages import Stage
from ratchet.contracts.summaries import TrainedModel
from ratchet.contracts.version_record import VersionRecord
from ratchet.tracking.mlflow import Tracker
from ratchet.tracking.registry import DIGEST, PIPELINE, RUN

TRAINING = "ratchet.train_fingerprint"
_BATCH = 100  # MLflow's limit of parameters in a request
_LONGEST = 500


Training = StageRequest | VersionRecord
"""What knows of a training: the request of a stage, or the record of a version."""


def log_candidate(tracker: Tracker, request: Training, results: Mapping[Stage, StageResult]) -> str:
    """Log a training to its MLflow run, as far as it is known; returns the id of the run. Safe to call again.

    results: at least those of ingest and train; the judgement of evaluate is logged if there is one.
    """
    training = results["train"]
    run = tracker.run(
        tracker.experiment(request.spec.name),
        tag=TRAINING,
        value=training.fingerprint,
        name=f"{request.spec.name} {request.data_date}",
    )
    known = tracker.client.get_run(run).data
    _log_params(tracker.client, run, request, known.params)
    _log_metrics(tracker.client, run, results, known.metrics)
    tags = _tags(request, results)
    changed = {name: value for name, value in tags.items() if known.tags.get(name) != value}
    if changed:
        tracker.client.log_batch(run, tags=_entities("RunTag", changed))
    tracker.client.set_terminated(run, "FINISHED")
    return run


def training_tags(request: Training, trained: TrainedModel) -> dict[str, str]:
    """The tags that a training's MLflow run and the versions of its model have in common."""
    return {
        **({"ratchet.refit_of": trained.refit.of} if trained.refit else {}),
        DIGEST: trained.digest,
        PIPELINE: request.spec.name,
        "ratchet.data_date": request.data_date.isoformat(),
        RUN: request.run_id,
        "ratchet.commit": request.pins.commit,
        "ratchet.image": request.pins.image,
        "ratchet.libraries": json.dumps(request.pins.libraries, sort_keys=True),
        "ratchet.seed": str(request.spec.train.seed),
    }


def metric_name(name: str) -> str:
    """The name of a metric in MLflow, which allows no @ and not everywhere a colon: ndcg@10 -> ndcg_at_10."""
    return name.replace("@", "_at_").replace(":", ".")


def _tags(request: Training, results: Mapping[Stage, StageResult]) -> dict[str, str]:
    snapshot, trained = summaries.snapshot(results["ingest"]), summaries.trained(results["train"])
    tags = {
        **training_tags(request, trained),
        "ratchet.snapshot_table": snapshot.table,
        "ratchet.snapshot_version": str(snapshot.version),
        "ratchet.as_of": snapshot.as_of,
        "ratchet.python": request.pins.python,
        "ratchet.owner": request.spec.owner,
    }
    if "refit" in results:
        made = summaries.trained(results["refit"])
        tags["ratchet.refit"] = made.digest
        if made.refit and made.refit.refused:
            tags["ratchet.refit_refused"] = made.refit.refused
    if "evaluate" in results:
        judged = summaries.judgement(results["evaluate"])
        tags |= {
            "ratchet.verdict": judged.verdict,
            "ratchet.reason": judged.reason,
            "ratchet.explanation": judged.explanation,
            "ratchet.baseline": judged.baseline.version if judged.baseline else "constant",
        }
    return {name: value[:5000] for name, value in tags.items()}


def _log_params(client: Any, run: str, request: Training, known: Mapping[str, str]) -> None:
    """Log each key of the pipeline. MLflow cannot change a parameter, so one of an earlier run stays."""
    leaves = flatten(request.spec, "config")
    params = {
        name.removeprefix("config."): value[:_LONGEST]
        for name, value in leaves.items()
        if not name.startswith(("config.description", "config.alerts"))
    }
    fresh = [(name, value) for name, value in params.items() if name not in known]
    for start in range(0, len(fresh), _BATCH):
        client.log_batch(run, params=_entities("Param", dict(fresh[start : start + _BATCH])))


def _log_metrics(client: Any, run: str, results: Mapping[Stage, StageResult], known: Mapping[str, float]) -> None:
    """Log the metrics that are new or have changed, and the history of the training if it is new."""
    now = int(time.time() * 1000)
    points: list[tuple[str, float, int]] = []
    for each in summaries.trained(results["train"]).evaluations:
        history = {
            "train.loss": each.loss,
            "valid.loss": each.valid_loss,
            "valid.metric": each.valid_metric,
            "training_throughput_samples_per_sec": each.samples_per_sec,
        }
        points += [
            (name, value, each.step or round(each.epoch)) for name, value in history.items() if value is not None
        ]
    historic = {name for name, _, _ in points}
    points = [point for point in points if point[0] not in known]
    for stage in ("ingest", "train", "evaluate", "refit"):
        if stage in results:
            points += [
                (metric_name(name), value, 0)
                for name, value in results[stage].metrics.items()
                if metric_name(name) not in historic and known.get(metric_name(name)) != value
            ]
    if points:
        metrics = [_entity("Metric")(name, value, now, step) for name, value, step in points]
        for start in range(0, len(metrics), 1000):
            client.log_batch(run, metrics=metrics[start : start + 1000])


def _entities(kind: str, values: Mapping[str, str]) -> list[Any]:
    entity = _entity(kind)
    return [entity(name, value) for name, value in values.items()]


def _entity(kind: str) -> Any:
    from mlflow import entities

    return getattr(entities, kind)
