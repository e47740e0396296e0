"""serve: the registered model on raw rows, against its bare torch module on rows that are encoded already.

The default network with ten numbers and nine columns of text, with 1,000 values each. Our side takes a data frame of
raw rows, as a service gets it: texts become ids, numbers are standardised, and scores have the same bits whatever else
is asked. The other side is the same module in float32, on tensors, in blocks of as many rows. Interleaved; medians. One
row: the median of 300 requests of a data frame with one row.
"""

import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd
import torch

from benchmarks import measure
from benchmarks.made_up import DEFAULT
from benchmarks.measure import Result
from ratchet.model.description import (
    CODE,
    DESCRIPTION,
    WEIGHTS,
    CategoricalColumn,
    Description,
    NumericColumn,
)
from ratchet.model.encoding import encode
from ratchet.model.hashing import text_ids
from ratchet.model.networks import Network
from ratchet.model.saving import code_digest, dump
from ratchet.model.scoring import ScoringModel, load
from tasks.train.building import dimension

_NUMBERS, _TEXTS, _VALUES = 10, 9, 1000
_ROWS, _ONES = 10_000, 300


def run(*, full: bool) -> Result:
    """The rows are those that the goal names in both variants; the full one has more rounds."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="ratchet-") as folder:
        network, model = _model(Path(folder))
    rows = _raw_rows(_ROWS)
    numbers, ids = (torch.from_numpy(each) for each in _encoded(rows))
    one = rows.iloc[:1]

    def ours() -> object:
        return model.score(rows)

    def bare() -> object:
        with torch.inference_mode():
            return network(numbers, ids)

    ours(), bare()
    seconds = [(measure.seconds(ours), measure.seconds(bare)) for _ in range(15 if full else 5)]
    per_model, per_module = (median(each) for each in zip(*seconds, strict=True))
    model.score(one)
    latency = sorted(measure.seconds(lambda: model.score(one)) for _ in range(_ONES))
    ratio = per_model / per_module
    return Result(
        name="serve",
        ratio=ratio,
        goal=2.0,
        unit="times the bare module's seconds",
        ours=_ROWS / per_model,
        peer=_ROWS / per_module,
        peer_name="rows/s of the bare module on encoded rows",
        rows=(
            ("rows/s from raw rows; bare module", f"{_ROWS / per_model:,.0f}; {_ROWS / per_module:,.0f}"),
            ("ours / bare (goal: 0.5 or more)", f"{1 / ratio:.2f}"),
            ("one row: p50; p99 (goal: 3 ms)", f"{latency[_ONES // 2] * 1e3:.2f} ms; {latency[-4] * 1e3:.2f} ms"),
        ),
    )


def _model(folder: Path) -> tuple[Network, ScoringModel]:
    """The network, and the model as it is served."""
    description = Description(
        objective="binary",
        numeric=tuple(NumericColumn(name=f"x{number}", transform=None) for number in range(_NUMBERS)),
        categorical=tuple(
            CategoricalColumn(name=f"c{number}", type="string", vocabulary=_VALUES, dimension=dimension(_VALUES))
            for number in range(_TEXTS)
        ),
        derived={},
        architecture=DEFAULT,
        classes=1,
    )
    torch.manual_seed(0)
    network = Network(description)
    known = torch.from_numpy(np.sort(text_ids(_values())))
    network.preprocess.vocabulary.copy_(known.repeat(_TEXTS))
    if network.numbers is not None:
        network.numbers.fit((torch.linspace(-2, 2, DEFAULT.bins + 1, dtype=torch.float64),) * _NUMBERS)
    (folder / CODE).mkdir()
    weights, text, _ = dump(replace(description, code=code_digest(folder / CODE)), network)
    (folder / WEIGHTS).write_bytes(weights)
    (folder / DESCRIPTION).write_bytes(text)
    return network.eval(), load(folder)


def _values() -> list[str]:
    return [f"value-{number}" for number in range(_VALUES)]


def _raw_rows(count: int) -> pd.DataFrame:
    draw, values = np.random.default_rng(0), np.array(_values(), object)
    numbers = {f"x{number}": draw.normal(size=count) for number in range(_NUMBERS)}
    return pd.DataFrame(numbers | {f"c{number}": values[draw.integers(0, _VALUES, count)] for number in range(_TEXTS)})


def _encoded(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    numeric = [f"x{number}" for number in range(_NUMBERS)]
    return encode(rows, numeric=numeric, categorical={f"c{number}": "string" for number in range(_TEXTS)})
