"""Every key in the store is made of checked names."""

from collections.abc import Callable
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError


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
        (lambda: paths.table("p", "0" * 64), f"tables/p/{'0' * 16}"),
        (lambda: paths.plan("p", "r"), "runs/p/r/plan.json"),
        (lambda: paths.outcome("p", "r", "train"), "runs/p/r/train.json"),
        (lambda: paths.accumulation("p", "0a"), "accumulation/p/0a.json"),
        (lambda: paths.built("p", "train", "0a"), "builds/p/train/0a"),
        (lambda: paths.checkpoints("p", "0a"), "checkpoints/p/0a"),
        (lambda: paths.ledger_record("m", 7), "ledger/m/00000007.json"),
        (paths.tracking, "mlflow"),
        (lambda: paths.day(date(2026, 11, 20)), "2026-11-20"),
    ],
)
def test_the_layout_of_the_store_is_pinned(made: Callable[[], str], key: str) -> None:
    assert made() == key
