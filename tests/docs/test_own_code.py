"""The page about one's own code says what is true: its example runs, and what it promises holds."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from tests.docs.blocks import Done, commands, files, python, run, shell, shows
from tests.docs.conftest import Tutorial

pytestmark = [pytest.mark.heavy, pytest.mark.xdist_group("docs"), pytest.mark.timeout(1200)]
COMMANDS = commands("own-code.md")
FILES = files("own-code.md")
NIGHT = "ratchet run {} --date {} --runner process; echo exit code $?"
DAY, BEFORE_SHOPS_CHANGE = "2026-11-20", "2026-11-17"
SERVED = """
import json
import mlflow, numpy, pandas

mlflow.set_tracking_uri("sqlite:///.ratchet/store/mlflow/mlflow.db")
model = mlflow.pyfunc.load_model("models:/late-orders-own@champion")
rows = pandas.read_csv("orders/2026-11-20.csv", parse_dates=["ordered_at"]).drop(columns="late").head(50)
scores = model.predict(rows)
alone = numpy.concatenate([model.predict(rows[place : place + 1]) for place in range(len(rows))])
holes = rows.assign(ordered_at=rows["ordered_at"].where(rows.index > 0), items=[None, *rows["items"][1:]])
try:
    refusal = model.predict(rows.drop(columns="ordered_at"))
except Exception as error:
    refusal = str(error)
print(json.dumps({
    "alone as in a batch": bool(abs(alone - scores).max() < 1e-6),
    "times as text": bool((model.predict(rows.assign(ordered_at=rows["ordered_at"].astype(str))) == scores).all()),
    "missing values": bool((numpy.abs(model.predict(holes) - scores)[1:] < 1e-6).all()),
    "no rows": model.predict(rows[:0]).shape == (0,),
    "what derive reads is needed": "features.py" in refusal and "ordered_at" in refusal,
}))
"""
# Every promise of the page about what own code is given, as an assertion of that code.
SPY = {
    "pipeline.yaml": """
name: spy
source: {kind: files, uri: "baskets/{date}.csv", window_days: 6}
columns:
  ordered_at:  {role: time, type: timestamp}
  shop:        {role: categorical, type: string}
  basket:      {role: group, type: int64}
  late:        {role: categorical, type: int64}
  hour:        {role: numeric, type: float64, derived: true, max: 23}
  items:       {role: weight, type: int64}
  distance_km: {role: label, type: float64}
train:
  objective: regression
  epochs: 8
  batch_size: 256
  learning_rate: 0.02
  model: {kind: "model.py:make", embedding_dim: 4}
""",
    "features.py": """
def derive(df):
    assert list(df.columns) == ["ordered_at", "shop", "basket", "late"], list(df.columns)
    assert [str(kind) for kind in df.dtypes] == ["datetime64[us]", "str", "int64", "int64"], df.dtypes
    assert df["ordered_at"].dt.date.nunique() == 1
    df["hour"] = df["ordered_at"].dt.hour
    df["stranger"] = 1
    return df
""",
    "model.py": """
import torch
from torch import nn


