"""What a registered model takes: rows as a service holds them, not only as the snapshot does."""

from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest

from ratchet.model import package
from ratchet.model.files import lay_out
from ratchet.model.packing import pack
from ratchet.store.memory import MemoryStore
from tests.shop import Shop
from tests.world import PINS


def test_whole_numbers_are_taken_where_floats_are_declared(tmp_path: Path) -> None:
    shop = Shop.make(MemoryStore(str(tmp_path)), tmp_path / "scratch")
    training = shop.train(1.0, 0.5)
    trained = lay_out(shop.store, training.result, tmp_path / "trained", tmp_path)
    scoring = package.unpack(package.pack(), tmp_path / "scoring")
    pack(
        shop.spec,
        trained,
        scoring,
        tmp_path / "packed",
        pins=PINS,
        tags={"ratchet.model_digest": training.result.content},
    )
    model = mlflow.pyfunc.load_model(str(tmp_path / "packed"))
    rows = pd.DataFrame({"country": ["DE", "US"], "kind": [1, 2], "x": [1, 2], "z": [3, 4]})
    assert rows["x"].dtype == np.int64
    wanted = model.predict(rows.astype({"x": float}))
    for x in ([1, 2], np.float32([1, 2]), pd.array([1, 2], "Int64"), np.array([1, 2], object)):
        np.testing.assert_array_equal(model.predict(rows.assign(x=x)), wanted)
    assert np.isfinite(model.predict(rows.assign(x=np.array([1, None], object)))).all()
    with pytest.raises(Exception, match="x"):
        model.predict(rows.assign(x=["1", "2"]))
    with pytest.raises(Exception, match="country"):
        model.predict(rows.assign(country=[1, 2]))
