import re
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ratchet.contracts import paths, summaries
from ratchet.contracts.champion import Champion
from ratchet.contracts.checks import SWITCHES
from ratchet.contracts.errors import ConfigurationError, DataRejected
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.quantities import percent
from ratchet.contracts.result import PublishedResult
from ratchet.contracts.summaries import Validation
from ratchet.store.artifacts import read_json
from tasks.validate import measuring
from tasks.validate.profile import Profile
from tests.world import LAST, Inputs, World, clicks, rows

D1, D2, D3 = LAST - timedelta(days=2), LAST - timedelta(days=1), LAST
QUIET: dict[str, Any] = dict.fromkeys(SWITCHES)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return clicks(tmp_path, validate=dict(QUIET))


def validate(world: World, day: date = LAST) -> PublishedResult:
    return world.run("validate", day, {"ingest": world.run("ingest", day)})


def summary(world: World, day: date = LAST) -> Validation:
    return summaries.validation(validate(world, day).result)


def refused(world: World, day: date = LAST) -> str:
    with pytest.raises(DataRejected) as caught:
        validate(world, day)
    return caught.value.cause


def page(world: World) -> str:
    key = max(
        (entry for entry in world.store.list("runs") if entry.key.endswith(".html")),
        key=lambda entry: entry.modified_ns,
    ).key
    return world.store.read(key).decode()


def changed(day: date = LAST, count: int = 60, **columns: list[Any]) -> pa.Table:
    return pa.table({**rows(count, day), **columns})


def test_good_data_pass_and_leave_a_profile_for_later_runs(world: World) -> None:
    world.document["validate"] = {}
    world.put_window(600)
    published = validate(world)
    found = summaries.validation(published.result)
    assert all(check.passed for check in found.checks)
    assert found.excluded == ()
    assert found.rows == found.labelled == dict.fromkeys((D1, D2, D3), 600)
    assert max(found.psi.values()) < 0.05
    reference = read_json(world.store, published.result.outputs["reference"], Profile)
    assert reference.rows == 1200
    assert world.store.read(published.result.outputs["page.html"].key).decode() == page(world)


def test_the_same_data_give_the_same_bytes(world: World) -> None:
    world.document["validate"] = {}
    world.put_window()
    one, two = validate(world), validate(world)
    assert one.result.content == two.result.content
    assert one.result.summary == two.result.summary
    for name in ("page.html", "reference"):
        assert one.result.outputs[name].sha256 == two.result.outputs[name].sha256


@pytest.mark.parametrize(
    ("rules", "values", "message"),
    [
        (
            {"max_null": "1%"},
            {"price": [None] * 3 + [1.0] * 57},
            "column price: null: 5 % missing (3 rows); allowed: at most 1 % (columns.price.max_null)",
        ),
        (
            {"max_null": 0},
            {"price": [float("nan")] + [1.0] * 59},
            "column price: null: 1.67 % missing (1 row); allowed: at most 0 % (columns.price.max_null)",
        ),
        (
            {"min": 0},
            {"price": [-3.5] + [1.0] * 59},
            "column price: min: least -3.5; allowed: at least 0 (columns.price.min)",
        ),
        (
            {"max": 500},
            {"price": [1e6] + [1.0] * 59},
            "column price: max: greatest 1e+06; allowed: at most 500 (columns.price.max)",
        ),
        (
            {},
            {"price": [float("inf")] + [1.0] * 59},
            "column price: finite: 1 row infinite; allowed: finite numbers (columns.price.type)",
        ),
        (
            {},
            {"clicked": [0] * 60},
            "column clicked: label: 0 to 0 on every row; allowed: two labels or more (columns.clicked.role)",
        ),
        (
            {},
            {"clicked": [0, 1, 2] * 20},
            "column clicked: label: 0 to 2; allowed: 0 or 1 (binary) (columns.clicked.role)",
        ),
        (
            {},
            {"clicked": pa.nulls(60, pa.int64())},
            "column clicked: label: 0 rows with a label; allowed: at least one row (columns.clicked.role)",
        ),
    ],
)
def test_a_broken_rule_of_the_data_date_stops_the_run_with_column_and_rule(
    world: World, rules: dict[str, Any], values: dict[str, Any], message: str
) -> None:
    world.document["columns"]["price"] |= rules
    world.put_window()
    world.put(D3, changed(**values))
    assert message in refused(world)
    assert "Refused: 1 check failed" in page(world)