class Spy(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        assert inputs == 2 * 1 + 2 * 4, inputs
        self.head = nn.Linear(inputs, 1)

    def forward(self, x):
        assert (x.dtype, x.shape[1]) == (torch.float32, 10)
        assert x[:, 0].abs().max() <= 10
        assert (x[:, 1] == 0).all()
        return self.head(x)


def make(inputs):
    return Spy(inputs)


def loss(scores, labels, weights, groups):
    assert scores.shape == labels.shape == weights.shape == groups.shape
    assert {scores.dtype, labels.dtype, weights.dtype} == {torch.float32}
    assert groups.dtype == torch.int64 and groups[0] == 0 and set(groups.diff().tolist()) <= {0, 1}
    assert labels.mean().abs() < 0.5 and 0.5 < labels.std() < 1.5
    assert weights.min() >= 1
    return (weights * (scores - labels).square()).mean()
""",
}
KILOMETRES = """
import mlflow, pandas

mlflow.set_tracking_uri("sqlite:///.ratchet/store/mlflow/mlflow.db")
model = mlflow.pyfunc.load_model("models:/spy@champion")
moment = pandas.Timestamp("2026-11-20 19:00").as_unit("us")
print(*(model.predict([{"ordered_at": moment, "shop": "hill", "basket": 1, "late": late}])[0] for late in (0, 1)))
"""


def write(folder: Path, contents: dict[str, str]) -> None:
    folder.mkdir()
    for name, text in contents.items():
        (folder / name).write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tutorial: Tutorial, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tutorial's orders and the example of the page."""
    folder = tmp_path_factory.mktemp("own")
    shutil.copytree(tutorial.folder / "orders", folder / "orders")
    write(folder / "late-orders-own", FILES)
    return folder


@pytest.fixture(scope="module")
def done(folder: Path) -> tuple[Done, ...]:
    """How each command and program of the page ended, in order."""
    return tuple(run(command, folder) for command in COMMANDS)


@pytest.mark.parametrize("place", range(len(COMMANDS)))
def test_the_example_of_the_page_runs_and_prints_what_is_shown(done: tuple[Done, ...], place: int) -> None:
    assert done[place].code == 0, done[place].printed
    shown, printed = COMMANDS[place].shown, done[place].printed
    assert shows(shown, printed), f"shown:\n{shown}\nprinted:\n{printed}"


def test_the_served_example_takes_what_callers_send(folder: Path, done: tuple[Done, ...]) -> None:
    served = python(SERVED, folder)
    assert served.code == 0, served.printed
    answers = json.loads(served.printed.splitlines()[-1])
    assert [claim for claim, holds in answers.items() if not holds] == []


def test_own_code_is_given_what_the_page_says_and_serves_in_the_labels_unit(folder: Path) -> None:
    (folder / "baskets").mkdir()
    for path in (folder / "orders").glob("*.csv"):
        orders = pd.read_csv(path)
        orders.assign(basket=orders.index // 4).to_csv(folder / "baskets" / path.name, index=False)
    write(folder / "spy", SPY)
    night = shell(NIGHT.format("spy", BEFORE_SHOPS_CHANGE), folder)
    assert "model spy version 1: in production" in night.printed, night.printed
    on_time, late = (float(score) for score in python(KILOMETRES, folder).printed.splitlines()[-1].split())
    assert 1 < on_time < late < 8


@pytest.mark.parametrize(
    ("file", "text", "instead", "code", "message"),
    [
        ("features.py", "return df.assign(", "return df.dropna().head(5).assign(", 64, "features.py:6: derive gave 5 rows for 2000"),
        ("features.py", "from calendar_days import HOLIDAYS", "HOLIDAYS = UNKNOWN", 64, "features.py:3: NameError"),
        ("model.py", "inputs, 32)", "width, 32)", 64, "model.py:9: NameError"),
        ("model.py", ".mean()", "", 64, "model.py:19: loss returned a tensor of shape"),
        ("model.py", "self.head(hidden)", "self.tail(hidden)", 64, "model.py:16: AttributeError: 'Residual' object has no attribute 'tail'"),
    ],
    ids=["rows", "import", "constructor", "loss", "forward"],
)  # fmt: skip
def test_a_mistake_ends_as_the_page_says(
    folder: Path, done: tuple[Done, ...], file: str, text: str, instead: str, code: int, message: str
) -> None:
    assert text in FILES[file]
    shutil.rmtree(folder / "mistake", ignore_errors=True)
    write(folder / "mistake", {**FILES, file: FILES[file].replace(text, instead)})
    night = shell(NIGHT.format("mistake", DAY), folder)
    assert message in night.printed, night.printed
    assert night.printed.endswith(f"exit code {code}\n")


@pytest.mark.parametrize(
    ("file", "text", "instead", "message"),
    [
        ("features.py", "def derive(", "def derived(", "features.py does not define derive"),
        ("model.py", "class Residual(", "class Other(", "model.py does not define Residual"),
        ("model.py", "import torch", "import torch as", "model.py:1: is not Python"),
        (
            "features.py",
            'df["distance_km"] /',
            'df["distance_km"].rank() /',
            "features.py:10: derive makes km_per_item ",
        ),
        ("model.py", "surprise).mean()", "surprise).sum()", "model.py:19: loss of 24 rows is "),
    ],
)
def test_check_reports_a_mistake_of_the_files(
    folder: Path, tmp_path: Path, file: str, text: str, instead: str, message: str
) -> None:
    write(tmp_path / "mistake", {**FILES, file: FILES[file].replace(text, instead, 1)})
    done = shell(f"ratchet check {tmp_path}/mistake", folder)
    assert (done.code, message in done.printed) == (64, True), done.printed
