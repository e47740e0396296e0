"""Every key in the store is made of checked names."""

import tarfile
from collections.abc import Callable
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.stages import REGULAR, STAGES, TRAININGS, Stage
from ratchet.contracts.writing_rights import writable_by
from ratchet.runtime.blocks import KINDS

STORE = Path(__file__).resolve().parents[1] / "stores" / "ff9b446" / "store.tar.xz"
NO_STAGES = {"bundles", "builds", "nights", "mlflow"}
"""Places that no stage writes to; without a server, as in this store, `register` and `report` write MLflow's data."""


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../x", "/etc", "a\x00", "a..b", ".hidden", "x" * 201, "a b", "ä", "a."]
)
def test_a_name_that_could_lead_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be part of a path"):
        paths.segment(name)


@given(st.text())
def test_no_name_leaves_its_place(name: str) -> None:
    try:
        key = paths.run("pipeline", name)
    except ConfigurationError:
        return
    assert key == f"runs/pipeline/{name}"
    assert key.count("/") == 2


@pytest.mark.parametrize(
    ("made", "key"),
    [
        (lambda: paths.bundle("0a"), "bundles/0a.tar"),
        (lambda: paths.manifest(paths.published("p", "train", "0a")), "published/p/train/0a/manifest.json"),
        (lambda: paths.published("p", paths.day_part("ingest"), "0a"), "published/p/ingest.day/0a"),
        (
            lambda: paths.manifest_aside(paths.damaged("published/p/train/0a"), "1" * 64),
            f"published/p/train/0a/damaged/{'1' * 16}.json",
        ),
        (
            lambda: paths.manifest_aside(paths.superseded("published/p/x/0a"), "1" * 64),
            f"published/p/x/0a/superseded/{'1' * 16}.json",
        ),
        (lambda: paths.table("p", "0" * 64), f"tables/p/{'0' * 16}"),
        (lambda: paths.plan("p", "r"), "runs/p/r/plan.json"),
        (lambda: paths.outcome("p", "r", "train"), "runs/p/r/train.json"),
        (lambda: paths.log("p", "r", "train", 2), "runs/p/r/train.2.log"),
        (lambda: paths.accumulation("p", "0a"), "accumulation/p/0a.json"),
        (lambda: paths.built("p", "train", "0a"), "builds/p/train/0a"),
        (lambda: paths.checkpoints("p", "train", "0a", "1b"), "checkpoints/p/train/0a/1b"),
        (lambda: paths.record_below(paths.ledger("m"), 7), "ledger/m/00000007.json"),
        (lambda: paths.version_record("m", "7", "0a" * 32), "versions/m/7-0a0a0a0a0a0a0a0a.json"),
        (lambda: paths.TRACKING, "mlflow"),
        (lambda: paths.day(date(2026, 11, 20)), "2026-11-20"),
    ],
)
def test_the_layout_of_the_store_is_pinned(made: Callable[[], str], key: str) -> None:
    assert made() == key


def test_keys_are_read_as_they_are_made() -> None:
    published = paths.published("p", "train", "0a")
    assert paths.published_prefix(paths.manifest(published)) == published
    assert paths.last(paths.built("p", "train", "0a")) == "0a"
    assert paths.night_date(paths.night("p", date(2026, 11, 20), "r")) == date(2026, 11, 20)
    assert paths.recorded_version(paths.version_record("m", "12", "0a" * 32)) == "12"
    assert paths.run_of_plan(paths.plan("p", "r")) == "r"
    assert paths.run_of_plan(paths.outcome("p", "r", "train")) is None
    assert paths.run_of_plan(paths.log("p", "r", "train", 1)) is None
    assert paths.run_of_plan(paths.kept("p", "r", "train", "plan.json")) is None
    assert paths.plan("p", "r").startswith(f"{paths.runs('p')}/")


def writers(key: str) -> list[Stage]:
    """The stages that may write a key."""
    return [stage for stage in STAGES if any(fnmatchcase(key, pattern) for pattern in writable_by(stage))]


def test_each_file_of_a_real_store_may_be_written_by_the_one_stage_that_wrote_it() -> None:
    with tarfile.open(STORE) as packed:
        files = [file.name.partition("/")[2] for file in packed if file.isfile() and file.name.startswith("store/")]
    places: dict[str, set[str]] = {}
    for key in files:
        place, *steps = key.split("/")
        places.setdefault(place, set()).update(writers(key))
        assert len(writers(key)) <= 1 or writers(key) == ["train", "refit"] == sorted(TRAININGS, reverse=True), key
        if place == "published":
            assert writers(key) == [steps[1].removesuffix(".day")], key
        if place == "runs":
            stage, kept, _ = steps[2].partition("-")
            assert writers(key) == ([stage] if kept else []), key
    assert places == {
        "published": set(REGULAR),
        "runs": {"validate", "report"},
        "tables": {"ingest"},
        "checkpoints": TRAININGS,
        "ledger": {"register"},
        **{place: set() for place in NO_STAGES},
    }


def test_sums_of_days_are_written_by_the_stage_that_adds_them_up() -> None:
    assert {kind: writers(paths.published("p", kind, "0a")) for kind in KINDS} == {
        "validate.sums": ["validate"],
        "features.sums": ["features"],
    }


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_may_write_its_own_results_and_no_record_of_the_run(stage: Stage) -> None:
    prefix = paths.published("p", stage, "0a")
    for key in (
        paths.manifest(prefix),
        paths.manifest_aside(paths.damaged(prefix), "1" * 64),
        paths.kept("p", "r", stage, "page.html"),
    ):
        assert writers(key) == [stage]
    for key in (
        paths.plan("p", "r"),
        paths.outcome("p", "r", stage),
        paths.log("p", "r", stage, 1),
        paths.lease("p", stage, "0a"),
        paths.built("p", stage, "0a"),
        paths.bundle("0a"),
        paths.night("p", date(2026, 11, 20), "r"),
        paths.alert("p", "r", stage),
        paths.accumulation("p", "0a"),
    ):
        assert writers(key) == []


@pytest.mark.parametrize("stage", ["ingest", "validate", "features"])
def test_a_stage_has_the_leases_of_its_own_days_alone(stage: Stage) -> None:
    assert writers(paths.lease("p", paths.day_part(stage), "0a")) == [stage]
