"""An encoded array has changed: its readers refuse it and name the file, and the next run makes it again."""

from pathlib import Path

import pytest

from ratchet.contracts import summaries
from ratchet.contracts.errors import CorruptArtifact
from ratchet.store.artifacts import fetch
from ratchet.store.publishing import discard_damaged, verify
from tests.features.encoding import D1, D2, D3, at, day_rows, validated


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
@pytest.mark.parametrize("array", ["numeric", "categorical", "label", "group", "categories"])
def test_a_damaged_array_is_refused_by_name_and_made_again(tmp_path: Path, damage: str, array: str) -> None:
    nights = at(tmp_path)
    for day in (D1, D2, D3):
        nights.put(day, day_rows())
    snapshot = nights.run("ingest")
    inputs = {"ingest": snapshot, "validate": validated(nights, snapshot)}
    published = nights.run("features", inputs=inputs)
    name = f"{D1}-{array}.npy"
    artifact = published.result.outputs[name]
    path = nights.store.local(artifact.key)
    assert path is not None
    data = path.read_bytes()
    path.unlink()
    if damage != "gone":
        path.write_bytes(data[:-1] if damage == "cut" else data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(CorruptArtifact, match=f"{array}.npy is damaged"):
            fetch(nights.store, artifact, tmp_path)

    # As the chain does before it reuses a result: it is moved aside, and the stage runs again under its fingerprint.
    assert discard_damaged(nights.store, published.key.rpartition("/")[0]) == [name]
    again = nights.run("features", inputs=inputs, parts={"run": published.result.parts["run"]})
    assert again.key == published.key
    assert again.result.content == published.result.content
    assert again.result.outputs[name].sha256 == artifact.sha256
    assert verify(nights.store, again) == []
    assert summaries.features(again.result).split.train == (D1,)
