import json
import subprocess
import sys
import threading
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.torch import load as load_tensors

from ratchet.contracts import paths, summaries
from ratchet.contracts.errors import (
    ConfigurationError,
    CorruptArtifact,
    DataRejected,
    Preempted,
    RatchetError,
)
from ratchet.contracts.result import PublishedResult
from ratchet.contracts.summaries import TrainedModel
from ratchet.metrics.metrics import Rows, constant, measure
from ratchet.model.files import lay_out
from ratchet.model.rows import read_rows
from ratchet.model.scoring import load
from ratchet.runtime.context import StageContext
from ratchet.store.artifacts import read_bytes
from ratchet.store.checkpoint_folder import StoreCheckpointFolder
from ratchet.store.lease import Waiter, new_lease
from ratchet.store.opening import open_store
from tasks.train.step_sizes import refuse_step_sizes
from tests.features.encoding import validated
from tests.shop import Shop
from tests.world import LAST, World, clicks

DAYS = [LAST - timedelta(days=back) for back in (3, 2, 1, 0)]
ROOT = Path(__file__).resolve().parents[2]
ROWS = 1500
COLUMNS: dict[str, Any] = {
    "query": {"role": "group", "type": "int64"},
    "item": {"role": "categorical", "type": "string"},
    "price": {"role": "numeric", "type": "float64", "min": 0, "transform": "log1p"},
    "clicked": {"role": "label", "type": "int64"},
}
LABELS: dict[str, dict[str, Any]] = {
    "ranking": {},
    "binary": {},
    "regression": {"type": "float64"},
    "multiclass": {"in": [0, 1, 2]},
}
METRIC = {"ranking": "ndcg@3", "binary": "auc", "regression": "rmse", "multiclass": "accuracy"}


def day_rows(day: date, objective: str) -> dict[str, Any]:
    """Dear items and some kinds of items are worth more, up to noise."""
    draw = np.random.default_rng(day.toordinal())
    item, price = draw.integers(0, 20, ROWS), draw.lognormal(3, 1, ROWS)
    worth = (item % 5 - 2) + (np.log1p(price) - 3) + draw.logistic(size=ROWS)
    label = {"regression": 100 + 10 * worth, "multiclass": np.digitize(worth, [-1, 1])}.get(objective, worth > 1)
    return {
        "query": np.arange(ROWS) // 10,
        "item": [f"i{kind}" for kind in item],
        "price": np.where(draw.random(ROWS) < 0.05, np.nan, price),
        "clicked": np.asarray(label, float if objective == "regression" else np.int64),
    }


@dataclass
class Trainings:
    """Nights up to features, and trainings on them."""

    nights: World
    inputs: dict[Any, PublishedResult]

    def train(self, run: str = "0", accumulation: int = 1) -> PublishedResult:
        """`run` names the fingerprint: the same name is the same training."""
        return self.nights.run("train", inputs=self.inputs, parts={"run": run}, accumulation=accumulation)

    def events(self, name: str) -> list[dict[str, Any]]:
        """The events that the stages have logged so far."""
        lines = map(json.loads, self.nights.log.getvalue().splitlines())
        return [line for line in lines if line["event"] == name]

    def settings(self, **changes: Any) -> None:
        self.nights.document["train"].update(changes)

    def scores(self, trained: PublishedResult, folder: Path) -> tuple[pd.DataFrame, Any]:
        """The held-out rows, and the model's scores for them."""
        laid = lay_out(self.nights.store, trained.result, folder, self.nights.folder)
        day = summaries.snapshot(self.inputs["ingest"].result).days[-1]
        path = self.nights.store.local(day.file.key)
        assert path is not None
        df = read_rows(path, self.nights.spec.columns)
        return df, load(laid).score(df.drop(columns="clicked"))


