"""Rules that compare a day with the days of its window: what is broken is named, and what is so by nature passes."""

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ratchet.contracts import dates, summaries
from ratchet.contracts.errors import DataRejected, PipelineInvalid
from ratchet.contracts.loading import loads
from ratchet.contracts.summaries import Check, Validation
from ratchet.store.publishing import read_manifest
from tests.world import LAST, World, clicks

WINDOW = 6
ROWS = 1500
COLUMNS: dict[str, Any] = {
    "ticket": {"role": "id", "type": "int64"},
    "shown_at": {"role": "time", "type": "timestamp"},
    "country": {"role": "categorical", "type": "string"},
    "shop": {"role": "categorical", "type": "int64"},
    "price": {"role": "numeric", "type": "float64"},
    "clicked": {"role": "label", "type": "int64"},
}
Change = Callable[[dict[str, Any], date], None]


def a_day(day: date) -> dict[str, Any]:
    generator = np.random.default_rng(day.toordinal())
    moments = np.datetime64(day.isoformat(), "us") + np.sort(generator.integers(0, 86_400, ROWS)).astype(
        "timedelta64[s]"
    )
    return {
        "ticket": day.toordinal() * 10_000 + np.arange(ROWS),
        "shown_at": moments,
        "country": generator.choice(["DE", "FR", "US", "ES"], ROWS, p=[0.5, 0.3, 0.15, 0.05]),
        "shop": generator.zipf(1.8, ROWS) % 4_000,
        "price": generator.lognormal(3, 1, ROWS).round(2),
        "clicked": (generator.random(ROWS) < 0.2).astype(np.int64),
    }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    made = clicks(tmp_path_factory.mktemp("rules"), source={"window_days": WINDOW})
    made.document["columns"] = COLUMNS
    made.document["evaluate"] = {"slices": ["country"]}
    for day in dates.window(LAST, WINDOW):
        made.put(day, pa.table(a_day(day)))
    return made


@pytest.fixture(autouse=True)
def _as_before(world: World) -> None:
    world.document["validate"] = {}
    world.document["columns"] = dict(COLUMNS)


def checked(world: World, change: Change | None = None, day: date = LAST) -> tuple[Validation, bool]:
    """What a night says of changed rows, and whether it is refused."""
    rows = a_day(day)
    if change:
        change(rows, day)
    world.put(day, pa.table(rows))
    ingested = world.run("ingest")
    request = world.request("validate", inputs={"ingest": ingested})
    try:
        return summaries.validation(world.finish(request)[1].result), False
    except DataRejected:
        key = "runs/clicks/run-1/validate-validation.json"
        return Validation.model_validate_json(world.store.read(key)), True
    finally:
        world.put(day, pa.table(a_day(day)))


def failed(found: Validation, rule: str) -> list[Check]:
    return [check for check in found.checks if check.rule == rule and not check.passed]


def yesterday(rows: dict[str, Any], day: date) -> None:
    rows |= a_day(day - timedelta(days=1))
    rows["price"][0] += 1


def late(rows: dict[str, Any], day: date) -> None:
    rows["shown_at"][-150:] += np.timedelta64(1, "D")


def twice(rows: dict[str, Any], day: date) -> None:
    rows |= {name: np.concatenate([values, values[:100]]) for name, values in rows.items()}


def redelivered(rows: dict[str, Any], day: date) -> None:
    before = a_day(day - timedelta(days=2))
    for name in ("ticket", "country", "shop", "price", "clicked"):
        rows[name][:600] = before[name][:600]