def test_values_outside_the_allowed_ones_are_reported(world: World) -> None:
    world.document["columns"]["country"]["in"] = ["DE", "FR", "US"]
    world.document["columns"]["clicked"]["in"] = [0, 1]
    world.put_window()
    assert all(check.passed for check in summary(world).checks)
    world.put(D3, changed(country=["XX"] * 7 + ["<script>alert(1)</script>"] + ["DE"] * 52))
    assert (
        "column country: in: 'XX', '<script>alert(1)</script>' (8 rows); allowed: DE, FR, US (columns.country.in)"
        in refused(world)
    )
    assert "<script>" not in page(world)
    assert "&lt;script&gt;" in page(world)


def test_allowed_numbers_are_matched_as_numbers(world: World) -> None:
    world.document["columns"]["price"]["in"] = [1, 2.5]
    world.put_window()
    for day in (D1, D2, D3):
        world.put(day, changed(day, price=[1.0, 2.5] * 30))
    assert all(check.passed for check in summary(world).checks)


def test_every_failed_check_is_named_at_once(world: World) -> None:
    world.document["columns"]["price"] |= {"min": 0, "max": 10, "max_null": 0}
    world.put_window()
    for day in (D1, D2):
        world.put(day, changed(day, price=[1.0] * 60))
    world.put(D3, changed(price=[-1.0, 11.0, None] * 20))
    cause = refused(world)
    assert cause.startswith(f"{D3}: 3 of ")
    assert [line.split(": ")[1] for line in cause.splitlines()[1:]] == ["null", "min", "max"]


def test_the_rules_of_a_column_warn_where_it_says_so_and_no_day_is_left_out(world: World) -> None:
    world.document["columns"]["price"] |= {"min": 0, "max": 10, "max_null": 0, "on_breach": "warn"}
    world.put_window()
    world.put(D2, changed(D2, price=[-1.0] * 60))
    world.put(D3, changed(price=[-1.0, 11.0, None] * 20))
    found = summary(world)
    warned = {(check.rule, check.severity) for check in found.checks if not check.passed and check.day == D3}
    assert {("null", "warning"), ("min", "warning"), ("max", "warning")} <= warned
    assert found.excluded == ()
    world.document["columns"]["price"]["on_breach"] = "fail"
    assert "column price: min: least -1" in refused(world)


def test_an_earlier_day_that_breaks_a_rule_is_left_out_or_stops_the_run(world: World) -> None:
    world.document["columns"]["price"]["min"] = 0
    world.put_window()
    world.put(D2, changed(D2, price=[-1.0] * 60))
    published = validate(world)
    found = summaries.validation(published.result)
    assert found.excluded == (D2,)
    assert [(check.day, check.rule, check.severity) for check in found.checks if not check.passed] == [
        (D2, "min", "warning")
    ]
    assert read_json(world.store, published.result.outputs["reference"], Profile).rows == 60
    world.document["validate"]["bad_days"] = "fail"
    assert f"{D2} column price: min: least -1" in refused(world)


def test_more_than_half_of_the_window_left_out_stops_the_run(world: World) -> None:
    world.document["columns"]["price"]["min"] = 0
    world.put_window()
    for day in (D1, D2):
        world.put(day, changed(day, price=[-1.0] * 60))
    assert (
        "excluded days: 2 of 3 days break a rule, or were refused by their own run; allowed: at most half of the window"
        in refused(world)
    )


@pytest.mark.parametrize(("count", "passes"), [(80, True), (120, True), (79, False), (121, False)])
def test_volume_is_compared_with_the_day_before(world: World, count: int, passes: bool) -> None:
    world.document["validate"]["volume"] = {"against": "previous_day", "tolerance": "20%"}
    world.put_window(100)
    world.put(D3, count=count)
    if passes:
        assert all(check.passed for check in summary(world).checks)
    else:
        assert (
            f"all rows: volume: {count} rows, {percent(count / 100 - 1, signed=True)} against 100; allowed: within 20 % of the day before"
            in refused(world)
        )


def test_a_day_that_keeps_its_rows_and_loses_its_labels_is_refused(world: World) -> None:
    world.document["validate"]["volume"] = {"against": "window_median", "tolerance": "20%"}
    world.put_window(60)
    world.put(D3, changed(clicked=[0, 1] * 15 + [None] * 30))
    cause = refused(world)
    assert "column clicked: volume: 30 labelled rows, \N{MINUS SIGN}50 % against 60" in cause
    assert cause.count("volume") == 2  # the rule and its key, once