def prepare(folder: Path, objective: str, **files: str) -> Trainings:
    nights = clicks(
        folder,
        source={"window_days": 4},
        columns={**COLUMNS, "clicked": {**COLUMNS["clicked"], **LABELS[objective]}},
        train={
            "objective": objective,
            "epochs": 3,
            "batch_size": 128,
            "learning_rate": 0.01,
            "model": {"embedding_dim": 4, "hidden": [16]},
        },
        evaluate={"metric": METRIC[objective]},
        resources={"train": {"cpus": 1}},
    )
    for name, text in files.items():
        (nights.pipeline / f"{name}.py").write_text(text, encoding="utf-8")
    for day in DAYS:
        nights.put(day, day_rows(day, objective))
    ingest = nights.run("ingest")
    validate = validated(nights, ingest)
    features = nights.run("features", inputs={"ingest": ingest, "validate": validate})
    return Trainings(nights, {"ingest": ingest, "validate": validate, "features": features})


def weights(trainings: Trainings, trained: PublishedResult) -> bytes:
    return read_bytes(trainings.nights.store, trained.result.outputs["weights"])


@pytest.mark.parametrize("objective", LABELS)
def test_a_trained_model_beats_a_constant_on_held_out_rows(tmp_path: Path, objective: str) -> None:
    trainings = prepare(tmp_path, objective)
    published = trainings.train()
    trained = summaries.trained(published.result)
    assert trained.split.train == (DAYS[0], DAYS[1])
    assert trained.rows == 2 * ROWS
    assert trained.evaluations[-1].epoch == pytest.approx(3, abs=0.2)
    assert trained.evaluations[-1].loss < trained.evaluations[0].loss
    assert {
        "training_throughput_samples_per_sec",
        "data_loading_latency_ms",
        "checkpoint_duration_ms",
        "checkpoint_stall_ms",
    } <= set(published.result.metrics)
    df, scores = trainings.scores(published, tmp_path / "model")
    label = df["clicked"].to_numpy(np.float64)
    rows = Rows(label=label, offsets=np.arange(0, ROWS + 1, 10))
    metric = METRIC[objective]
    found, baseline = (measure(metric, rows, each) for each in (scores, constant(objective, metric, rows)))  # type: ignore[arg-type]  # a parameter is any text
    assert found is not None
    assert baseline is not None
    if metric == "rmse":
        assert found.value < 0.9 * baseline.value
    else:
        assert found.value > 1.1 * baseline.value


COMPILED = """
import torch
import torch._inductor.config
from torch import nn

assert torch._inductor.config.deterministic
assert torch.are_deterministic_algorithms_enabled()

def Mine(inputs):
    return nn.Linear(inputs, 1)
"""
TRAIN_IN_A_PROCESS = """
import sys
from pathlib import Path
from tests.train.test_stage import COMPILED, prepare

folder, kind = sys.argv[1:]
trainings = prepare(Path(folder), "binary", **({"model": COMPILED} if "model.py" in kind else {}))
trainings.settings(model={"kind": kind, "embedding_dim": 4})
trainings.train()
print(*sorted({"torch", "torch._dynamo", "torch._inductor"} & set(sys.modules)))
"""


@pytest.mark.parametrize(
    ("kind", "loaded"), [("dcn", ["torch"]), ("model.py:Mine", ["torch", "torch._dynamo", "torch._inductor"])]
)
def test_torchs_compiler_is_loaded_only_by_a_model_that_uses_it_and_is_deterministic(
    tmp_path: Path, kind: str, loaded: list[str]
) -> None:
    call = [sys.executable, "-c", TRAIN_IN_A_PROCESS, str(tmp_path), kind]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, loaded), done.stderr


def test_the_same_seed_gives_the_same_bytes_and_another_seed_gives_others(tmp_path: Path) -> None:
    trainings = prepare(tmp_path, "binary")
    first, second = trainings.train(run="1"), trainings.train(run="2")
    assert weights(trainings, first) == weights(trainings, second)
    assert first.result.content == second.result.content
    trainings.settings(seed=1)
    assert weights(trainings, trainings.train(run="3")) != weights(trainings, first)


class StopsAfter(threading.Event):
    """A notice to stop that arrives after it was polled a number of times."""

    def __init__(self, polls: int) -> None:
        super().__init__()
        self._left = polls

    def is_set(self) -> bool:
        self._left -= 1
        return self._left < 0


