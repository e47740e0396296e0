"""Requests, results and networks."""

from datetime import UTC, date, datetime

import pytest

from ratchet.contracts import summaries
from ratchet.contracts.endpoints import network_for
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.loading import loads
from ratchet.contracts.registration import Registration
from ratchet.contracts.request import UPSTREAM, Pins, Promotion, StageRequest
from ratchet.contracts.result import Artifact, StageResult
from ratchet.contracts.snapshot import Snapshot, SnapshotDay
from ratchet.contracts.stages import STAGES

SPEC = """
name: small
source: {kind: files, uri: "/data/date={date}/*.parquet"}
columns: {x: {role: numeric, type: float64}, y: {role: label, type: int64}}
train: {objective: binary}
"""
ARTIFACT = Artifact(key="k", sha256=digest(b""), bytes=0, rows=3)


def test_a_request_survives_json_and_knows_where_it_publishes() -> None:
    request = StageRequest(
        stage="train",
        run_id="r",
        attempt="a",
        spec=loads(SPEC),
        bundle=ARTIFACT,
        data_date=date(2026, 11, 20),
        source_root="/data",
        promotion=Promotion(mode="auto"),
        kind="local",
        store="/store",
        pins=Pins(commit="c", image="process", python="3.11", libraries={}),
        fingerprint=digest(b"f"),
        parts={},
    )
    assert StageRequest.model_validate_json(request.model_dump_json(by_alias=True)) == request
    assert request.prefix == f"published/small/train/{digest(b'f')}"


def test_each_stage_needs_only_stages_before_it() -> None:
    for position, stage in enumerate(STAGES):
        assert set(UPSTREAM[stage]) <= set(STAGES[:position])


@pytest.mark.parametrize(
    ("urls", "network"),
    [
        ([], "none"),
        ([""], "none"),
        (["http://127.0.0.1:5000"], "host"),
        (["https://s3.amazonaws.com", "http://localhost:1"], "host"),
        (["http://[::1]:5000"], "host"),
        (["http://mlflow:5000", "http://minio.local"], "bridge"),
    ],
)
def test_a_stage_gets_no_more_network_than_its_addresses_need(urls: list[str], network: str) -> None:
    assert network_for(urls) == network


def _result(summary: summaries.Document) -> StageResult:
    return StageResult(
        stage="x",
        fingerprint=digest(b""),
        parts={},
        content=digest(b""),
        outputs={},
        summary=summary.model_dump(mode="json"),
        attempt="a",
        finished=datetime.now(UTC),
    )


def test_a_summary_comes_back_as_the_document_that_it_was() -> None:
    day = date(2026, 11, 20)
    split = summaries.Split(train=(day,), valid=(), holdout=())
    snapshot = Snapshot(table="t", version=1, days=(SnapshotDay(day=day, file=ARTIFACT, source=digest(b"")),))
    assert summaries.snapshot(_result(snapshot)) == snapshot
    assert snapshot.rows == 3
    validation = summaries.Validation(checks=(), rows={day: 3}, labelled={day: 3})
    assert summaries.validation(_result(validation)) == validation
    features = summaries.FeatureSet(
        numeric=("x",), categorical=(), days=(summaries.FeatureDay(day=day, rows=3, arrays={}),), split=split
    )
    assert summaries.features(_result(features)) == features
    assert features.of(split.train) == features.days
    assert features.of(()) == ()
    evaluation = summaries.Evaluation(step=8, epoch=1, loss=1, seconds=1, samples_per_sec=1)
    trained = summaries.TrainedModel(
        digest=digest(b""),
        objective="binary",
        split=split,
        evaluations=(evaluation,),
        best=1,
        batch_size=8,
        parameters=1,
        rows=3,
    )
    assert summaries.trained(_result(trained)) == trained
    given = trained.model_dump(mode="json", exclude={"evaluations", "best"})
    line = {"epoch": 1, "loss": 1.0, "seconds": 1.0, "samples_per_sec": 1.0}
    before = summaries.TrainedModel.model_validate({**given, "epochs": [line], "best_epoch": 1})
    assert (before.best, before.evaluations[0].step, before.evaluations[0].epoch) == (1, 0, 1)
    gain = summaries.Interval(value=0.1, low=0.0, high=0.2)
    judged = summaries.Judgement(
        verdict="promote", reason="better", explanation="", metric="auc", baseline_kind="constant", baseline=None,
        candidate_metrics={}, baseline_metrics={}, gain=gain, smallest_visible_gain=0.1, min_gain=0, confidence=0.95,
        holdout=(day,), rows=3,
    )  # fmt: skip
    assert summaries.judgement(_result(judged)) == judged
    registered = Registration(model="m", version="1", mlflow_run_id="r", promoted=True)
    assert summaries.registration(_result(registered)) == registered
