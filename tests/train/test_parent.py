"""A training stage that begins with a parent: what it takes, what it says, and that a SIGKILL changes no bit of it."""

import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from ratchet.contracts import paths, summaries
from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.parent import Parent
from ratchet.contracts.request import StageRequest
from ratchet.contracts.result import PublishedResult
from ratchet.runtime.release import stage_code
from tasks.train.settings import Recipe
from tasks.train.warm_start import shorten
from tests.saved_checkpoints import saved_checkpoints
from tests.train.miniature import settings
from tests.train.test_stage import DAYS, LABELS, Trainings, prepare, weights
from tests.waiting import until


def parent_of(published: PublishedResult, *, epochs: float = 5.0) -> Parent:
    return Parent(
        model="clicks",
        version="1",
        digest=published.result.content,
        data_date=DAYS[-1] - timedelta(days=1),
        weights=published.result.outputs["weights"],
        description=published.result.outputs["description"],
        since=DAYS[0] - timedelta(days=1),
        until=DAYS[1],
        epochs=epochs,
    )


def request(trainings: Trainings, parent: Parent | None, *, run: str, fresh: str = "") -> StageRequest:
    parts = {**stage_code("train"), "run": run, **({"parent": parent.digest} if parent else {})}
    made = trainings.nights.request("train", inputs=trainings.inputs, parts=parts, attempt=f"attempt-{run}")
    return made.model_copy(update={"parent": parent, "fresh": fresh})


def train(trainings: Trainings, asked: StageRequest) -> PublishedResult:
    return trainings.nights.finish(asked)[1]


@pytest.mark.parametrize("objective", LABELS)
def test_it_begins_with_the_parent_and_takes_a_fifth_of_its_epochs(tmp_path: Path, objective: str) -> None:
    trainings = prepare(tmp_path, objective)
    fresh = trainings.train()
    parent = parent_of(fresh, epochs=6.0)
    made = summaries.trained(train(trainings, request(trainings, parent, run="1")).result)
    begun = made.warm_start
    assert begun is not None
    assert begun.parent == parent
    assert (begun.parameters, begun.rows) == (begun.of_parameters, begun.of_rows)
    assert (made.level, made.fall) == (0, pytest.approx(1.2, abs=0.02))
    before = summaries.trained(fresh.result).evaluations
    assert made.evaluations[0].loss < before[0].loss
    (event,) = trainings.events("init")
    assert event["message"] == f"begins with {parent.title}: {begun.in_words}"


def test_the_same_parent_gives_the_same_bytes_and_another_one_gives_others(tmp_path: Path) -> None:
    trainings = prepare(tmp_path, "binary")
    fresh = trainings.train()
    trainings.settings(seed=1)
    other = trainings.train(run="other")
    first, second, third = (
        weights(trainings, train(trainings, request(trainings, parent_of(one), run=name)))
        for name, one in (("1", fresh), ("2", fresh), ("3", other))
    )
    assert first == second
    assert third not in {first, weights(trainings, fresh), weights(trainings, other)}


def test_it_says_why_it_begins_fresh(tmp_path: Path) -> None:
    trainings = prepare(tmp_path, "binary")
    made = train(trainings, request(trainings, None, run="1", fresh="no model is in production yet"))
    assert summaries.trained(made.result).warm_start is None
    (event,) = trainings.events("init")
    assert event["message"] == "begins with random weights: no model is in production yet"
    assert made.result.content == trainings.train(run="2").result.content


def test_a_parent_that_was_damaged_since_is_never_left_out_in_silence(tmp_path: Path) -> None:
    trainings = prepare(tmp_path, "binary")
    parent = parent_of(trainings.train())
    trainings.nights.store.delete(parent.weights.key)
    with pytest.raises(CorruptArtifact, match="is gone"):
        train(trainings, request(trainings, parent, run="1"))


def test_a_warm_start_that_is_killed_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    trainings = prepare(tmp_path, "binary")
    parent = parent_of(trainings.train(), epochs=500.0)
    trainings.settings(epochs=2000, checkpoint={"steps": 20})
    undisturbed = train(trainings, request(trainings, parent, run="whole"))
    asked = request(trainings, parent, run="killed")
    path = tmp_path / "request.json"
    path.write_text(asked.model_dump_json(by_alias=True), encoding="utf-8")
    store = trainings.nights.store
    begun = paths.checkpoints("clicks", "train")
    others = saved_checkpoints(store, begun)
    command = [sys.executable, "-m", "ratchet.cli.main", "stage", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as stage:
        until(lambda: stage.poll() is not None or saved_checkpoints(store, begun) - others, seconds=100)
        assert stage.poll() is None, stage.communicate()[0]
        stage.send_signal(signal.SIGKILL)
    resumed = train(trainings, asked)
    assert summaries.trained(resumed.result).resumed_from
    assert weights(trainings, resumed) == weights(trainings, undisturbed)


def test_steps_and_epochs_bound_a_warm_start_and_a_recipe_stays() -> None:
    usual = settings("binary", epochs=40, steps=8000, batch_size=100)
    assert shorten(usual, epochs=20.0, rows=1000).recipe == Recipe(level=0.0, fall=4.0)
    assert shorten(usual, epochs=2.0, rows=1000).recipe == Recipe(level=0.0, fall=1.0)
    assert shorten(settings("binary", epochs=3), epochs=100.0, rows=1000).recipe == Recipe(level=0.0, fall=3.0)
    few = settings("binary", epochs=40, steps=5, batch_size=100)
    assert shorten(few, epochs=20.0, rows=1000).recipe == Recipe(level=0.0, fall=0.5)
    repeated = settings("binary", recipe=Recipe(level=1.0, fall=2.0))
    assert shorten(repeated, epochs=20.0, rows=1000) == repeated