@pytest.fixture
def stopped_after(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sends the next stage a notice to stop after so many steps, or none."""
    made = StageContext.__init__

    def stop(polls: int | None) -> None:
        def init(self: StageContext, **fields: Any) -> None:
            made(self, **({**fields, "stopping": StopsAfter(polls)} if polls is not None else fields))

        monkeypatch.setattr(StageContext, "__init__", init)

    return stop


def test_a_training_that_was_stopped_resumes_to_the_same_bytes(tmp_path: Path, stopped_after: Any) -> None:
    trainings = prepare(tmp_path, "ranking")
    trainings.settings(model={"embedding_dim": 4, "hidden": [16], "dropout": 0.2})
    expected = trainings.train(run="whole")
    for steps in (5, 20):
        stopped_after(steps)
        with pytest.raises(Preempted):
            trainings.train(run="cut")
    stopped_after(None)
    resumed = trainings.train(run="cut")
    assert summaries.trained(resumed.result).resumed_from == 5 + 1 + 20 + 1
    assert weights(trainings, resumed) == weights(trainings, expected)
    assert resumed.result.content == expected.result.content


def test_a_module_and_a_loss_of_the_pipeline_are_trained(tmp_path: Path) -> None:
    text = """
import torch
from torch import nn

class Mine(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.layer = nn.Linear(inputs, 1)

    def forward(self, x):
        return self.layer(x)[:, 0]

def loss(scores, labels, weights, groups):
    return (torch.sigmoid(scores) - labels).square().mean()
"""
    trainings = prepare(tmp_path, "binary", model=text)
    trainings.settings(model={"kind": "model.py:Mine", "embedding_dim": 4})
    published = trainings.train()
    df, scores = trainings.scores(published, tmp_path / "model")
    found = measure("auc", Rows(label=df["clicked"].to_numpy(np.float64), offsets=None), scores)
    assert found is not None
    assert found.value > 0.7
    for name, (bad, message) in {
        "loss": (text.replace("labels)", "label)"), r"model\.py:14: NameError"),
        "class": (
            text.replace("Mine(", "Other("),
            r"model\.py:1: Mine, .* is not defined; to do: define it; .* Other, loss",
        ),
        "inputs": (
            text.replace("self, inputs)", "self, inputs, width)"),
            r"model\.py:6: Mine asks for width; allowed: inputs, ",
        ),
        "no constructor": (
            text.replace("__init__(self", "init(self"),
            r"model\.py:5: .* positional arguments? but 2 were",
        ),
        "forward": (
            text.replace("self.layer(x)", "self.tail(x)"),
            r"model\.py:11: AttributeError: .* no attribute 'tail'",
        ),
        "shapes": (
            text.replace("nn.Linear(inputs,", "nn.Linear(inputs + 1,"),
            r"model\.py:11: RuntimeError: .* cannot be",
        ),
        "arity": (
            text.replace("forward(self, x)", "forward(self, x, y)"),
            r"model\.py:10: forward asks for y; allowed: x, ",
        ),
        "output": (
            text.replace("inputs, 1)", "inputs, 3)").replace("(x)[:, 0]", "(x)"),
            r"model\.py:10: forward returned a tensor of shape \[\d+, 3\] for \d+ rows; allowed: a tensor of shape \[rows, 1\]",
        ),
        "parameters": (
            text.replace("weights, groups)", "weights)"),
            r"model\.py:13: loss\(scores, labels, weights\) has the",
        ),
        "number": (
            text.replace(".mean()", ""),
            r"model\.py:13: loss returned a tensor of shape \[\d+\]; allowed: a tensor with one number; to do: return the mean",
        ),
        "gradient": (
            text.replace("(scores)", "(scores.detach())"),
            r"model\.py:13: loss returned a number without a grad",
        ),
    }.items():
        (trainings.nights.pipeline / "model.py").write_text(bad, encoding="utf-8")
        with pytest.raises(ConfigurationError, match=message):
            trainings.train(run=name)


OWN_LOSS = """
import torch
from torch import nn

class Mine(nn.Linear):
    def __init__(self, inputs):
        super().__init__(inputs, 1)

def loss(scores, labels, weights, groups):
    if scores.requires_grad and len(scores) > LIMIT:
        raise ERROR
    return (scores - labels).square().mean()
"""


@pytest.mark.parametrize("objective", ["ranking", "regression"])
def test_micro_batches_give_the_model_of_the_whole_batch(tmp_path: Path, objective: str) -> None:
    trainings = prepare(tmp_path, objective)
    trainings.settings(model={**trainings.nights.document["train"]["model"], "dropout": 0.0, "masked": 0.0})
    whole, split = trainings.train(run="1"), trainings.train(run="2", accumulation=4)
    one, other = (summaries.trained(published.result) for published in (whole, split))
    assert (one.accumulation, one.batch_size) == (1, 128)
    assert (other.accumulation, other.batch_size) == (4, 128)
    assert [each.loss for each in other.evaluations] == pytest.approx([each.loss for each in one.evaluations], rel=5e-3)
    (event,) = trainings.events("accumulation")
    assert event["message"] == "a step of 128 rows is computed in 4 micro-batches, to need less memory"
    assert {"epoch", "step", "steps", "loss", "samples_per_sec", "eta"} <= set(trainings.events("progress")[-1])


def test_a_measurement_is_logged_and_recorded_and_holds_on_the_same_machine_alone(tmp_path: Path) -> None:
    trainings = prepare(tmp_path, "binary")
    trainings.settings(accumulation="fastest", batch_size=256)

    def train(number: int, machine: str, run: str) -> TrainedModel:
        given = {"run": run, "code.tasks.train.probe": "a"}
        ended = trainings.nights.run(
            "train", inputs=trainings.inputs, parts=given, accumulation=number, measured_on=machine
        )
        return summaries.trained(ended.result)

    first = train(1, "", "1")
    assert first.measurement is not None
    assert set(first.measurement.figures) == {1, 2, 4}
    assert first.accumulation == first.segments[0].accumulation == first.measurement.accumulation
    (event,) = trainings.events("micro-batches")
    assert event["message"].startswith(f"micro-batches of a step: {first.accumulation}; milliseconds of a step by")
    second = train(2, first.measurement.machine, "2")
    assert (second.measurement, second.accumulation) == (None, 2)
    third = train(64, "another machine", "3")
    assert third.measurement is not None
    assert set(third.measurement.figures) == {1, 2, 4}


@pytest.mark.parametrize(
    "error",
    [
        "torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 2.00 GiB. See documentation for more')",
        "MemoryError()",
        'RuntimeError("[enforce fail] DefaultCPUAllocator: can\'t allocate memory: you tried to allocate 9 bytes")',
    ],
)
def test_a_step_that_runs_out_of_memory_goes_on_in_smaller_micro_batches_and_the_result_says_so(
    tmp_path: Path, error: str
) -> None:
    text = OWN_LOSS.replace("LIMIT", "90").replace("ERROR", error)
    trainings = prepare(tmp_path, "binary", model=text)
    trainings.settings(model={"kind": "model.py:Mine", "embedding_dim": 4}, batch_size=256)
    trained = summaries.trained(trainings.train().result)
    assert (trained.batch_size, trained.accumulation) == (256, 4)
    assert [(each.begin, each.accumulation) for each in trained.segments] == [(0, 4)]
    assert [event["message"].partition(": ")[0] for event in trainings.events("warning")] == [
        "memory ran out after step 0"
    ] * 2


def test_a_retry_with_other_resources_goes_on_and_a_training_of_something_else_says_why_it_does_not(
    tmp_path: Path, stopped_after: Any
) -> None:
    trainings = prepare(tmp_path, "binary")

    def train(accumulation: int, **parts: str) -> PublishedResult:
        given = {
            "run": "0",
            "config.train.seed": "0",
            "config.resources.train.cpus": "1",
            "accumulation": str(accumulation),
            **parts,
        }
        return trainings.nights.run("train", inputs=trainings.inputs, parts=given, accumulation=accumulation)

    stopped_after(5)
    with pytest.raises(Preempted):
        train(1)
    stopped_after(None)
    resumed = summaries.trained(train(2, **{"config.resources.train.cpus": "2"}).result)
    assert resumed.resumed_from == 6
    assert [(each.begin, each.accumulation) for each in resumed.segments] == [(0, 1), (6, 2)]
    (event,) = trainings.events("resumed")
    assert event["message"] == (
        "goes on from the checkpoint of step 6; a step is computed in 2 micro-batches now, and in 1 up to there"
    )
    other = summaries.trained(train(1, **{"config.train.seed": "1"}).result)
    assert (other.resumed_from, len(other.segments)) == (None, 1)
    (event,) = trainings.events("fresh")
    assert "begins with step 0, not from the checkpoint of another training: run " in event["message"]
    assert event["message"].endswith(" computed something else: config.train.seed: 0 -> 1")


def test_the_error_quotes_the_first_sentences_of_the_gpu_s_error(tmp_path: Path) -> None:
    text = OWN_LOSS.replace("LIMIT", "0").replace(
        "ERROR", "torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 2.00 GiB. See documentation for more')"
    )
    trainings = prepare(tmp_path, "binary", model=text)
    trainings.settings(model={"kind": "model.py:Mine", "embedding_dim": 4})
    with pytest.raises(ConfigurationError) as caught:
        trainings.train()
    assert caught.value.code == 64
    assert "resources.train.memory" in caught.value.remedy
    assert caught.value.cause == (
        "train ran out of memory in a step of 128 rows, in 64 micro-batches: CUDA out of memory. Tried to allocate"
        " 2.00 GiB; they cannot be smaller"
    )


NOT_FINITE = """
from torch import nn

class Mine(nn.Linear):
    def __init__(self, inputs):
        super().__init__(inputs, 1)

def loss(scores, labels, weights, groups):
    return LOSS
"""


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ("scores.mean() / 0", r"the loss is (-?inf|nan) at step 1,"),
        ("(scores * 0).mean().sqrt()", r"the gradient is nan at step 1, in 3,000 rows .* is price = "),
    ],
)
def test_a_value_that_is_not_finite_ends_the_training_before_it_is_saved(
    tmp_path: Path, loss: str, message: str
) -> None:
    trainings = prepare(tmp_path, "binary", model=NOT_FINITE.replace("LOSS", loss))
    trainings.settings(model={"kind": "model.py:Mine", "embedding_dim": 4}, batch_size=2 * ROWS)
    with pytest.raises(RatchetError, match=message):
        trainings.train()
    assert not list(trainings.nights.store.list("checkpoints"))


def test_a_step_larger_than_the_data_is_refused_before_it_is_read(tmp_path: Path) -> None:
    trainings = prepare(tmp_path, "binary")
    trainings.settings(batch_size=2 * ROWS + 1)
    with pytest.raises(
        ConfigurationError, match=r"train\.batch_size: 3,001 is more than the 3,000 rows .* at most 3,000"
    ):
        trainings.train()


def test_training_days_without_a_label_are_refused(tmp_path: Path) -> None:
    trainings = prepare(tmp_path, "binary")
    features = summaries.features(trainings.inputs["features"].result)
    empty = [day.model_copy(update={"rows": 0}) for day in features.days]
    with pytest.raises(DataRejected, match=f"the training days {DAYS[0]} to {DAYS[1]} have no row with a label"):
        refuse_step_sizes(trainings.nights.spec, features.model_copy(update={"days": tuple(empty)}))


@pytest.mark.parametrize(("error", "code"), [(OSError("no space left on device"), 69), (KeyError("x"), 70)])
def test_a_notice_to_stop_whose_save_fails_never_ends_as_saved(
    tmp_path: Path, stopped_after: Any, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    def put(*_: object) -> None:
        raise error

    trainings = prepare(tmp_path, "binary")
    monkeypatch.setattr(StoreCheckpointFolder, "put", put)
    stopped_after(5)
    with pytest.raises(RatchetError, match="notice to stop, but the state of step 6 could not be saved") as caught:
        trainings.train()
    assert caught.value.code == code
    assert "there is no earlier checkpoint" in caught.value.cause


def test_a_run_says_at_its_end_that_checkpoints_could_not_be_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put(*_: object) -> None:
        raise OSError("no space left on device")

    trainings = prepare(tmp_path, "binary")
    monkeypatch.setattr(StoreCheckpointFolder, "put", put)
    published = trainings.train()
    assert published.result.metrics["checkpoint_failures"] == 3
    assert "3 of 3 checkpoints could not be saved" in trainings.events("warning")[-1]["message"]


def test_a_missing_value_has_a_flag_only_where_training_had_missing_values(tmp_path: Path) -> None:
    whole = prepare(tmp_path, "binary")
    (flagged,) = (load_tensors(weights(whole, whole.train()))["preprocess.flagged"],)
    assert flagged.tolist() == [True]


def test_the_rows_of_the_validation_day_count_by_their_weights(tmp_path: Path) -> None:
    def trust(day: date) -> list[float]:
        return [0.0 if day == DAYS[-2] else 1.0] * ROWS

    trainings = prepare(tmp_path, "binary")
    nights = trainings.nights
    nights.document["columns"]["trust"] = {"role": "weight", "type": "float64"}
    for day in DAYS:
        nights.put(day, {**day_rows(day, "binary"), "trust": trust(day)})
    ingest = nights.run("ingest")
    validate = validated(nights, ingest)
    features = nights.run("features", inputs={"ingest": ingest, "validate": validate})
    weighed = Trainings(nights, {"ingest": ingest, "validate": validate, "features": features})
    assert "valid_metric" not in weighed.train().result.metrics
    assert "the validation metric has no value" in weighed.events("warning")[-1]["message"]


def test_a_damaged_array_is_refused_before_training(tmp_path: Path) -> None:
    trainings = prepare(tmp_path, "binary")
    array = trainings.inputs["features"].result.outputs[f"{DAYS[0]}-label.npy"]
    path = trainings.nights.store.local(array.key)
    assert path is not None
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)
    with pytest.raises(CorruptArtifact, match=r"label\.npy is damaged"):
        trainings.train()


def test_without_validation_days_all_epochs_are_trained(tmp_path: Path) -> None:
    trainings = prepare(tmp_path, "binary")
    trainings.settings(valid_days=0)
    trainings.inputs["features"] = trainings.nights.run(
        "features", inputs={name: trainings.inputs[name] for name in ("ingest", "validate")}
    )
    trained = summaries.trained(trainings.train().result)
    assert trained.evaluations[-1].epoch == 3
    assert {each.valid_metric for each in trained.evaluations} == {None}


def test_an_attempt_that_was_replaced_cannot_save_a_checkpoint(tmp_path: Path) -> None:
    shop = Shop.make(open_store((tmp_path / "store").as_uri()), tmp_path / "scratch")
    shop.store.prepare()
    late, current = (shop.request("train", attempt=name) for name in ("late", "current"))
    StoreCheckpointFolder(shop.store, late, tmp_path).put("step-0000000001.json", b"{}")
    key = paths.lease(late.spec.name, "train", late.fingerprint)
    hold = Waiter(shop.store, key, new_lease(current.run_id, "current")).take()
    assert hold is not None
    StoreCheckpointFolder(shop.store, current, tmp_path).put("step-0000000002.json", b"{}")
    with pytest.raises(RatchetError, match="attempt current has replaced this one, late"):
        StoreCheckpointFolder(shop.store, late, tmp_path).put("step-0000000003.json", b"{}")
    assert hold.release()
    assert list(StoreCheckpointFolder(shop.store, current, tmp_path).names()) == [
        "origin.json",
        "step-0000000001.json",
        "step-0000000002.json",
    ]


def test_a_network_that_does_not_fit_is_refused_before_a_day_is_read(tmp_path: Path) -> None:
    trainings = prepare(tmp_path, "regression", model="from torch import nn\n\ndef Mine(inputs):\n    return One(inputs, 1)\n\nclass One(nn.Linear):\n    def forward(self, x):\n        return super().forward(x).mean()\n")  # fmt: skip
    trainings.settings(model={"kind": "model.py:Mine", "embedding_dim": 4})
    for array in summaries.features(trainings.inputs["features"].result).days[0].arrays.values():
        path = trainings.nights.store.local(array.key)
        assert path is not None
        path.unlink()
    with pytest.raises(ConfigurationError, match=r"model\.py:7: forward returned a tensor of shape \[\] for 24 rows"):
        trainings.train()
