from copy import deepcopy
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ratchet.contracts import paths, summaries
from ratchet.contracts.errors import ConfigurationError, DataRejected
from ratchet.contracts.result import PublishedResult
from ratchet.contracts.summaries import FeatureDay, Validation
from ratchet.model.encoding import category_ids
from ratchet.model.fitted_state import FittedState
from ratchet.store.artifacts import fetch, read_bytes
from ratchet.store.publishing import verify
from tests.features.encoding import D1, D2, D3, at, day_rows, encoded, validated
from tests.world import LAST, Inputs, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = at(tmp_path)
    made.document = deepcopy(made.document)  # some tests change a column
    return made


def declare(world: World, **columns: Any) -> None:
    world.document["columns"] = {**world.document["columns"], **columns}


def arrays(world: World, day: FeatureDay) -> dict[str, np.ndarray]:
    return {name: np.load(fetch(world.store, array, world.folder)) for name, array in day.arrays.items()}


def test_a_day_becomes_arrays_sorted_by_group_without_its_unlabelled_rows(world: World) -> None:
    for day in (D1, D2, D3):
        world.put(day, day_rows())
    found = summaries.features(encoded(world).result)
    assert (found.numeric, found.categorical) == (("price", "cheap"), ("country", "item"))
    assert (found.split.train, found.split.valid, found.split.holdout) == ((D1,), (D2,), (D3,))
    assert [(day.rows, day.unlabelled) for day in found.days] == [(11, 1)] * 3
    made = arrays(world, found.days[0])
    assert {name: array.dtype.str for name, array in made.items()} == {
        "numeric": "<f4",
        "categorical": "<i8",
        "label": "<f4",
        "weight": "<f4",
        "group": "<i8",
    }
    assert made["group"].tolist() == [0, 4, 7, 11]
    order = [0, 3, 6, 9, 4, 7, 10, 2, 5, 8, 11]
    assert made["weight"].tolist() == [1.0 + i for i in order]
    np.testing.assert_array_equal(made["numeric"][:, 0], np.float32([np.nan if i == 5 else i for i in order]))
    assert made["numeric"][:3, 1].tolist() == [1, 0, 0]
    ids = category_ids(pd.Series(["DE", "FR", None]), "string")
    assert made["categorical"][:, 0].tolist() == [ids[i % 3] for i in order]
    assert made["categorical"][4, 1] == 0


def test_the_fit_uses_the_days_for_training_and_validation_alone(world: World) -> None:
    dear = {**day_rows(), "price": [1e6] * 12, "country": ["XX"] * 12}
    world.put(D1, day_rows())
    world.put(D2, day_rows())
    world.put(D3, dear)
    published = encoded(world)
    fitted = FittedState.from_bytes(read_bytes(world.store, published.result.outputs["fitted"]))
    prices = np.log1p([i for i in range(12) if i not in (1, 5)])
    assert fitted.mean[0] == pytest.approx(prices.mean())
    assert fitted.std[0] == pytest.approx(prices.std())
    assert len(fitted.vocabulary[0]) == 3
    assert sorted(fitted.vocabulary[1]) == fitted.vocabulary[1].tolist()
    again = FittedState.from_bytes(fitted.to_bytes())
    assert again.to_bytes() == fitted.to_bytes()


def test_the_next_night_encodes_the_new_day_alone(world: World) -> None:
    days = [D1, D2, D3, LAST + timedelta(days=1)]
    for day in days:
        world.put(day, day_rows())
    first = encoded(world)
    world.log.truncate(0)
    second = encoded(world, days[-1])
    assert world.log.getvalue().count("encoded") == 1
    assert world.log.getvalue().count("reused") >= 2
    assert summaries.features(second.result).days[0] == summaries.features(first.result).days[1]


