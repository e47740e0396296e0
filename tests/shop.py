"""A small shop up to a trained model, both made by hand: what evaluate, register and report start from.

Rows have two numbers, `x` and `z`, and a label that follows x. A model is a line: its weights say how good it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from ratchet.contracts import bundle
from ratchet.contracts.champion import Champion
from ratchet.contracts.fingerprint import digest, digest_of
from ratchet.contracts.parent import Parent, WarmStart
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.request import UPSTREAM, StageRequest
from ratchet.contracts.result import Artifact, PublishedResult
from ratchet.contracts.snapshot import Snapshot, SnapshotDay
from ratchet.contracts.summaries import Evaluation, Judgement, Split, TrainedModel
from ratchet.model.description import Architecture, CategoricalColumn, Description, NumericColumn
from ratchet.model.networks import Network
from ratchet.model.saving import digest_of_model, dump
from ratchet.runtime.context import Finished
from ratchet.store.base import Store
from tests.world import LAST, World

SPEC: dict[str, Any] = {
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
_NO_SOURCE = ("/data", ())


@dataclass(kw_only=True)
class Shop(World):
    """A store with one held-out day of rows in a snapshot, which `ingest` names."""

    ingest: PublishedResult

    @classmethod
    def make(
        cls,
        store: Store,
        folder: Path,
        *,
        document: dict[str, Any] = SPEC,
        groups: int = 300,
        seed: int = 0,
        data_date: date = LAST,
        table: pa.Table | None = None,
    ) -> Self:
        """A shop with so many groups of ten rows in its held-out day, or with the rows of a table."""
        world = World(folder=folder, store=store, document=document, data_date=data_date)
        return cls(**vars(world), ingest=_snapshot(world, table or rows(groups, seed)))

    def train(
        self,
        x: float,
        z: float = 0.0,
        *,
        trained_on: tuple[int, ...] = (3, 2),
        parent_on: tuple[int, int] | None = None,
        code: str = "",
        helpers: Mapping[str, str] | None = None,
    ) -> PublishedResult:
        """A published training: a line with these weights, trained on days so many before the data date.

        parent_on: the first and the last day, so many before the data date, of a model that it began with. code: of features.py. helpers: other files of the pipeline's folder, by name.
        """
        packed = _code(code, helpers or {})
        weights, description = line(self.spec, x, z)
        made = digest_of_model(weights, description)
        days = tuple(self.data_date - timedelta(days=back) for back in trained_on)
        request = self.request(
            "train",
            inputs={"ingest": self.ingest},
            parts={"made": digest_of([made, trained_on, parent_on, digest(packed)])},
            attempt=digest(f"{x} {z} {parent_on} {digest(packed)}".encode())[:8],
        )
        document = TrainedModel(
            digest=made,
            objective=self.spec.train.objective,
            split=Split(train=days[:-1], valid=days[-1:], holdout=(self.data_date,)),
            evaluations=tuple(map(_evaluation, (1, 2))),
            best=2,
            batch_size=256,
            parameters=10,
            rows=1000,
            warm_start=self._warm_start(*parent_on) if parent_on else None,
        )
        with self.open(request) as ctx:
            ctx.transaction.add_bytes("weights", weights)
            ctx.transaction.add_bytes("description", description)
            ctx.transaction.add_bytes("code", packed)
            metrics = {"training_throughput_samples_per_sec": 12_345.0}
            return self.commit(ctx, Finished(content=made, summary=document, metrics=metrics))

    def _warm_start(self, first: int, last: int) -> WarmStart:
        since, until = (self.data_date - timedelta(days=back) for back in (first, last))
        file = Artifact(key="parent", sha256=digest(b"parent"), bytes=6)
        parent = Parent(
            model="shop", version="7", digest=digest(b"parent"), data_date=until, weights=file, description=file,
            since=since, until=until, epochs=2,
        )  # fmt: skip
        return WarmStart(parent=parent, parameters=10, of_parameters=10, rows=0, of_rows=0)

    def against(self, champion: Champion | None) -> Self:
        """The same shop with this champion."""
        return replace(self, champion=champion)

    def crown(
        self,
        training: PublishedResult,
        *,
        number: int = 1,
        version: str = "1",
        evaluated: PublishedResult | None = None,
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

    def evaluation(self, training: PublishedResult, attempt: str = "a1") -> StageRequest:
        """What the evaluate stage is asked to do."""
        return self.request("evaluate", inputs={"ingest": self.ingest, "train": training}, attempt=attempt)

    def evaluate(
        self, training: PublishedResult, champion: Champion | None = None
    ) -> tuple[Judgement, PublishedResult]:
        """Run the evaluate stage."""
        shop = self.against(champion)
        published = shop.finish(shop.evaluation(training))[1]
        return Judgement.model_validate(published.result.summary), published

    def registration(self, training: PublishedResult, evaluated: PublishedResult, attempt: str = "a1") -> StageRequest:
        """What the register stage is asked to do."""
        inputs = {"ingest": self.ingest, "train": training, "evaluate": evaluated}
        assert set(inputs) == set(UPSTREAM["register"]) - {"refit"}
        return self.request("register", inputs=inputs, attempt=attempt)  # type: ignore[arg-type] # all are stages


def _snapshot(world: World, table: pa.Table) -> PublishedResult:
    """One day in a snapshot that no source has."""
    with world.open(world.request("ingest", planned=_NO_SOURCE, attempt="a1")) as ctx:
        path = ctx.scratch / "day.parquet"
        pq.write_table(table, path)
        artifact = ctx.transaction.add("day", path, rows=table.num_rows)
        day = SnapshotDay(day=world.data_date, file=artifact, source=artifact.sha256)
        snapshot = Snapshot(table="tables/shop/1", version=3, days=(day,))
        return world.commit(ctx, Finished(content=artifact.sha256, summary=snapshot))


def _evaluation(number: int) -> Evaluation:
    return Evaluation(
        step=100 * number,
        epoch=number,
        loss=0.7 - 0.1 * number,
        valid_loss=0.72 - 0.09 * number,
        valid_metric=0.5 + 0.02 * number,
        seconds=1.0,
        samples_per_sec=12_345.0,
    )


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
            CategoricalColumn(name="country", type="string", vocabulary=0, dimension=1),
            CategoricalColumn(name="kind", type="int64", vocabulary=0, dimension=1),
        ),
        derived={},
        architecture=Architecture(kind="linear", hidden=(), cross_layers=1, dropout=0.0),
    )
    network = Network(described)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
        network.preprocess.scale[1] = 100.0
        network.body.weight[0, :2] = torch.tensor([x, z])  # type: ignore[index,union-attr] # a linear layer
    weights, description, _ = dump(described, network)
    return weights, description


def _code(features: str, helpers: Mapping[str, str]) -> bytes:
    with TemporaryDirectory() as folder:
        (Path(folder) / "pipeline.yaml").write_text("name: shop\n")
        for name, text in {"features.py": features, **helpers}.items():
            if text:
                (Path(folder) / name).write_text(text)
        return bundle.pack(Path(folder))