def test_volume_without_a_day_to_compare_with_is_a_warning_by_name(world: World) -> None:
    world.document["validate"]["volume"] = {"against": "same_weekday"}
    world.put_window()
    check = next(check for check in summary(world).checks if check.rule == "volume")
    assert (check.passed, check.severity) == (False, "warning")
    assert check.observed == "60 rows; nothing to compare with, as there is no data of another Friday"
    assert "volume: 60 rows; nothing to compare with" in world.log.getvalue()
    assert "Accepted, with 1 warning" in page(world)


def test_a_day_delivered_twice_is_refused(world: World) -> None:
    world.put_window()
    world.put(D3, changed(D2))
    assert f"duplicate: the same rows as {D2}" in refused(world)


def test_drift_stops_the_run_or_is_a_warning_as_the_file_says(world: World) -> None:
    world.document["validate"]["drift"] = {"against": "window", "psi": 0.2}
    world.put_window(600)
    world.put(D3, changed(count=600, price=[float(50 + i % 97) for i in range(600)]))
    assert re.search(
        r"column price: drift: PSI \d\.\d+; allowed: PSI at most 0\.2 against the window's 2 other days",
        refused(world),
    )
    world.document["validate"]["drift"]["on_breach"] = "warn"
    found = summary(world)
    assert found.psi["price"] > 0.2 > found.psi["country"]
    assert [(check.column, check.severity) for check in found.checks if not check.passed] == [("price", "warning")]
    assert "Accepted, with 1 warning" in page(world)


def test_a_new_category_drifts_as_part_of_the_rest(world: World) -> None:
    world.document["validate"]["drift"] = {"against": "window", "psi": 0.2}
    world.put_window(600)
    world.put(D3, changed(count=600, country=["DE", "FR", "AT"] * 200))
    assert "column country: drift" in refused(world)


def champion(manifests: dict[str, str]) -> Champion:
    return Champion(model="clicks", number=1, version="7", digest=digest(b"m"), data_date=LAST, manifests=manifests)


def test_drift_is_compared_with_the_training_data_of_the_champion(world: World) -> None:
    world.put_window(600)
    world.document["validate"]["drift"] = {"against": "champion", "psi": 0.2}
    trained = validate(world)
    later = LAST + timedelta(days=1)
    for day in (D2, D3, later):  # the whole window has moved, so that only the champion's tells
        world.put(day, changed(day, count=600, price=[float(80 + i % 97) for i in range(600)]))
    assert all(check.passed for check in summary(world, later).checks)
    world.champion = champion({"validate": trained.key})
    assert "PSI at most 0.2 against the training data of clicks version 7" in refused(world, later)


def test_a_missing_profile_of_the_champion_is_reported_and_the_window_used(world: World) -> None:
    world.put_window()
    world.document["validate"]["drift"] = {"against": "champion"}
    world.champion = champion({"validate": paths.manifest("published/clicks/validate/gone")})
    found = summary(world)
    assert [(check.rule, check.severity) for check in found.checks if not check.passed] == [
        ("drift reference", "warning")
    ]


def test_a_reference_without_rows_is_a_warning_by_name(world: World) -> None:
    world.document["validate"]["drift"] = {"against": "window"}
    world.document["source"]["missing_days"] = "skip"
    world.put(D3)
    found = summary(world)
    assert found.psi == {}
    (check,) = [check for check in found.checks if check.rule == "drift"]
    assert (check.passed, check.severity) == (False, "warning")
    assert check.observed == "not compared: the window's 0 other days have no rows"
    assert check.observed in world.log.getvalue()


def test_profiles_are_measured_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Path] = []
    real = measuring.measure
    monkeypatch.setattr(measuring, "measure", lambda path, *given: calls.append(path) or real(path, *given))
    world.put_window()
    world.put(LAST + timedelta(days=1))
    validate(world)
    assert len(calls) == 3
    validate(world)
    assert len(calls) == 3
    validate(world, LAST + timedelta(days=1))
    assert len(calls) == 4


def test_a_rebuild_measures_every_day_again(world: World) -> None:
    world.put_window()
    inputs: Inputs = {"ingest": world.run("ingest")}
    first = world.run("validate", inputs=inputs)
    world.log.truncate(0)
    again = world.run("validate", inputs=inputs, parts={"rebuild": "run-7"})
    assert world.log.getvalue().count("profiled") == 3
    assert again.result.content == first.result.content


