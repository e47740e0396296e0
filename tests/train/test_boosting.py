"""The training of boosted trees, without a stage: it can be stopped anywhere, and ends with the same bytes."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from ratchet.contracts.errors import ConfigurationError
from ratchet.metrics.metrics import Rows as MetricRows
from ratchet.metrics.metrics import measure
from ratchet.model.boosted import Boosted
from ratchet.model.description import Architecture, CategoricalColumn, Description, NumericColumn
from tasks.train.boosting import Boosting
from tasks.train.checkpoint import Checkpointer
from tasks.train.data import Rows
from tasks.train.hooks import Hooks
from tasks.train.joining import join
from tasks.train.loop import TrainResult
from tasks.train.settings import Recipe, Settings
from tasks.train.stopping import StopTraining
from tasks.train.tree_labels import MOST_GAINS, gain, gains_of
from tasks.train.trees import Grower, TreeSettings, TreeText, needed_bytes
from tests.train.miniature import CLASSES, MemoryFolder, rows
from tests.waiting import until

OBJECTIVES = ("ranking", "binary", "regression", "multiclass")
TRAIN, VALID = 1500, 500


def model(objective: str) -> Boosted:
    made = Boosted(
        Description(
            objective=objective,
            numeric=(NumericColumn(name="a", transform=None), NumericColumn(name="b", transform=None)),
            categorical=(CategoricalColumn(name="c", type="int64", vocabulary=10, dimension=4),),
            derived={},
            architecture=Architecture(kind="lightgbm", hidden=(), cross_layers=0, dropout=0.0),
            classes=CLASSES if objective == "multiclass" else 1,
        )
    )
    if objective == "regression":
        made.label_mean.fill_(100.0)
        made.label_scale.fill_(20.0)
    return made


class Night:
    """One training in miniature, and its checkpoints. value: what the metric is, None where it has no value."""

    def __init__(self, objective: str, folder: MemoryFolder | None = None, *, threads: int = 1, **changes: Any) -> None:
        self.model, self.folder = model(objective), folder or MemoryFolder()
        parts = [rows(objective, TRAIN), rows(objective, VALID, seed=1)]
        if objective == "regression":
            draw = torch.Generator().manual_seed(0)
            parts = [replace(one, label=one.label + 20 * torch.randn(len(one), generator=draw)) for one in parts]
        both = join(parts, np.arange(TRAIN + VALID, dtype=np.int32))
        self.train, self.valid = both.split(TRAIN)
        self.both, self.objective = both, objective
        self.stop_at: int | None = None
        self.warnings: list[str] = []
        self.lines: list[dict[str, float]] = []
        self.begun: int | None = None
        self.rounds = 0
        self.settings = Settings(
            objective=objective,
            steps=100,
            epochs=400,
            evaluations=1,
            batch_size=TRAIN,
            learning_rate=0.6,
            weight_decay=0.0,
            seed=0,
            patience=2,
            checkpoint_every_s=1e9,
            lower_is_better=True,
        )
        self.settings = replace(self.settings, **changes)
        self.shape = TreeSettings(
            objective=objective,
            classes=CLASSES if objective == "multiclass" else 1,
            leaves=15,
            rate=0.6,
            min_rows=20,
            unmeasured=7,
            seed=0,
            threads=threads,
        )

    def metric(self, some: Rows, scores: torch.Tensor) -> float | None:
        """A metric of the project's own, of which less is better."""
        label = (some.label == 0 if self.objective == "multiclass" else some.label).double().numpy()
        offsets = None if some.sizes is None else np.append(0, np.cumsum(some.sizes.numpy()))
        name = "ndcg@5" if self.objective == "ranking" else "rmse"
        found = measure(
            name, MetricRows(label=label, offsets=offsets), scores.double().numpy().reshape(len(label), -1)[:, 0]
        )
        return None if found is None else float(found.value) * (-1 if self.objective == "ranking" else 1)

    def alive(self, rounds: int) -> None:
        self.rounds = rounds

    def run(self, **hooks: Any) -> TrainResult:
        def begun(step: int | None, _: object) -> None:
            self.begun = step

        given = Hooks(
            progress=lambda _message, _done, _total, fields: self.lines.append(fields),
            warn=self.warnings.append,
            begun=begun,
            stopping=lambda: self.stop_at is not None and self.rounds >= self.stop_at,
            metric=self.metric,
            finish=lambda raw: raw,
        )
        return Boosting(
            self.model,
            self.settings,
            self.shape,
            train=self.train,
            valid=self.valid,
            both=self.both,
            checkpointer=Checkpointer(self.folder, keep=2, warn=self.warnings.append),
            hooks=replace(given, **hooks),
            alive=self.alive,
        ).run()

    @property
    def text(self) -> bytes:
        return self.model.body.trees.numpy().tobytes()


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_one_that_was_stopped_in_each_part_ends_with_the_bytes_of_one_that_was_not(objective: str) -> None:
    whole = Night(objective, threads=2)
    result = whole.run()
    searched, wanted = result.history[-2].step, round(result.recipe.fall)
    assert 5 <= wanted < searched < 100, "a plateau ended the search"
    folder = MemoryFolder()
    for stop_at in (4, searched - 3, searched + wanted // 2):  # on other numbers of threads
        stopped = Night(objective, folder)
        stopped.stop_at = stop_at
        with pytest.raises(StopTraining):
            stopped.run()
    resumed = Night(objective, folder)
    again = resumed.run()
    assert resumed.begun == searched + wanted // 2
    assert resumed.text == whole.text
    assert np.array_equal(again.trace, result.trace)
    assert [(each.step, each.valid_metric) for each in again.history] == [
        (each.step, each.valid_metric) for each in result.history
    ]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_row_scores_the_same_alone_and_among_others(objective: str) -> None:
    night = Night(objective, recipe=Recipe(level=0, fall=9))
    night.run()
    given = night.valid
    together = night.model.scores(given.numeric, given.places)
    alone = [night.model.scores(given.numeric[row : row + 1], given.places[row : row + 1]) for row in range(50)]
    assert torch.equal(together[:50], torch.cat(alone))
    assert night.model.scores(given.numeric[:0], given.places[:0]).shape == together[:0].shape


def test_an_unknown_category_and_a_missing_number_are_missing() -> None:
    inputs = model("binary").inputs(torch.tensor([[1.5, torch.nan]]), torch.tensor([[0]], dtype=torch.int32))
    assert np.array_equal(inputs, [[1.5, np.nan, np.nan]], equal_nan=True)


def test_a_model_to_repeat_has_as_many_rounds_and_no_search() -> None:
    night = Night("binary", recipe=Recipe(level=50, fall=12))
    result = night.run()
    assert result.recipe == Recipe(level=0, fall=12)
    assert [each.step for each in result.history] == [1, 12], "the first round is what the guard compares with"
    assert result.history[1].loss < result.history[0].loss
    assert result.best == 2
    assert len(TreeText.parse(night.text.decode()).trees) == 12


def test_without_a_metric_the_rounds_are_those_that_nothing_measured() -> None:
    night = Night("binary")
    result = night.run(metric=lambda *_: None)
    assert result.recipe == Recipe(level=0, fall=7)
    assert "it cannot say how many rounds are best, and the model has 7" in night.warnings[0]


def test_trees_that_find_no_split_are_a_constant() -> None:
    night = Night("binary")
    night.shape = replace(night.shape, min_rows=TRAIN)
    result = night.run()
    assert result.recipe.fall == 1
    scores = night.model.scores(night.valid.numeric, night.valid.places)
    assert len(scores.unique()) == 1
    assert float(torch.sigmoid(scores[0])) == pytest.approx(float(night.both.label.mean()), abs=1e-6)


def test_the_gain_of_a_row_is_its_label_times_its_weight() -> None:
    """As in the NDCG of this project, and in the loss of networks: LightGBM's own gain is 2 ** label - 1."""
    weighted = rows("ranking", 200, weighted=True)
    weight = torch.linspace(0.5, 3, 200)
    label = torch.randint(0, 4, (200,), generator=torch.Generator().manual_seed(0)).float()
    grower = Grower(model("ranking"), Night("ranking").shape, given := replace(weighted, label=label, weight=weight))
    places, _ = grower._labels(given)
    gains = np.array([float(gain) for gain in str(grower._parameters()["label_gain"]).split(",")])
    assert np.allclose(gains[places.astype(int)], label * weight, rtol=1e-6)


def test_a_group_that_lightgbm_cannot_rank_is_refused() -> None:
    large = replace(rows("ranking", 10_001), sizes=torch.tensor([10_001]))
    with pytest.raises(ConfigurationError, match=r"a group has 10,001 rows, and lightgbm ranks 10,000 at most"):
        Grower(model("ranking"), Night("ranking").shape, large)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_scale_of_weights_changes_nothing(objective: str) -> None:
    texts = []
    for scale in (1.0, 2.0**-23):  # about 1e-7, without rounding
        night = Night(objective, recipe=Recipe(level=0, fall=3))
        night.both = replace(night.both, weight=scale * torch.linspace(0.5, 2, TRAIN + VALID))
        night.run()
        texts.append(night.text)
    assert texts[0] == texts[1]


def test_validation_days_whose_weights_are_all_0_measure_no_loss() -> None:
    night = Night("binary")
    weight = torch.ones(TRAIN + VALID)
    weight[TRAIN:] = 0
    night.both = replace(night.both, weight=weight, label=night.both.label)
    night.train, night.valid = night.both.split(TRAIN)
    result = night.run()
    assert result.history[0].valid_loss is None


def test_one_large_gain_takes_nothing_from_the_others() -> None:
    count = 2 * MOST_GAINS
    label = torch.from_numpy(np.random.default_rng(0).lognormal(1, 2, count)).float()
    label[0], label[1], label[2] = 1e9, 1e-9, 0
    given = replace(rows("ranking", count), label=label)
    known = gains_of(given)
    place = np.searchsorted((known[1:] + known[:-1]) / 2, gain(given))
    assert len(known) == MOST_GAINS
    assert place[2] == 0
    assert np.allclose(known[place], label, rtol=0.01, atol=0)


def test_a_search_that_has_ended_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Night("binary")
    searched = whole.run().history[-2].step
    folder, begin = MemoryFolder(), Grower.begin

    def killed(grower: Grower, some: Rows, valid: Rows | None, *rest: Any) -> Any:
        if valid is None:
            raise MemoryError
        return begin(grower, some, valid, *rest)

    monkeypatch.setattr(Grower, "begin", killed)
    with pytest.raises(MemoryError):
        Night("binary", folder).run()
    monkeypatch.undo()
    until(lambda: f"step-{searched:010d}.json" in folder.files)
    resumed = Night("binary", folder)
    resumed.valid = resumed.both.split(0)[0]  # nothing can be measured any more
    resumed.run()
    assert resumed.begun == searched
    assert resumed.text == whole.text


def test_a_notice_to_stop_ends_the_reading_of_rows_which_are_sampled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    night, read = Night("binary"), list[int]()
    inputs = Boosted.inputs

    def counted(made: Boosted, standard: torch.Tensor, places: torch.Tensor) -> Any:
        read.append(len(standard))
        return inputs(made, standard, places)

    monkeypatch.setattr(Boosted, "inputs", counted)
    with pytest.raises(StopTraining):
        night.run(stopping=lambda: bool(read))
    assert read == [TRAIN]


def test_the_rows_that_bins_are_made_of_count_as_memory() -> None:
    made = model("binary")
    shape, few, many = Night("binary").shape, 200_000, 400_000
    of_row = (needed_bytes(made, shape, many) - needed_bytes(made, shape, few)) / (many - few)
    assert needed_bytes(made, shape, few) - few * of_row > (200_000 + 65_536) * 3 * 8 * 3, "three columns, thrice"
