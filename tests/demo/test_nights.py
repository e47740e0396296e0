"""What the demo prints about its nights, and the state of an earlier demo; the nights themselves are in test_demo."""

import io
import uuid
from datetime import date
from pathlib import Path

import pytest
from rich.console import Console

from demo.nights import PIPELINE, Nights, summarise
from local.services import Services
from ratchet.checkout import ROOT
from ratchet.contracts.stages import Stage
from ratchet.store.base import Store
from ratchet.store.ledger import append
from ratchet.store.memory import MemoryStore
from tests.runs.recorded import keep
from tests.runs.test_requests import OUTCOMES, plan
from tests.store.test_ledger import change

TODAY = date(2026, 11, 22)
DONE: tuple[Stage, ...] = ("ingest", "validate", "features")


@pytest.fixture
def store() -> Store:
    return MemoryStore(uuid.uuid4().hex)


def night(store: Store, run_id: str, *, cached: bool) -> str:
    """A run of the example whose first stages are done."""
    made = plan(run_id=run_id)
    spec = made.spec.model_copy(update={"name": PIPELINE})
    ended = [OUTCOMES[stage].model_copy(update={"cached": cached}) for stage in DONE]
    keep(store, made.model_copy(update={"spec": spec}), *ended)
    return run_id


def forget(home: Path) -> str:
    """What a demo of TODAY prints about the state that it finds in its home."""
    printed = io.StringIO()
    Nights(Services(ROOT, home), Console(file=printed))._forget_other_dates(TODAY)
    assert (home / "last-date").read_text() == TODAY.isoformat()
    return printed.getvalue()


def test_a_refused_night_is_explained_with_the_version_that_stays_in_production(store: Store) -> None:
    for number in (1, 2):
        append(store, change(str(number), number, model=PIPELINE), after=number - 1)
    (line,) = summarise(store, [night(store, "first", cached=False)], refused=True)
    assert line.endswith("production stays at version 2")
    assert list(summarise(store, ["first"], refused=False)) == []


def test_results_that_were_reused_are_counted(store: Store) -> None:
    runs = [night(store, "built", cached=False), night(store, "again", cached=True)]
    (line,) = summarise(store, runs, refused=False)
    assert line.startswith("3 of 6 results were reused")


@pytest.mark.parametrize(("note", "named"), [("2026-11-21", "2026-11-21"), (None, "an unknown date")])
def test_the_state_of_another_date_is_removed_and_a_home_without_its_date_is_one(
    tmp_path: Path, note: str | None, named: str
) -> None:
    home = tmp_path / "demo"
    (home / "store").mkdir(parents=True)
    if note is not None:
        (home / "last-date").write_text(note)
    assert f"removing the demo of {named}" in forget(home)
    assert not (home / "store").exists()


def test_the_state_of_the_same_date_is_kept_and_a_first_demo_has_none(tmp_path: Path) -> None:
    home = tmp_path / "demo"
    assert forget(home) == ""
    (home / "store").mkdir()
    assert forget(home) == ""
    assert (home / "store").is_dir()
