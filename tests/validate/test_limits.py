"""The default limits of volume and drift: good data of any rhythm and size pass, and broken data do not."""

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.contracts import dates, paths, summaries
from ratchet.contracts.champion import Champion
from ratchet.contracts.checks import Drift, Volume
from ratchet.contracts.errors import DataRejected, PipelineInvalid
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.loading import loads
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.result import PublishedResult
from ratchet.contracts.summaries import Check, Validation
from tasks.validate.drift import check_drift
from tasks.validate.measuring import measure
from tasks.validate.profile import ColumnProfile, Profile, total
from tasks.validate.volume import check_volume
from tests.real.flights import FLIGHTS, NEEDED
from tests.validate.references import reference
from tests.world import LAST, World, clicks, rows

NINE_LINES = """
name: late-flights
source: {kind: files, uri: "FLIGHTS/date={date}/*.parquet"}
columns:
  carrier: {role: categorical, type: string}
  origin: {role: categorical, type: string}
  month: {role: categorical, type: int64}
  distance: {role: numeric, type: int64}
  label_arr_delay_gt15: {role: label, type: int64}
train: {objective: binary}
"""
MONDAY = date(2026, 3, 2)
FEATURES = {
    "temperature": {"role": "numeric", "type": "float64"},
    "weekday": {"role": "categorical", "type": "int64"},
    "holiday": {"role": "categorical", "type": "int64"},
    "hour": {"role": "numeric", "type": "int64"},
    "sold": {"role": "label", "type": "int64"},
}


def volume(counts: list[int], rule: Volume | None = None, labelled: list[int] | None = None) -> list[Check]:
    """The checks of the last of these days; the first is a Monday."""
    profiles = [Profile(rows=one, labelled=two) for one, two in zip(counts, labelled or counts, strict=True)]
    days = {MONDAY + timedelta(days=place): profile for place, profile in enumerate(profiles)}
    today = max(days)
    return check_volume(today, days.pop(today), days, rule or Volume(), "sold")


def passes(counts: list[int], rule: Volume | None = None) -> bool:
    return all(check.passed for check in volume(counts, rule))


WEEK = [1000, 990, 1010, 1005, 995, 700, 400]


@pytest.mark.parametrize("days", range(8, 30))
def test_the_default_volume_fits_a_weekly_rhythm(days: int) -> None:
    assert passes((WEEK * 5)[:days])