def test_a_damaged_profile_is_measured_again(world: World) -> None:
    world.put_window()
    first = validate(world)
    for entry in list(world.store.list("published/clicks/validate.day")):
        data = world.store.read(entry.key)
        world.store.replace(entry.key, data[:-2], expected=entry.etag)
    assert validate(world).result.content == first.result.content
    assert world.log.getvalue().count('"event": "damaged"') == 3


def test_expectations_run_on_the_rows_of_the_data_date(world: World) -> None:
    world.document["validate"]["expectations"] = [
        {"type": "expect_column_median_to_be_between", "column": "price", "min_value": 1, "max_value": 500},
        {"type": "expect_column_values_to_not_be_in_set", "column": "country", "value_set": ["XX"]},
        {"type": "expect_table_row_count_to_be_between", "min_value": 1000, "severity": "warning"},
    ]
    world.put_window()
    before = set(world.folder.iterdir())
    found = summary(world)
    assert [(check.rule, check.passed) for check in found.checks if check.rule.startswith("expect")] == [
        ("expect_column_median_to_be_between", True),
        ("expect_column_values_to_not_be_in_set", True),
        ("expect_table_row_count_to_be_between", False),
    ]
    assert set(world.folder.iterdir()) == before | {world.folder / "store"}
    world.put(D3, changed(country=["XX"] * 60, price=[900.0] * 60))
    cause = refused(world)
    assert (
        "column price: expect_column_median_to_be_between: 900; allowed: min_value 1, max_value 500 (validate.expectations.0)"
        in cause
    )
    assert "column country: expect_column_values_to_not_be_in_set: 60 unexpected rows, such as XX" in cause


@pytest.mark.parametrize(
    ("expectation", "message"),
    [
        (
            {"type": "expect_column_medina_to_be_between", "column": "price"},
            r"expectations\.0\.type: .*did you mean expect_column_median_to_be_between",
        ),
        (
            {"type": "expect_column_median_to_be_between", "column": "price", "min_valu": 1},
            r"expectations\.0\.min_valu: extra fields.*takes column, max_value, min_value",
        ),
        (
            {"type": "expect_column_median_to_be_between", "column": "prize", "min_value": 1},
            r"expectations\.0\.column: .*'prize'.*did you mean price",
        ),
        ({"type": "expect_column_median_to_be_between", "min_value": 1}, r"expectations\.0\.column: field required"),
    ],
)
def test_an_invalid_expectation_is_a_configuration_error(
    world: World, expectation: dict[str, Any], message: str
) -> None:
    world.document["validate"]["expectations"] = [expectation]
    world.put_window()
    with pytest.raises(ConfigurationError, match=message):
        validate(world)


def test_an_expectation_about_values_that_all_lack_is_a_warning_by_name(world: World) -> None:
    world.document["validate"]["expectations"] = [
        {"type": "expect_column_values_to_be_between", "column": "price", "min_value": 1, "max_value": 2},
        {"type": "expect_column_values_to_be_null", "column": "price"},
    ]
    world.put_window()
    world.put(D3, changed(price=pa.nulls(60, pa.float64())))
    found = {check.rule: check for check in summary(world).checks}
    between = found["expect_column_values_to_be_between"]
    assert (between.passed, between.severity) == (False, "warning")
    assert between.observed == "nothing compared: no row has a value"
    assert found["expect_column_values_to_be_null"].passed


def test_ranking_needs_a_group_on_every_row(world: World) -> None:
    world.document["train"] = {"objective": "ranking"}
    world.put_window()
    world.put(D3, changed(query_id=[None] + [1] * 59))
    assert "column query_id: null: 1 row; allowed: 0 rows without a group (columns.query_id.role)" in refused(world)


def test_a_weight_below_zero_is_refused(world: World) -> None:
    world.document["columns"]["price"]["role"] = "weight"
    world.put_window()
    world.put(D3, changed(price=[-1.0] + [1.0] * 59))
    assert "column price: weight: least -1; allowed: 0 or more" in refused(world)


def test_derived_columns_are_left_to_the_stage_that_makes_them(world: World) -> None:
    world.document["columns"]["dear"] = {"role": "numeric", "type": "float64", "derived": True, "max_null": 0}
    world.put_window()
    assert all(check.column != "dear" for check in summary(world).checks)
