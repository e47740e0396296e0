"""A small pipeline in a store, up to a trained model, made by hand: what evaluate, register and report start from.

Rows have two numbers, `x` and `z`, and a label that follows x. A model is a line: its weights say how good it is.
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from threading import Event

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from ratchet.contracts import bundle, paths
from ratchet.contracts.fingerprint import digest, digest_of
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.request import UPSTREAM, Input, Outcome, Pins, Promotion, StageRequest
from ratchet.contracts.result import Artifact, Published
from ratchet.contracts.stages import Stage
from ratchet.contracts.summaries import Champion, Epoch, Judgement, Snapshot, SnapshotDay, Split, TrainedModel
from ratchet.model.description import Architecture, CategoricalColumn, Description, NumericColumn
from ratchet.model.networks import Network
from ratchet.model.saving import digest_of_model, dump
from ratchet.runs.pins import libraries
from ratchet.runtime.context import Finished, StageContext
from ratchet.runtime.logs import StageLog
from ratchet.store.base import Store
from ratchet.store.publishing import Transaction
from tasks.evaluate import stage as evaluate

DAY = date(2026, 11, 20)
SPEC = PipelineSpec.model_validate(
    {
        "name": "shop",
        "source": {"kind": "files", "uri": "/data/{date}.parquet", "window_days": 4},
        "columns": {
            "query": {"role": "group", "type": "int64"},
            "seen": {"role": "time", "type": "timestamp"},
            "country": {"role": "categorical", "type": "string"},
            "kind": {"role": "categorical", "type": "int64"},
            "x": {"role": "numeric", "type": "float64"},
            "z": {"role": "numeric", "type": "int64"},
            "clicked": {"role": "label", "type": "int64", "in": [0, 1]},
        },
        "train": {"objective": "ranking", "epochs": 2},
        "evaluate": {"slices": ["country"]},
        "gate": {"min_gain": "1%"},
    }
)
PINS = Pins(commit="c0ffee", image=f"sha256:{digest(b'image')}", python="3.11", libraries=libraries())


@dataclass(frozen=True, kw_only=True)
class World:
    """A store with one held-out day of rows in a snapshot."""

    store: Store
    scratch: Path
    spec: PipelineSpec
    ingest: Published
    data_date: date = DAY
    promotion: Promotion = field(default_factory=lambda: Promotion(mode="auto"))
    tracking_uri: str | None = None
    run_id: str = "run-1"
    kind: str = "manual"

    def context(
        self, stage: Stage, inputs: dict[Stage, Published], champion: Champion | None = None, attempt: str = "a1"
    ) -> StageContext:
        """What a stage is given."""
        parts = {"stage": stage, "inputs": digest_of({name: given.key for name, given in inputs.items()})}
        parts["champion"] = champion.digest if champion else "none"
        parts["champion.evaluate"] = champion.manifests.get("evaluate", "") if champion else ""
        scratch = Path(mkdtemp(prefix=f"{stage}-", dir=self.scratch))
        (scratch / "work").mkdir()
        (scratch / "pipeline").mkdir()
        packed = _code()
        self.store.create(paths.bundle(digest(packed)), packed)
        request = StageRequest(
            stage=stage,
            run_id=self.run_id,
            attempt=attempt,
            spec=self.spec,
            bundle=Artifact(key=paths.bundle(digest(packed)), sha256=digest(packed), bytes=len(packed)),
            data_date=self.data_date,
            source_root="/data",
            inputs={name: Input(manifest=given.key, content=given.result.content) for name, given in inputs.items()},
            champion=champion,
            promotion=self.promotion,
            kind=self.kind,  # type: ignore[arg-type] # written once, in full
            store=self.store.uri,
            tracking_uri=self.tracking_uri,
            pins=PINS,
            fingerprint=digest_of(parts),
            parts=parts,
        )
        return StageContext(
            request=request,
            store=self.store,
            scratch=scratch / "work",
            disk=scratch / "work",
            folder=scratch / "pipeline",
            log=StageLog(stage, io.StringIO()),
            transaction=Transaction(self.store, request.prefix, attempt),
            stopping=Event(),
        )

    def commit(self, ctx: StageContext, finished: Finished) -> Published:
        """What whoever runs a stage does at its end."""
        published = ctx.transaction.commit(
            stage=ctx.request.stage,
            fingerprint=ctx.request.fingerprint,
            parts=ctx.request.parts,
            content=finished.content,
            summary=finished.summary,
            metrics=finished.metrics,
            timings=ctx.timings,
        )
        outcome = Outcome(
            stage=ctx.request.stage,
            state="done",
            seconds=1.5,
            manifest=published.key,
            content=published.result.content,
            because="nothing published yet",
            result=published.result,
        )
        key = paths.outcome(self.spec.name, self.run_id, ctx.request.stage)
        entry = self.store.head(key)
        self.store.replace(key, outcome.model_dump_json(by_alias=True).encode(), expected=entry.etag if entry else None)
        return published

    def train(
        self,
        x: float,
        z: float = 0.0,
        *,
        trained_on: tuple[int, ...] = (3, 2),
        code: str = "",
        helpers: Mapping[str, str] | None = None,
    ) -> Published:
        """A published training: a line with these weights, trained on days so many before the data date.

        code: of features.py. helpers: other files of the pipeline's folder, by name.
        """
        packed = _code(code, helpers or {})
        ctx = self.context("train", {"ingest": self.ingest}, attempt=digest(f"{x} {z} {digest(packed)}".encode())[:8])
        weights, description = line(self.spec, x, z)
        ctx.transaction.add_bytes("weights", weights)
        ctx.transaction.add_bytes("description", description)
        ctx.transaction.add_bytes("code", packed)
        days = tuple(self.data_date - timedelta(days=back) for back in trained_on)
        document = TrainedModel(
            digest=digest_of_model(weights, description),
            objective=self.spec.train.objective,
            split=Split(train=days[:-1], valid=days[-1:], holdout=(self.data_date,)),
            epochs=tuple(
                Epoch(
                    epoch=epoch,
                    loss=0.7 - 0.1 * epoch,
                    valid_loss=0.72 - 0.09 * epoch,
                    valid_metric=0.5 + 0.02 * epoch,
                    seconds=1.0,
                    samples_per_sec=12_345.0,
                )
                for epoch in (1, 2)
            ),
            best_epoch=2,
            batch_size=256,
            parameters=10,
            rows=1000,
        )
        finished = Finished(
            content=document.digest, summary=document, metrics={"training_throughput_samples_per_sec": 12_345.0}
        )
        request = ctx.request.model_copy(
            update={"fingerprint": digest_of([document.digest, trained_on, digest(packed)])}
        )
        ctx = replace(ctx, request=request)
        return self.commit(replace(ctx, transaction=_moved(ctx, self.store)), finished)

    def champion(
        self, training: Published, *, number: int = 1, version: str = "1", evaluated: Published | None = None
    ) -> Champion:
        """A training as if it were in production; without `evaluated`, as one of before scoring code was kept."""
        kept = {"evaluate": evaluated.key} if evaluated else {}
        return Champion(
            model=self.spec.model_name,
            number=number,
            version=version,
            digest=training.result.content,
            data_date=self.data_date - timedelta(days=1),
            manifests={"train": training.key, "ingest": self.ingest.key, **kept},
        )

    def evaluate(self, training: Published, champion: Champion | None = None) -> tuple[Judgement, Published]:
        """Run the evaluate stage."""
        ctx = self.context("evaluate", {"ingest": self.ingest, "train": training}, champion)
        published = self.commit(ctx, evaluate.run(ctx))
        return Judgement.model_validate(published.result.summary), published

    def register_context(self, training: Published, evaluated: Published, attempt: str = "a1") -> StageContext:
        """What the register stage is given."""
        inputs: dict[Stage, Published] = {"ingest": self.ingest, "train": training, "evaluate": evaluated}
        assert set(inputs) == set(UPSTREAM["register"])
        return self.context("register", inputs, attempt=attempt)


def make(
    store: Store, scratch: Path, *, spec: PipelineSpec = SPEC, groups: int = 300, seed: int = 0, data_date: date = DAY
) -> World:
    """A world with so many groups of ten rows in its held-out day."""
    scratch.mkdir(parents=True, exist_ok=True)
    world = World(store=store, scratch=scratch, spec=spec, ingest=None, data_date=data_date)  # type: ignore[arg-type] # made below
    ctx = world.context("ingest", {})
    path = ctx.scratch / "day.parquet"
    table = rows(groups, seed)
    pq.write_table(table, path)
    artifact = ctx.transaction.add("day", path, rows=table.num_rows)
    day = SnapshotDay(day=data_date, file=artifact, source=artifact.sha256)
    finished = Finished(content=artifact.sha256, summary=Snapshot(table="tables/shop/1", version=3, days=(day,)))
    return replace(world, ingest=world.commit(ctx, finished))


def rows(groups: int, seed: int) -> pa.Table:
    """Ten rows to a group, shuffled, some of them without a label; country DE is large, US small."""
    generator = np.random.default_rng(seed)
    count = groups * 10
    x, z = generator.normal(size=(2, count))
    clicked = generator.random(count) < 1 / (1 + np.exp(1.5 - 1.5 * x))
    query = np.repeat(np.arange(groups), 10)
    table = pa.table(
        {
            "query": query,
            "seen": pa.array(np.datetime64("2026-11-20T10:00:00", "us") + np.arange(count)),
            "country": np.where(query % 7 == 0, "US", np.where(query % 3 == 0, "FR", "DE")),
            "kind": pa.array(np.arange(count) % 5, mask=np.arange(count) % 11 == 0),
            "x": np.where(np.arange(count) % 13 == 0, np.nan, x),
            "z": pa.array((100 * z).astype(np.int64), mask=np.arange(count) % 17 == 0),
            "clicked": pa.array(clicked.astype(np.int64), mask=np.arange(count) % 101 == 0),
        }
    )
    return table.take(generator.permutation(count))


def line(spec: PipelineSpec, x: float, z: float) -> tuple[bytes, bytes]:
    """Weights and description of a linear model of x and z."""
    described = Description(
        objective=spec.train.objective,
        numeric=(NumericColumn(name="x", transform=None), NumericColumn(name="z", transform=None)),
        categorical=(
            CategoricalColumn(name="country", type="string", vocabulary=0),
            CategoricalColumn(name="kind", type="int64", vocabulary=0),
        ),
        derived={},
        architecture=Architecture(kind="linear", embedding_dim=1, hidden=(), cross_layers=1, dropout=0.0),
    )
    network = Network(described)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
        network.preprocess.scale[1] = 100.0
        network.body.weight[0, :2] = torch.tensor([x, z])  # type: ignore[index,union-attr] # a linear layer
    weights, description, _ = dump(described, network)
    return weights, description


def _code(features: str = "", helpers: Mapping[str, str] | None = None) -> bytes:
    with TemporaryDirectory() as folder:
        (Path(folder) / "pipeline.yaml").write_text("name: shop\n")
        for name, text in {"features.py": features, **(helpers or {})}.items():
            if text:
                (Path(folder) / name).write_text(text)
        return bundle.pack(Path(folder))


def _moved(ctx: StageContext, store: Store) -> Transaction:
    """The outputs of a context's transaction under its (changed) request's prefix."""
    moved = Transaction(store, ctx.request.prefix, ctx.request.attempt)
    for name, artifact in ctx.transaction.outputs.items():
        moved.add_bytes(name, store.read(artifact.key))
    return moved


def now() -> datetime:
    """The time, with its zone."""
    return datetime.now(UTC)
