import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load as load_tensors

from ratchet.contracts.errors import ConfigurationError, CorruptArtifact, DataRejected
from ratchet.model.custom import custom_body
from ratchet.model.description import (
    CODE,
    DESCRIPTION,
    WEIGHTS,
    Architecture,
    CategoricalColumn,
    Description,
    GroupColumn,
    NumericColumn,
)
from ratchet.model.encoding import category_ids, encode
from ratchet.model.networks import Network
from ratchet.model.saving import code_digest, digest_of_model, dump
from ratchet.model.scoring import ScoringModel, load

ROWS = pd.DataFrame({"price": [1.0, None, 1e9, 4.0], "country": ["DE", None, "FR", "??"], "note": list("abcd")})
DESCRIBED = Description(
    objective="binary",
    numeric=(NumericColumn(name="price", transform="log1p"), NumericColumn(name="dear", transform=None)),
    categorical=(CategoricalColumn(name="country", type="string", vocabulary=2, dimension=4),),
    derived={"dear": "bool"},
    architecture=Architecture(kind="dcn", hidden=(8,), cross_layers=1, dropout=0.0),
)
FEATURES = "def derive(df):\n    df['dear'] = df['price'] > 2\n    return df\n"
MODULE = """
from torch import nn

class Mine(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.layer = nn.Linear(inputs, 1)

    def forward(self, x):
        return self.layer(x)[:, 0]
"""


def written(folder: Path, described: Description = DESCRIBED, **files: str) -> Path:
    """A model's folder."""
    torch.manual_seed(0)
    (folder / CODE).mkdir(parents=True)
    for name, text in {"features": FEATURES, **files}.items():
        (folder / CODE / f"{name}.py").write_text(text, encoding="utf-8")
    described = replace(described, code=code_digest(folder / CODE))
    network = Network(described, custom_body(described, folder / CODE))
    network.preprocess.vocabulary.copy_(torch.from_numpy(np.sort(category_ids(pd.Series(["DE", "FR"]), "string"))))
    network.label_mean.fill_(5)
    weights, description, _ = dump(described, network)
    (folder / WEIGHTS).write_bytes(weights)
    (folder / DESCRIPTION).write_bytes(description)
    return folder


def scores(folder: Path, rows: pd.DataFrame = ROWS) -> NDArray[np.float64]:
    return load(folder).score(rows)


def test_raw_rows_are_scored_whatever_is_missing_or_new(tmp_path: Path) -> None:
    found = scores(written(tmp_path / "m"))
    assert found.dtype == np.float64
    assert found.shape == (4,)
    assert ((found > 0) & (found < 1)).all()
    assert len(set(found.tolist())) == 4


def test_scores_do_not_depend_on_index_batch_or_columns_besides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = written(tmp_path / "m")
    expected = scores(folder)
    np.testing.assert_array_equal(scores(folder, ROWS.drop(columns="note").set_index(pd.Index([7, 7, 8, 9]))), expected)
    monkeypatch.setattr("ratchet.model.scoring._BLOCK", 3)
    np.testing.assert_allclose(scores(folder), expected, rtol=1e-6)
    assert scores(folder, ROWS[:0]).shape == (0,)
    encoded = encode(ROWS.assign(dear=ROWS["price"] > 2), numeric=("price", "dear"), categorical={"country": "string"})
    np.testing.assert_allclose(load(folder).score_arrays(*encoded), expected, rtol=1e-6)


