"""A pickle in the place of arrays, weights or a checkpoint is refused before it is loaded, also with the right digest."""

import io
import json
import pickle
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.result import Artifact
from ratchet.model.arrays import read_array
from ratchet.model.description import DESCRIPTION, WEIGHTS
from ratchet.model.files import lay_out
from ratchet.model.scoring import load
from ratchet.store.memory import MemoryStore
from tasks.train.stopping import StopTraining
from tests.shop import Shop
from tests.train.miniature import MemoryFolder, loop


class Trap:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> object:
        return Path.touch, (self.mark,)


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    """A trap that works; nothing may have set it off at the end of the test."""
    trap = Trap(tmp_path / "mark")
    pickle.loads(pickle.dumps(trap))
    assert trap.mark.exists()
    trap.mark.unlink()
    return trap


def test_an_array_of_objects_and_a_pickle_are_no_arrays(trap: Trap, tmp_path: Path) -> None:
    objects = io.BytesIO()
    np.save(objects, np.array([trap], object), allow_pickle=True)
    store = MemoryStore(str(tmp_path))
    for data in (objects.getvalue(), pickle.dumps(trap), b""):
        key = f"published/p/features/{digest(data)}/label.npy"
        store.create(key, data)
        artifact = Artifact(key=key, sha256=digest(data), bytes=len(data))
        with pytest.raises(CorruptArtifact, match=r"label\.npy is no plain array"):
            read_array(store, artifact, tmp_path)
    assert not trap.mark.exists()


def test_weights_that_are_a_pickle_are_not_loaded(trap: Trap, tmp_path: Path) -> None:
    shop = Shop.make(MemoryStore(str(tmp_path)), tmp_path / "scratch")
    folder = lay_out(shop.store, shop.train(1.0).result, tmp_path / "model", tmp_path)
    data = pickle.dumps(trap)
    (folder / WEIGHTS).write_bytes(data)
    described = json.loads((folder / DESCRIPTION).read_bytes())
    described["weights"] = digest(data)
    (folder / DESCRIPTION).write_text(json.dumps(described), encoding="utf-8")
    with pytest.raises(CorruptArtifact, match=WEIGHTS):
        load(folder)
    assert not trap.mark.exists()


def test_a_checkpoint_that_is_a_pickle_is_damaged_and_the_one_before_it_is_used(trap: Trap) -> None:
    folder, warnings = MemoryFolder(), list[str]()
    with pytest.raises(StopTraining):
        loop("binary", folder=folder, stop_after=20).run()
    data = pickle.dumps(trap)
    document = json.loads(folder.files["step-0000000020.json"])
    (file,) = document["content"]["state"]["files"]
    folder.files[file["name"]] = data
    file["sha256"] = sha256(data).hexdigest()
    document["sha256"] = sha256(json.dumps(document["content"], sort_keys=True).encode()).hexdigest()
    folder.files["step-0000000020.json"] = json.dumps(document).encode()
    assert loop("binary", folder=folder, warnings=warnings).run().resumed_from == 16
    assert "the checkpoint of step 20 is damaged" in warnings[0]
    assert not trap.mark.exists()