def half_of_the_clicks(rows: dict[str, Any], day: date) -> None:
    rows["clicked"][: ROWS * 3 // 5] = 0


def a_country_less(rows: dict[str, Any], day: date) -> None:
    rows["country"][rows["country"] == "US"] = "DE"


def most_of_a_country(rows: dict[str, Any], day: date) -> None:
    rows["country"][np.flatnonzero(rows["country"] == "US")[:180]] = "DE"


def mojibake(rows: dict[str, Any], day: date) -> None:
    rows["country"] = rows["country"].astype("U8")
    rows["country"][:40] = "\u00c3\u2013ST"


def stuck(rows: dict[str, Any], day: date) -> None:
    rows["price"][:] = 9.99


def yesterday_stuck(rows: dict[str, Any], day: date) -> None:
    yesterday(rows, day)
    stuck(rows, day)


def leaked(rows: dict[str, Any], day: date) -> None:
    rows["price"] += 2_000.0 * rows["clicked"]


@pytest.mark.parametrize(
    ("change", "rule", "column", "severity", "says"),
    [
        (yesterday, "times", "shown_at", "error", "1,500 rows outside (100 %), 2026-11-19T"),
        (late, "times", "shown_at", "error", "150 rows outside (10 %)"),
        (yesterday, "duplicate", "ticket", "error", "about 100 % of the distinct values of ticket are those of 2026-11-19"),
        (redelivered, "duplicate", "ticket", "error", "% of the distinct values of ticket are those of 2026-11-18"),
        (twice, "repeats", None, "error", "6.25 % of 1,600 rows: rows repeat an earlier row of the day"),
        (twice, "repeats", "ticket", "error", "6.25 % of 1,600 rows: rows repeat a value of ticket"),
        (half_of_the_clicks, "label rate", "clicked", "error", "of 1,500 labelled rows"),
        (a_country_less, "lost categories", "country", "error", "no row with 'US' (at least 1"),
        (a_country_less, "slice volume", "country", "warning", "'US': 0 rows, not "),
        (most_of_a_country, "slice volume", "country", "warning", "'US': "),
        (mojibake, "new categories", "country", "warning", "2.67 % of the rows have a value that no earlier day has"),
        (stuck, "constant", "price", "error", "9.99 on each of 1,500 rows"),
        (leaked, "leak", "price", "error", "predicts clicked alone by 1.000; 0.0"),
    ],
)  # fmt: skip
def test_a_corrupted_day_is_named_by_rule_and_column(
    world: World, change: Change, rule: str, column: str | None, severity: str, says: str
) -> None:
    found, refused = checked(world, change)
    (check,) = [check for check in failed(found, rule) if check.column == column]
    assert says in check.observed
    assert check.severity == severity
    assert refused == any(not one.passed and one.severity == "error" for one in found.checks)
    assert refused or severity == "warning"


def test_good_days_pass_every_rule(world: World) -> None:
    found, refused = checked(world)
    assert not refused
    assert [check.line for check in found.checks if not check.passed] == []
    rules = {check.rule for check in found.checks}
    assert rules >= {
        *("times", "duplicate", "label rate", "leak", "constant", "new categories", "lost categories", "slice volume"),
        "drift",
    }
    assert found.js.keys() == found.psi.keys() == found.psi_last_week.keys()
    assert all(0 <= one < 0.05 for one in found.js.values())


def test_each_rule_can_warn_or_be_off(world: World) -> None:
    world.document["validate"] = dict.fromkeys(("times", "duplicates", "label_rate", "constants"), "warn")
    found, refused = checked(world, yesterday_stuck)
    assert {check.severity for check in failed(found, "times") + failed(found, "duplicate")} == {"warning"}
    assert {check.severity for check in failed(found, "constant")} == {"warning"}
    world.document["validate"] = {"times": None, "duplicates": None, "constants": None, "drift": None, "leak": None}
    found, refused = checked(world, yesterday)
    assert not refused
    assert {"times", "constant", "leak"}.isdisjoint(check.rule for check in found.checks)


def test_a_source_whose_rows_always_lie_outside_is_a_warning(world: World) -> None:
    world.document["source"]["day_starts"] = "18:00"  # naive: by the wall clock
    try:
        found, refused = checked(world)
    finally:
        del world.document["source"]["day_starts"]
    (check,) = failed(found, "times")
    assert not refused
    assert check.severity == "warning"
    assert "2026-11-20 18:00:00 up to 2026-11-21 18:00:00 (wall-clock time)" in check.allowed


def test_an_earlier_day_with_the_times_of_another_is_a_warning(world: World) -> None:
    found, refused = checked(world, yesterday, LAST - timedelta(days=2))
    (check,) = failed(found, "times")
    assert not refused
    assert (check.day, check.column, check.severity) == (LAST - timedelta(days=2), "shown_at", "warning")
    assert "100 % of 1,500 rows outside of the day" in check.observed


def test_a_few_late_rows_are_a_warning(world: World) -> None:
    def some_late(rows: dict[str, Any], day: date) -> None:
        rows["shown_at"][-30:] += np.timedelta64(1, "D")

    found, refused = checked(world, some_late)
    (check,) = failed(found, "times")
    assert (refused, check.severity) == (False, "warning")


def test_a_slice_that_validate_names_refuses_the_night(world: World) -> None:
    world.document["validate"] = {"volume": {"by": ["country"]}, "drift": None}
    found, refused = checked(world, most_of_a_country)
    (check,) = failed(found, "slice volume")
    assert (refused, check.column, check.severity) == (True, "country", "error")


def test_a_key_is_unique_in_each_day(world: World) -> None:
    world.document["validate"] = {"repeats": None, "unique": ["ticket", ["country", "shop"]]}
    found, refused = checked(world)
    assert refused  # the second one is no key
    (check,) = [check for check in failed(found, "unique") if check.day == LAST]
    assert (check.column, check.severity) == (None, "error")
    assert "rows with the country, shop of an earlier row of the day" in check.observed
    world.document["validate"]["unique"] = ["ticket"]
    found, refused = checked(world, twice)
    assert refused
    assert [check.observed for check in failed(found, "unique")] == [
        "100 rows with the ticket of an earlier row of the day"
    ]


def test_late_labels_are_neither_judged_nor_used_until_they_have_arrived(world: World) -> None:
    world.document["validate"] = {"label_delay_days": 2, "bad_days": "exclude"}
    half = LAST - timedelta(days=3)

    def without_labels(rows: dict[str, Any], day: date) -> None:
        rows["clicked"] = pa.nulls(ROWS, pa.int64())

    found, refused = checked(world, without_labels)
    assert not refused
    assert found.immature == (LAST - timedelta(days=1), LAST)
    assert "label rate" not in {check.rule for check in found.checks if check.day == LAST}
    assert [check.column for check in found.checks if check.rule == "volume"] == [None]
    assert found.excluded == ()
    found, refused = checked(world, half_of_the_clicks, half)
    assert (refused, found.excluded) == (False, (half,))
    (check,) = failed(found, "label rate")
    assert (check.day, check.column) == (half, "clicked")


def test_days_with_late_labels_are_not_trained_on_nor_held_out(world: World) -> None:
    world.document["validate"] = {"label_delay_days": 2}
    ingested = world.run("ingest")
    validated = world.run("validate", inputs={"ingest": ingested})
    encoded = world.run("features", inputs={"ingest": ingested, "validate": validated})
    found = summaries.features(read_manifest(world.store, encoded.key).result).split
    assert found.holdout == (LAST - timedelta(days=2),)
    assert found.valid == (LAST - timedelta(days=3),)
    assert max(found.train) == LAST - timedelta(days=4)


PIPELINE = """
name: small
source: {{kind: files, uri: "/data/date={{date}}/*.parquet"}}
columns:
  x: {{role: numeric, type: float64}}
  kind: {{role: categorical, type: string}}
  y: {{role: label, type: int64}}
train: {{objective: binary}}
validate: {validate}
"""


@pytest.mark.parametrize(
    ("given", "key", "says"),
    [
        ("{unique: [knd]}", "validate.unique.0", "knd is no column that can be used here"),
        ("{unique: [[x, z]]}", "validate.unique.0", "z is no column that can be used here"),
        ("{volume: {by: [x]}}", "validate.volume.by", "x is no column that can be used here"),
        ("{times: stop}", "validate.times", "fail"),
        ("{label_delay_days: 29}", "source.window_days", "29 without all their labels, 1 held out, 1 for validation"),
    ],
)
def test_a_rule_that_does_not_fit_the_columns_is_refused(given: str, key: str, says: str) -> None:
    with pytest.raises(PipelineInvalid) as caught:
        loads(PIPELINE.format(validate=given), "p.yaml")
    (problem,) = caught.value.problems
    assert problem.key == key
    assert says in f"{problem.message} {problem.allowed}"


def test_keys_read_as_people_write_them() -> None:
    written = "{unique: [x, [x, kind], {columns: [kind], on_breach: warn}], volume: {by: [kind]}, leak: null}"
    rules = loads(PIPELINE.format(validate=written), "p.yaml").validate_
    assert [(key.name, key.on_breach) for key in rules.unique] == [("x", "fail"), ("x, kind", "fail"), ("kind", "warn")]
    assert rules.leak is None


def test_the_page_of_a_refused_night_has_rows_that_break_the_rule_and_what_changed(world: World) -> None:
    world.document["columns"]["price"] = {**COLUMNS["price"], "min": 0}

    def broken(rows: dict[str, Any], day: date) -> None:
        late(rows, day)
        rows["price"][7] = -12.5
        rows["country"][:] = "DE"

    found, refused = checked(world, broken)
    page = world.store.read("runs/clicks/run-1/validate-validation.html").decode()
    assert refused
    assert failed(found, "constant")
    assert "<td>7</td><td>-12.5</td>" in page
    assert f"<td>1,350</td><td>{LAST + timedelta(days=1)}" in page
    assert page.count("<td>1,35") == 5  # five of the 150 late rows
    assert "<td>country</td><td>distinct</td>" in page.replace("\n", "")
    assert "median by day" in page
    assert "label rate by day" in page