@pytest.mark.parametrize("days", range(15, 30))
def test_the_default_volume_refuses_a_day_with_a_third_of_its_rows_or_three_times_as_many(days: int) -> None:
    counts = (WEEK * 5)[:days]
    for wrong in (counts[-1] // 3, counts[-1] * 3):
        assert not passes([*counts[:-1], wrong])


@pytest.mark.parametrize("growth", [1.02, 1.1, 1.25])
def test_the_default_volume_fits_data_that_grow(growth: float) -> None:
    assert all(passes([int(100 * growth**day) for day in range(days)]) for days in range(3, 30))


def test_the_default_volume_fits_a_holiday_and_the_day_after_it() -> None:
    counts = WEEK * 4
    counts[-4] = 720  # a Thursday
    assert passes(counts[:-3])
    assert passes(counts[:-2])


def test_the_default_volume_fits_days_that_differ_by_nature() -> None:
    generator = np.random.default_rng(0)
    counts = [int(number) for number in np.exp(generator.normal(6, 1, size=60))]
    refused = [days for days in range(30, 60) if not passes(counts[:days])]
    assert len(refused) <= 1


def test_a_half_of_the_labels_is_refused_though_all_rows_are_there() -> None:
    found = volume(WEEK * 3, labelled=[*(WEEK * 3)[:-1], 130])
    assert [(check.column, check.passed) for check in found] == [(None, True), ("sold", False)]


def test_a_tolerance_above_a_hundred_percent_limits_growth_alone() -> None:
    rule = Volume(against="previous_day", tolerance=5.0)
    assert passes([100, 599], rule)
    assert not passes([100, 601], rule)
    assert passes([100, 1], rule)
    assert Volume.model_validate({"tolerance": "500%"}).tolerance == 5.0
    assert Volume.model_validate({"tolerance": "500%"}).model_dump(mode="json")["tolerance"] == "500%"


def hourly(day: date, generator: np.random.Generator, weather: float) -> dict[str, list[Any]]:
    """Twenty-four rows of a day whose temperature hardly varies."""
    return {
        "temperature": list(10 + weather + generator.normal(0, 0.5, size=24)),
        "weekday": [day.weekday()] * 24,
        "holiday": [int(day.day == 17)] * 24,
        "hour": list(range(24)),
        "sold": [int(number) for number in generator.integers(1, 300, size=24)],
    }


def spec(columns: dict[str, Any]) -> PipelineSpec:
    source = {"kind": "files", "uri": "/x/{date}"}
    document = {"name": "x", "source": source, "columns": columns, "train": {"objective": "regression"}}
    return PipelineSpec.model_validate(document)


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> dict[date, Profile]:
    """Sixty days of 24 rows, in which each day has its own weather."""
    generator, weather = np.random.default_rng(1), 0.0
    path, found = tmp_path_factory.mktemp("days") / "day.parquet", {}
    for day in dates.window(LAST, 60):
        weather = 0.7 * weather + float(generator.normal(0, 3))
        pq.write_table(pa.table(hourly(day, generator, weather)), path)
        found[day] = measure(path, spec(FEATURES))
    return found


def drifted(days: dict[date, Profile], day: date, today: Profile | None = None, window_days: int = 31) -> list[Check]:
    before = {other: profile for other, profile in days.items() if day - timedelta(days=window_days) < other < day}
    against = reference(total(before.values()), "the window", before)
    checks, _ = check_drift(day, today or days[day], against, Drift(), spec(FEATURES))
    return [check for check in checks if not check.passed]


def test_a_day_of_few_rows_does_not_fail_by_chance_nor_by_the_calendar(days: dict[date, Profile]) -> None:
    failed = [check for day in sorted(days)[30:] for check in drifted(days, day)]
    assert [check for check in failed if check.severity == "error"] == []
    assert {check.column for check in failed} <= {"holiday"}


def test_a_window_of_two_days_does_not_fail_by_the_calendar(days: dict[date, Profile]) -> None:
    failed = [check for day in sorted(days)[30:] for check in drifted(days, day, window_days=2)]
    assert {check.severity for check in failed if check.column in {"weekday", "holiday"}} == {"warning"}


def test_a_window_of_three_days_does_not_fail_by_what_its_two_earlier_days_differ_by(tmp_path: Path) -> None:
    found = {}
    for before, weather in ((2, 0.0), (1, 5.0), (0, 0.0)):
        rows = hourly(LAST, np.random.default_rng(before), weather)
        pq.write_table(pa.table(rows), tmp_path / "day.parquet")
        found[LAST - timedelta(days=before)] = measure(tmp_path / "day.parquet", spec(FEATURES))
    assert [check for check in drifted(found, LAST, window_days=3) if check.column == "temperature"] == []


def test_a_day_of_few_rows_that_is_not_as_others_fails(days: dict[date, Profile], tmp_path: Path) -> None:
    stuck = hourly(LAST, np.random.default_rng(2), 0.0) | {"hour": [23] * 24}
    pq.write_table(pa.table(stuck), tmp_path / "day.parquet")
    found = drifted(days, LAST, measure(tmp_path / "day.parquet", spec(FEATURES)))
    assert [(check.column, check.severity) for check in found if check.column == "hour"] == [("hour", "error")]


def test_a_new_value_of_a_column_with_one_value_a_day_is_a_warning_by_name(days: dict[date, Profile]) -> None:
    changed = {
        day: profile.model_copy(update={"columns": {**profile.columns, "holiday": _only("0", 24)}})
        for day, profile in days.items()
    }
    changed[LAST] = changed[LAST].model_copy(update={"columns": {**changed[LAST].columns, "holiday": _only("7", 24)}})
    (found,) = drifted(changed, LAST)
    assert (found.column, found.severity) == ("holiday", "warning")
    assert found.observed == f"one value on each day, 7 on {LAST}, which no earlier day of the window has"


def test_a_month_that_the_champion_never_saw_does_not_fail_while_the_window_lies_in_it(
    days: dict[date, Profile],
) -> None:
    def in_month(profile: Profile, values: dict[str, int]) -> Profile:
        month = ColumnProfile(rows=sum(values.values()), values=values, type="int64")
        return profile.model_copy(update={"columns": {**profile.columns, "holiday": month}})

    november = {day: in_month(profile, {"11": profile.rows}) for day, profile in days.items()}
    today = november.pop(LAST)
    summed = total(november.values())

    def against(values: dict[str, int], *, now: Profile = today) -> list[Check]:
        trained = in_month(summed, values)
        of_champion = reference(trained, "the champion's", november)
        checks, _ = check_drift(LAST, now, of_champion, Drift(), spec(FEATURES))
        return [check for check in checks if check.column == "holiday" and not check.passed]

    assert against({"9": 240, "10": 480}) == []
    assert [check.severity for check in against({"9": 240, "10": 480}, now=in_month(today, {"11": 20, "12": 4}))] == [
        "error"
    ]
    assert [check.severity for check in against({"0": 400} | {str(value): 8 for value in range(1, 90)})] == ["error"]


def _only(value: str, count: int) -> ColumnProfile:
    return ColumnProfile(rows=count, values={value: count}, type="int64")


@NEEDED
def test_a_file_of_nine_lines_is_green_on_a_good_month_of_real_flights(tmp_path: Path) -> None:
    assert len(NINE_LINES.strip().splitlines()) == 9
    world = clicks(tmp_path)
    world.document = loads(NINE_LINES.replace("FLIGHTS", str(FLIGHTS))).model_dump(mode="json", by_alias=True)
    for day in dates.between(date(2013, 5, 29), date(2013, 6, 7)):
        found = summaries.validation(world.run("validate", day, {"ingest": world.run("ingest", day)}).result)
        failed = [check for check in found.checks if not check.passed]
        assert {(check.column, check.severity) for check in failed} <= {("month", "warning")}
        assert bool(failed) == (day.day == 1)


def test_a_volume_that_can_never_compare_is_refused_by_check() -> None:
    text = NINE_LINES.replace('*.parquet"}', '*.parquet", window_days: 7}').strip()
    with pytest.raises(PipelineInvalid) as caught:
        loads(f"{text}\nvalidate: {{volume: {{against: same_weekday}}}}\n")
    (problem,) = caught.value.problems
    assert problem.key == "validate.volume.against"
    assert "a window of 7 days has no other day of the same weekday" in problem.message
    assert "source.window_days to 8" in problem.remedy


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = clicks(tmp_path, validate={"volume": None, "drift": None})
    made.document["columns"]["query_id"]["role"] = "id"
    made.put_window()
    return made


def validated(world: World, day: date = LAST) -> tuple[PublishedResult, Validation]:
    published = world.run("validate", day, {"ingest": world.run("ingest", day)})
    return published, summaries.validation(published.result)


def test_a_champion_profiled_under_another_role_is_not_compared_by_name(world: World) -> None:
    world.document["validate"]["drift"] = {"against": "champion"}
    trained, _ = validated(world)
    world.champion = Champion(
        model="clicks", number=1, version="7", digest=digest(b"m"), data_date=LAST, manifests={"validate": trained.key}
    )
    world.document["columns"]["price"]["in"] = [float(number) for number in range(1, 98)]
    _, found = validated(world)
    (check,) = [check for check in found.checks if check.column == "price" and check.rule == "drift"]
    assert (check.passed, check.severity) == (False, "warning")
    assert check.observed.startswith("not compared: the reference has counts of numbers, and this day of values")
    assert check.allowed == "a comparison with the training data of clicks version 7"
    assert "price" not in found.psi
    assert "column price: drift: not compared" in world.log.getvalue()


def test_a_rare_forbidden_value_is_found_among_thousands_of_allowed_ones(world: World) -> None:
    world.document["columns"]["country"]["in"] = [f"c{number}" for number in range(3000)]
    values = [f"c{number % 2500}" for number in range(5000)]
    for day in dates.window(LAST, 3):
        world.put(day, {**_many(5000, day), "country": values})
    assert all(check.passed for check in validated(world)[1].checks)
    world.put(LAST, {**_many(5000, LAST), "country": [*values[:-1], "XX"]})
    with pytest.raises(DataRejected, match=r"column country: in: 'XX' \(1 row\); allowed: c0, c1"):
        validated(world)


def _many(count: int, day: date) -> dict[str, list[Any]]:
    return {**rows(count, day), "query_id": list(range(count))}


def test_a_feature_without_a_value_is_a_warning_by_name(world: World) -> None:
    for day in dates.window(LAST, 3):
        world.put(day, pa.table({**_many(60, day), "price": pa.nulls(60, pa.float64())}))
    _, found = validated(world)
    (check,) = [check for check in found.checks if check.rule == "empty"]
    assert (check.column, check.observed, check.severity) == ("price", "no value on every day of the window", "warning")
    world.put(LAST, _many(60, LAST))
    assert "no value on 2026-11-18, 2026-11-19" in str(validated(world)[1].checks)
    assert "column price: empty: no value on 2026-11-18, 2026-11-19" in world.log.getvalue()


def test_a_drift_to_no_value_at_all_is_named_so(world: World) -> None:
    world.document["validate"]["drift"] = {"against": "window"}
    for day in dates.window(LAST, 4):
        world.put(day, _many(600, day))
    world.put(LAST, pa.table({**_many(600, LAST), "price": pa.nulls(600, pa.float64())}))
    with pytest.raises(DataRejected, match=r"column price: drift: PSI [\d.]+: no row has a value; allowed") as caught:
        validated(world)
    assert "ratchet data accept" in caught.value.remedy


def test_an_excluded_day_is_not_reported_as_empty(world: World) -> None:
    days = dates.window(LAST, 3)
    for day in days:
        world.put(day, _many(60, day))
    world.put(days[0], pa.table({**_many(60, days[0]), "price": pa.nulls(60, pa.float64()), "clicked": [7] * 60}))
    _, found = validated(world)
    assert found.excluded == (days[0],)
    assert [check for check in found.checks if check.rule == "empty"] == []


def test_an_earlier_day_that_came_twice_is_a_warning_by_name(world: World) -> None:
    days = dates.window(LAST, 3)
    for day in days:
        world.put(day, _many(60, day))
    assert all(check.passed for check in validated(world)[1].checks)
    world.put(days[1], _many(60, days[1]), name="part-1.parquet")
    _, found = validated(world)
    assert [(check.day, check.column) for check in found.checks if not check.passed] == [
        (days[1], None),
        (days[1], "query_id"),
    ]
    assert f"{days[1]} column query_id: repeats: 50 % of 120 rows" in world.log.getvalue()


def test_an_earlier_day_with_the_rows_of_another_is_a_warning_by_name(world: World) -> None:
    first, second, last = dates.window(LAST, 3)
    for day, rows_of in ((first, first), (second, first), (last, last)):
        world.put(day, _many(60, rows_of))
    _, found = validated(world)
    failed = [check for check in found.checks if not check.passed]
    assert [(check.day, check.rule, check.severity) for check in failed] == [
        (second, "duplicate", "warning"),
        (second, "times", "warning"),
    ]
    assert f"{second} all rows: duplicate: the same rows as {first}" in world.log.getvalue()


def test_an_earlier_day_that_lost_most_of_its_labels_is_a_warning_by_name(world: World) -> None:
    before = LAST - timedelta(days=1)
    labels = pa.array([None] * 45 + [0, 1, 0] * 5, pa.int64())
    world.put(before, pa.table({**_many(60, before), "clicked": labels}))
    _, found = validated(world)
    (check,) = [check for check in found.checks if not check.passed and check.day == before]
    assert (check.day, check.column, check.severity) == (before, "clicked", "warning")
    assert f"{before} column clicked: labels: 25 % of 60 rows have a label" in world.log.getvalue()


def test_data_that_repeat_by_nature_have_no_warning(world: World) -> None:
    for day in dates.window(LAST, 3):
        world.put(day, count=600)  # an id for each four rows
    assert all(check.passed for check in validated(world)[1].checks)


def test_an_unlabelled_validation_day_is_a_warning_by_name(world: World) -> None:
    before = LAST - timedelta(days=1)
    world.document["source"]["window_days"] = 4
    world.put(LAST - timedelta(days=3))
    world.put(before, pa.table({**_many(60, before), "clicked": pa.nulls(60, pa.int64())}))
    published, found = validated(world)
    assert found.excluded == (before,)
    assert f"{before} is excluded: {before} column clicked: label: 0 rows with a label" in world.log.getvalue()
    assert f"{before}" in world.store.read(published.result.outputs["page.html"].key).decode()


@pytest.mark.parametrize("passed", [True, False])
def test_the_checks_are_stored_as_json_whether_the_run_is_refused_or_not(world: World, *, passed: bool) -> None:
    world.document["columns"]["price"]["min"] = 0 if passed else 50
    if passed:
        validated(world)
    else:
        with pytest.raises(DataRejected):
            validated(world)
    found = Validation.model_validate_json(world.store.read(paths.checks("clicks", world.run_id, "validate")))
    assert [check.rule for check in found.failures(LAST)] == ([] if passed else ["min"])
    assert found.rows[LAST] == 60
    assert sum(found.labelled.values()) == 180
