"""A model with other preprocessing than it was trained with is not loaded: not to be judged, and not to be served."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pytest

from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.result import PublishedResult
from ratchet.model.description import DESCRIPTION, WEIGHTS
from ratchet.model.files import lay_out
from ratchet.model.package import pack as pack_scoring
from ratchet.model.package import unpack
from ratchet.model.packing import pack
from ratchet.store.memory import MemoryStore
from tests.shop import Shop, rows
from tests.world import PINS

MINE = "def derive(df):\n    return df.assign(x=df.x * 2)\n"
OTHER = "def derive(df):\n    return df.assign(x=df.x * 3)\n"
Swap = Callable[[Path, Path], Any]
SWAPS: dict[str, Swap] = {
    "weights": lambda ours, other: shutil.copyfile(other / WEIGHTS, ours / WEIGHTS),
    "description": lambda ours, other: shutil.copyfile(other / DESCRIPTION, ours / DESCRIPTION),
    "a step of preprocessing": lambda ours, _: _edit(ours / DESCRIPTION, b'"transform": null', b'"transform": "log1p"'),
    "the hashing of categories": lambda ours, _: _edit(ours / DESCRIPTION, b'"ids": "', b'"ids": "0'),
}


def _edit(file: Path, before: bytes, after: bytes) -> None:
    data = file.read_bytes()
    assert before in data
    file.write_bytes(data.replace(before, after, 1))


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop.make(MemoryStore(str(tmp_path)), tmp_path / "scratch")


def swapped(shop: Shop, training: PublishedResult, output: str, other: PublishedResult) -> None:
    """Put an output of another training into the place of this one."""
    key, data = training.result.outputs[output].key, shop.store.read(other.result.outputs[output].key)
    shop.store.delete(key)
    shop.store.create(key, data)


@pytest.mark.parametrize("output", ["weights", "description", "code"])
def test_31_a_candidate_with_a_part_of_another_training_is_not_judged(shop: Shop, output: str) -> None:
    training, other = shop.train(1.0, code=MINE), shop.train(0.5, 0.3, code=OTHER)
    swapped(shop, training, output, other)
    with pytest.raises(CorruptArtifact, match="damaged"):
        shop.evaluate(training)


@pytest.mark.parametrize("output", ["weights", "description", "code"])
def test_31_a_champion_with_a_part_of_another_training_is_never_replaced(shop: Shop, output: str) -> None:
    office, other = shop.train(0.3, 1.0, code=MINE), shop.train(0.5, 0.3, code=OTHER)
    champion = shop.crown(office)
    swapped(shop, office, output, other)
    found = shop.evaluate(shop.train(1.0), champion)[0]
    assert (found.verdict, found.reason) == ("inconclusive", "baseline-unreadable")
    assert "damaged" in found.explanation


@pytest.mark.parametrize("swap", SWAPS.values(), ids=SWAPS.keys())
def test_31_a_registered_model_with_a_part_of_another_training_is_not_loaded(
    shop: Shop, tmp_path: Path, swap: Swap
) -> None:
    training = shop.train(1.0)
    ours = lay_out(shop.store, training.result, tmp_path / "ours", tmp_path)
    other = lay_out(shop.store, shop.train(0.5, 0.3).result, tmp_path / "other", tmp_path)
    target, scoring = tmp_path / "packed", unpack(pack_scoring(), tmp_path / "scoring")
    pack(shop.spec, ours, scoring, target, pins=PINS, tags={"ratchet.model_digest": training.result.content})
    frame = rows(3, 0).to_pandas().drop(columns="clicked")
    assert np.isfinite(mlflow.pyfunc.load_model(str(target)).predict(frame)).all()
    swap(target / "artifacts" / "ours", other)
    with pytest.raises(Exception, match=r"weights|ids|model"):
        mlflow.pyfunc.load_model(str(target))