def test_a_rebuild_encodes_every_day_again_to_the_same_arrays(world: World) -> None:
    for day in (D1, D2, D3):
        world.put(day, day_rows())
    snapshot = world.run("ingest")
    inputs: Inputs = {"ingest": snapshot, "validate": validated(world, snapshot)}
    first = world.run("features", inputs=inputs)
    world.log.truncate(0)
    again = world.run("features", inputs=inputs, parts={"rebuild": "run-7"})
    assert world.log.getvalue().count("encoded") == 3
    assert again.result.content == first.result.content
    assert summaries.features(again.result).days == summaries.features(first.result).days


def test_a_later_run_finds_a_changed_array_by_itself(world: World) -> None:
    for day in (D1, D2, D3):
        world.put(day, day_rows())
    first = encoded(world)
    array = first.result.outputs[f"{D1}-numeric.npy"]
    data, entry = world.store.read(array.key), world.store.head(array.key)
    assert entry
    assert world.store.replace(array.key, data[:-1] + bytes([data[-1] ^ 1]), expected=entry.etag)
    second = encoded(world)
    assert second.result.content == first.result.content
    assert verify(world.store, second) == []
    assert '"event": "damaged"' in world.log.getvalue()


def test_the_same_rows_have_the_same_content(world: World, tmp_path: Path) -> None:
    for day in (D1, D2, D3):
        world.put(day, day_rows())
    first = encoded(world)
    world.store = type(world.store)(tmp_path / "elsewhere")
    world.store.prepare()
    assert encoded(world).result.content == first.result.content


def test_excluded_days_are_left_out_and_the_nearest_ones_validate(world: World) -> None:
    world.document["source"]["window_days"] = 4
    for back in range(4):
        world.put(LAST - timedelta(days=back), day_rows())
    found = summaries.features(encoded(world, excluded=(D2,)).result)
    assert (found.split.train, found.split.valid, found.split.holdout) == ((D1 - timedelta(days=1),), (D1,), (D3,))
    with pytest.raises(DataRejected, match="no day left to train on"):
        encoded(world, excluded=(D1, D2))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clicked": [2] * 12}, f"{D1}: column clicked: 12 rows have values that a binary label"),
        ({"trust": [-1.0] * 12}, f"{D1}: column trust: 11 rows have values that a weight"),
    ],
)
def test_labels_and_weights_that_cannot_be_learnt_from_are_refused(
    world: World, changes: dict[str, Any], message: str
) -> None:
    world.put(D1, {**day_rows(), **changes})
    for day in (D2, D3):
        world.put(day, day_rows())
    with pytest.raises(DataRejected, match=message):
        encoded(world)


@pytest.mark.parametrize(
    ("objective", "changes", "message"),
    [
        ("regression", {"clicked": [1e200, 0.5] * 6}, "column clicked: 6 rows have values that a regression label"),
        ("ranking", {"clicked": [1e39, 0.0] * 6}, "column clicked: 6 rows have values that a ranking label"),
        ("binary", {"trust": [1e39] * 12}, "column trust: 11 rows have values that a weight"),
    ],
)
def test_labels_and_weights_beyond_what_a_float_holds_are_refused(
    world: World, objective: str, changes: dict[str, Any], message: str
) -> None:
    if objective != "binary":
        declare(world, clicked={"role": "label", "type": "float64"})
    world.document["train"] = {"objective": objective}
    for day in (D1, D2, D3):
        world.put(day, {**day_rows(), **changes})
    with pytest.raises(DataRejected, match=message):
        encoded(world)


def test_labels_that_no_float_tells_apart_are_refused_by_name(world: World) -> None:
    world.document["train"] = {"objective": "regression"}
    for day in (D1, D2, D3):
        world.put(day, {**day_rows(), "clicked": [2**62 + i for i in range(12)]})
    with pytest.raises(DataRejected, match=r"columns\.clicked: the values of .* differ by less than a float64 shows"):
        encoded(world)


def test_a_row_without_a_group_is_its_own_group_unless_rows_are_ranked(world: World) -> None:
    for day in (D1, D2, D3):
        world.put(day, {**day_rows(), "query_id": ["q"] * 9 + [None] * 3})
    found = summaries.features(encoded(world).result)
    assert arrays(world, found.days[0])["group"].tolist() == [0, 8, 9, 10, 11]
    world.document["train"] = {"objective": "ranking"}
    with pytest.raises(DataRejected, match="column query_id: 3 rows have no group"):
        encoded(world)