def test_a_model_of_before_scores_in_float32_on_all_rows_at_once_as_its_own_code_does(tmp_path: Path) -> None:
    folder = written(tmp_path / "m")
    described = replace(DESCRIBED, code=code_digest(folder / CODE))
    network = Network(described)
    network.load_state_dict(load_tensors((folder / WEIGHTS).read_bytes()))
    network.preprocess.compute_in(torch.float32)
    weights, description, _ = dump(described, network)
    (folder / WEIGHTS).write_bytes(weights)
    (folder / DESCRIPTION).write_bytes(description)
    rows = pd.concat([ROWS] * 150, ignore_index=True)
    encoded = encode(rows.assign(dear=rows["price"] > 2), numeric=("price", "dear"), categorical={"country": "string"})
    with torch.inference_mode():
        plain = torch.sigmoid(network.eval()(*map(torch.from_numpy, encoded)))
    np.testing.assert_array_equal(scores(folder, rows), plain.double().numpy())
    assert not np.array_equal(scores(written(tmp_path / "new"), rows), plain.double().numpy())


@pytest.mark.parametrize(("objective", "classes"), [("ranking", 1), ("regression", 1), ("multiclass", 3)])
def test_a_score_means_what_the_objective_says(tmp_path: Path, objective: str, classes: int) -> None:
    found = scores(written(tmp_path / "m", replace(DESCRIBED, objective=objective, classes=classes)))
    if objective == "multiclass":
        np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-6)
        assert scores(tmp_path / "m", ROWS[:0]).shape == (0, 3)
    else:
        raw = scores(written(tmp_path / "raw", replace(DESCRIBED, objective="ranking")))
        np.testing.assert_allclose(found, raw + (5 if objective == "regression" else 0), rtol=1e-6)


TIED = """
import torch
from torch import nn

class Mine(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.up, self.down = nn.Linear(inputs, inputs, bias=False), nn.Linear(inputs, inputs, bias=False)
        self.down.weight = self.up.weight

    def forward(self, x):
        return self.down(torch.relu(self.up(x))).sum(1)
"""


def test_a_parameter_under_two_names_is_saved_and_loaded_under_both(tmp_path: Path) -> None:
    own = replace(DESCRIBED, architecture=replace(DESCRIBED.architecture, kind="model.py:Mine"))
    folder = written(tmp_path / "m", own, model=TIED)
    kept = load_tensors((folder / WEIGHTS).read_bytes())
    assert torch.equal(kept["body.up.weight"], kept["body.down.weight"])
    expected = scores(written(tmp_path / "again", own, model=TIED))
    np.testing.assert_array_equal(scores(folder), expected)


def test_the_pipelines_own_module_is_a_model_like_any_other(tmp_path: Path) -> None:
    own = replace(DESCRIBED, architecture=replace(DESCRIBED.architecture, kind="model.py:Mine"))
    assert scores(written(tmp_path / "m", own, model=MODULE)).shape == (4,)
    for text, message in {
        "": r"model\.py:1: Mine, which train.model.kind names, is not defined; to do: define it; model.py defines nothing",
        "def Mine(inputs):\n    return 1\n": r"model\.py:1: Mine made an int; to do: return a torch\.nn\.Module",
        "def Mine(inputs):\n    return 1 / 0\n": r"model\.py:2: ZeroDivisionError",
    }.items():
        (tmp_path / "m" / CODE / "model.py").write_text(text, encoding="utf-8")
        with pytest.raises(ConfigurationError, match=message):
            Network(own, custom_body(own, tmp_path / "m" / CODE))


IN_GROUP = """
import torch
from torch import nn

class Mine(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.layer = nn.Linear(inputs, 1)

    def forward(self, x, sizes):
        return torch.cat([self.layer(some - some.mean(0)) for some in x.split(sizes.tolist())])
"""
QUERIES = pd.DataFrame(
    {"price": np.arange(12.0) % 7, "country": ["DE", "FR", "??"] * 4, "query": ["b", "a", None, "b"] * 3}
)
GROUPED = replace(
    DESCRIBED,
    objective="ranking",
    architecture=replace(DESCRIBED.architecture, kind="model.py:Mine"),
    group=GroupColumn(name="query", type="string"),
)


def test_rows_of_a_group_are_scored_together_wherever_they_are_and_one_without_a_group_alone(tmp_path: Path) -> None:
    model = load(written(tmp_path / "m", GROUPED, model=IN_GROUP))
    assert model.columns == ("price", "country", "query")
    found = model.score(QUERIES)
    for group in (QUERIES["query"] == "a", QUERIES["query"] == "b"):
        np.testing.assert_allclose(model.score(QUERIES[group]), found[group], rtol=1e-5, atol=1e-7)
    alone = [model.score(QUERIES[row : row + 1])[0] for row in range(12)]
    lonely = QUERIES["query"].isna().to_numpy()
    np.testing.assert_allclose(found[lonely], np.array(alone)[lonely], rtol=1e-5, atol=1e-7)
    assert len(set(found[lonely].round(6))) == 1  # each is the mean of itself
    assert abs(found[~lonely] - np.array(alone)[~lonely]).min() > 1e-4
    assert model.score(QUERIES[:0]).shape == (0,)
    many = pd.concat([QUERIES.assign(query=f"q{number}") for number in range(800)])  # more than are computed at once
    np.testing.assert_allclose(model.score(many)[-12:], model.score(QUERIES.assign(query="q")), rtol=1e-5, atol=1e-7)


def test_rows_without_the_column_of_groups_are_refused_where_the_model_reads_groups(tmp_path: Path) -> None:
    model = load(written(tmp_path / "m", GROUPED, model=IN_GROUP))
    with pytest.raises(ConfigurationError, match=r"no column query; to do: the model reads price, country, query"):
        model.score(QUERIES.drop(columns="query"))
    with pytest.raises(DataRejected, match="column query: holds int64 where strings"):
        model.score(QUERIES.assign(query=1))
    own = written(tmp_path / "own", GROUPED, model=MODULE)
    assert json.loads((own / DESCRIPTION).read_bytes())["group"] is None
    assert load(own).score(QUERIES.drop(columns="query")).shape == (12,)


def test_two_models_side_by_side_keep_their_own_features(tmp_path: Path) -> None:
    first = load(written(tmp_path / "a"))
    expected = first.score(ROWS)
    second = load(written(tmp_path / "b", features=FEATURES.replace("> 2", "> -1")))
    assert not np.array_equal(second.score(ROWS), expected)
    np.testing.assert_array_equal(first.score(ROWS), expected)


def test_the_same_model_has_the_same_bytes_and_identity(tmp_path: Path) -> None:
    digests = {load(written(tmp_path / name)).digest for name in "ab"}
    files = [(tmp_path / "a" / name).read_bytes() for name in (WEIGHTS, DESCRIPTION)]
    assert files == [(tmp_path / "b" / name).read_bytes() for name in (WEIGHTS, DESCRIPTION)]
    assert digests == {digest_of_model(*files)}


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def other(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}), encoding="utf-8")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: flip(folder / WEIGHTS), "is not what description.json describes"),
        (lambda folder: (folder / WEIGHTS).unlink(), "no model can be read"),
        (lambda folder: (folder / DESCRIPTION).write_text("{}"), "no model can be read"),
        (lambda folder: other(folder / DESCRIPTION, ids="0" * 64), "by other ids"),
        (lambda folder: other(folder / DESCRIPTION, classes=2), "size mismatch"),
        (lambda folder: flip(folder / CODE / "features.py"), "is not the code that the model was trained with"),
    ],
)
def test_a_model_that_is_not_whole_is_refused(tmp_path: Path, damage: Any, message: str) -> None:
    damage(written(tmp_path / "m"))
    with pytest.raises(CorruptArtifact, match=message):
        load(tmp_path / "m")


def test_rows_that_cannot_be_scored_are_refused_by_column(tmp_path: Path) -> None:
    loaded: ScoringModel = load(written(tmp_path / "m"))
    with pytest.raises(ConfigurationError, match="no column country"):
        loaded.score(ROWS.drop(columns="country"))
    with pytest.raises(DataRejected, match="column country: holds int64 where strings"):
        loaded.score(ROWS.assign(country=1))