def test_an_error_in_features_py_is_reported_with_its_line(world: World) -> None:
    for day in (D1, D2, D3):
        world.put(day, day_rows())
    (world.pipeline / "features.py").write_text("def derive(df):\n    return df['prize']\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"features\.py:2: derive reads the column 'prize'"):
        encoded(world)


def test_multiclass_labels_stay_whole_and_regression_labels_are_fitted(world: World) -> None:
    declare(world, clicked={"role": "label", "type": "int64", "in": [0, 1, 2]})
    world.document["train"] = {"objective": "multiclass"}
    for day in (D1, D2, D3):
        world.put(day, {**day_rows(), "clicked": [i % 3 for i in range(12)]})
    found = summaries.features(encoded(world).result)
    assert arrays(world, found.days[0])["label"].dtype == np.int64
    world.document["train"] = {"objective": "regression"}
    found = encoded(world)
    assert arrays(world, summaries.features(found.result).days[0])["label"].dtype == np.float64
    fitted = FittedState.from_bytes(read_bytes(world.store, found.result.outputs["fitted"]))
    label, weight = np.arange(12) % 3, 1.0 + np.arange(12)
    assert (fitted.label_mean, fitted.label_std) == (
        pytest.approx(np.average(label, weights=weight)),
        pytest.approx(np.cov(label, aweights=weight, ddof=0) ** 0.5),
    )


SECONDS = 1_790_000_000


def test_numbers_that_a_float32_cannot_hold_keep_their_digits(world: World) -> None:
    declare(world, seen={"role": "numeric", "type": "int64"})
    for day in (D1, D2, D3):
        world.put(day, {**day_rows(), "seen": [SECONDS + 60 * i for i in range(12)]})
    published = encoded(world)
    made = arrays(world, summaries.features(published.result).days[0])
    assert made["numeric"].dtype == np.float64
    assert sorted(made["numeric"][:, 2]) == [SECONDS + 60 * i for i in range(12) if i != 1]
    fitted = FittedState.from_bytes(read_bytes(world.store, published.result.outputs["fitted"]))
    place = summaries.features(published.result).numeric.index("seen")
    assert fitted.std[place] == pytest.approx(60 * np.std([i for i in range(12) if i != 1]))


@pytest.mark.parametrize("step", [1, 100])
def test_whole_numbers_that_no_float_tells_apart_are_refused_by_name(world: World, step: int) -> None:
    declare(world, seen={"role": "numeric", "type": "int64"})
    for day in (D1, D2, D3):
        world.put(day, {**day_rows(), "seen": [2**62 + step * i for i in range(12)]})
    with pytest.raises(DataRejected, match=r"columns\.seen: the values of .* differ by less than a float64 shows"):
        encoded(world)


def test_large_whole_numbers_far_apart_and_constant_ones_are_read(world: World) -> None:
    declare(world, seen={"role": "numeric", "type": "int64"})
    for values in ([2**62 // (1 + i) for i in range(12)], [2**62 + 1] * 12, [-(2**63), 2**63 - 1] * 6):
        for day in (D1, D2, D3):
            world.put(day, {**day_rows(), "seen": values})
        assert encoded(world)


@pytest.mark.parametrize(
    ("train", "changes", "message"),
    [
        ("binary", {"clicked": [0] * 12}, "columns.clicked: every row of .* has the label 0; a binary model needs two"),
        ("binary", {"clicked": [1] * 12}, "columns.clicked: every row of .* has the label 1; a binary model needs two"),
        ("ranking", {"clicked": [0] * 12}, "columns.clicked: no row of .* has a positive label"),
        ("binary", {"trust": [0.0] * 12}, "columns.trust: every row of .* has weight 0"),
        ("binary", {"price": [None] * 12}, "columns.price: no row of .* has a value"),
        ("binary", {"country": [None] * 12}, "columns.country: no row of .* has a value"),
        ("binary", {"item": [None] * 12}, "columns.item: no row of .* has a value"),
    ],
)
def test_training_days_that_nothing_can_be_learnt_from_are_refused_before_training(
    world: World, train: str, changes: dict[str, Any], message: str
) -> None:
    world.document["train"] = {"objective": train}
    for day in (D1, D2, D3):
        world.put(day, {**day_rows(), **changes})
    with pytest.raises(DataRejected, match=message):
        encoded(world)


def test_one_class_of_a_multiclass_label_is_refused(world: World) -> None:
    declare(world, clicked={"role": "label", "type": "int64", "in": [0, 1, 2]})
    world.document["train"] = {"objective": "multiclass"}
    for day in (D1, D2, D3):
        world.put(day, {**day_rows(), "clicked": [2] * 12})
    with pytest.raises(DataRejected, match="has the label 2; a multiclass model needs two classes"):
        encoded(world)


def test_only_the_training_days_have_to_be_learnable(world: World) -> None:
    world.put(D1, day_rows())
    for day in (D2, D3):
        world.put(day, {**day_rows(), "clicked": [0] * 12})
    assert encoded(world)


def breaking(world: World, code: str, **rules: Any) -> None:
    """A derived column `hour` with these rules, which derive makes by this code."""
    world.document["columns"]["hour"] = {"role": "numeric", "type": "float64", "derived": True, **rules}
    made = f"import numpy as np\ndef derive(df):\n    df['cheap'] = df['price'] < 3\n    df['hour'] = {code}\n    return df\n"
    (world.pipeline / "features.py").write_text(made, encoding="utf-8")
    for day in (D1, D2, D3):
        world.put(day, day_rows())


@pytest.mark.parametrize(
    ("code", "rules", "message"),
    [
        ("-999.0", {"min": 0}, "column hour: min: least -999; allowed: at least 0 (columns.hour.min)"),
        ("25.0", {"max": 24}, "column hour: max: greatest 25; allowed: at most 24 (columns.hour.max)"),
        ("25.0", {"in": [1, 2]}, "column hour: in: 25.0 (11 rows); allowed: 1, 2 (columns.hour.in)"),
        ("np.nan", {"max_null": "20%"}, "column hour: null: 100 % missing (11 rows); allowed: at most 20 %"),
        ("np.inf", {}, "column hour: finite: 11 rows infinite; allowed: finite numbers (columns.hour.type)"),
    ],
)
def test_a_derived_column_that_breaks_a_rule_stops_the_run_with_column_and_rule(
    world: World, code: str, rules: dict[str, Any], message: str
) -> None:
    breaking(world, code, **rules)
    with pytest.raises(DataRejected) as caught:
        encoded(world)
    assert message in caught.value.cause
    kept = Validation.model_validate_json(world.store.read(paths.checks("clicks", world.run_id, "features")))
    assert {check.column for check in kept.failures(LAST)} == {"hour"}


def test_the_rules_of_a_derived_column_warn_where_it_says_so(world: World) -> None:
    breaking(world, "df['price'].fillna(-999.0)", min=0, on_breach="warn")
    world.put(D3, {**day_rows(), "price": [None] * 12})
    assert summaries.features(encoded(world).result).excluded == ()
    assert "column hour: min: least -999; allowed: at least 0" in world.log.getvalue()
    world.document["columns"]["hour"]["on_breach"] = "fail"
    with pytest.raises(DataRejected, match="column hour: min: least -999"):
        encoded(world)


def test_a_derived_column_without_a_value_in_the_window_leads_to_the_code_that_makes_it(world: World) -> None:
    breaking(world, "np.nan")
    with pytest.raises(DataRejected, match=r"columns\.hour: no row of the training day") as caught:
        encoded(world)
    assert "derive in features.py" in caught.value.remedy


def test_a_rule_that_is_added_later_is_checked_on_days_that_are_encoded_already(world: World) -> None:
    breaking(world, "-999.0")
    encoded(world)
    world.document["columns"]["hour"]["min"] = 0
    with pytest.raises(DataRejected, match="column hour: min: least -999"):
        encoded(world)


def test_an_earlier_day_on_which_a_derived_column_breaks_a_rule_is_left_out_or_stops_the_run(world: World) -> None:
    world.document["source"]["window_days"] = 4
    first = D1 - timedelta(days=1)
    world.put(first, {**day_rows(), "price": [1e6] * 12})
    breaking(world, "df['price'].fillna(1.0)", max=1000)
    found = summaries.features(encoded(world).result)
    assert found.excluded == (first,)
    assert found.split.train == (D1,)
    assert f"{first} is excluded: {first} column hour: max: greatest 1e+06" in world.log.getvalue()
    world.document["validate"] = {"bad_days": "fail"}
    with pytest.raises(DataRejected, match=f"{first} column hour: max"):
        encoded(world)


def test_a_derived_column_without_a_value_is_a_warning_by_name(world: World) -> None:
    breaking(world, "df['price']")
    world.put(D3, {**day_rows(), "price": [None] * 12})
    found = summaries.features(encoded(world).result)
    assert {(check.column, check.rule, check.severity) for check in found.checks} == {("hour", "empty", "warning")}
    assert f"{D3} column hour: empty: no value on any row" in world.log.getvalue()


def fitted_price(world: World, output: str, published: PublishedResult) -> float:
    """The mean of the price, after its transform, that an output of features holds."""
    return float(FittedState.from_bytes(read_bytes(world.store, published.result.outputs[output])).mean[0])


def price(*values: float) -> dict[str, Any]:
    """A day of twelve rows with this price, or these in turn."""
    return {**day_rows(), "price": [values[i % len(values)] for i in range(12)]}


def test_for_a_refit_the_fit_is_made_on_the_validation_and_held_out_days_too(world: World) -> None:
    for day, value in ((D1, 1.0), (D2, 2.0), (D3, 30.0)):
        world.put(day, price(value, value + 1))
    plain = encoded(world)
    world.document["train"] = {**world.document["train"], "refit": True}
    published = encoded(world)
    assert summaries.features(plain.result).refit == ()
    assert "refitted" not in plain.result.outputs
    assert summaries.features(published.result).refit == (D1, D2, D3)
    assert published.result.outputs["fitted"].sha256 == plain.result.outputs["fitted"].sha256
    assert published.result.content == plain.result.content  # so train is not run again
    labelled = [i for i in range(12) if i != 1]
    wanted = np.log1p([value + i % 2 for value in (1.0, 2.0, 30.0) for i in labelled]).mean()
    assert fitted_price(world, "refitted", published) == pytest.approx(wanted)


def test_a_refit_leaves_out_the_days_on_which_later_nights_compare_with_it(world: World) -> None:
    for day in (D1, D2, D3):
        world.put(day, price(1.0, 2.0) if day != D3 else price(500.0))
    world.document["train"] = {**world.document["train"], "refit": True, "valid_days": 0}
    world.document["evaluate"] = {"holdout_days": 2}
    published = encoded(world)
    found = summaries.features(published.result)
    assert (found.split.train, found.split.holdout, found.refit) == ((D1,), (D2, D3), (D1, D2))
    assert fitted_price(world, "refitted", published) == pytest.approx(fitted_price(world, "fitted", published))


def test_a_day_that_does_not_fit_is_refused_by_name(world: World) -> None:
    for day in (D1, D2, D3):
        world.put(day, day_rows())
    world.put(D2, day_rows(60_000))
    world.document["resources"] = {"features": {"memory": "32m"}}
    with pytest.raises(
        ConfigurationError, match=f"resources.features.memory: 32m does not hold {D2}: its 60,000 rows"
    ) as e:
        encoded(world)
    assert e.value.remedy == "set resources.features.memory to 1g or more"
