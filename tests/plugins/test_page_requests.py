"""The pages on Airflow's server take at most five requests to the store, whatever is under way or lost.

Of the page of a verdict see test_approval."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from ratchet.contracts import paths
from ratchet.outbox.lost_letters import MOST, renew_lost_letters
from ratchet.runs.run_index import note_end, note_plan, note_production
from ratchet.store.file import FileStore
from ratchet.store.ledger import append
from ratchet.store.publishing import Transaction
from ratchet_airflow import pages
from tests.outbox.test_lost_letters import give_up, letter
from tests.runs.recorded import keep
from tests.runs.test_answers import THIS
from tests.runs.test_requests import CONTENT, DAY
from tests.runs.test_run_index import promoted, ran, whole
from tests.store.test_ledger import change
from tests.store_calls import counted_calls


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileStore:
    monkeypatch.setenv("RATCHET_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("RATCHET_INSTALLATION", "here")
    made = FileStore(tmp_path / "store")
    made.prepare()
    return made


@pytest.fixture
def shown() -> Callable[..., str]:
    """Shows a page, which took at most so many requests."""

    def show(page: Callable[..., object], *named: object, most: int = 5) -> str:
        with counted_calls(pytest.MonkeyPatch()) as calls:
            found = page(*named)
        assert 0 < len(calls) <= most, calls
        return found.decode() if isinstance(found, bytes) else str(found)

    return show


def test_nights_with_a_backfill_under_way_lost_alerts_and_changes_of_production(
    store: FileStore, shown: Callable[..., str]
) -> None:
    promoted(store, ["6", "7"])
    for back in range(1, 4):
        note_end(store, ran(store, f"r{back}", *whole(), data_date=DAY - timedelta(days=back)))
    for back in range(10):
        made = ran(store, f"b{back}", kind="backfill", data_date=DAY - timedelta(days=10 + back))
        note_plan(store, made)
        keep(store, made, *whole()[:4])
        note_end(store, made)
    keep(store, made, *whole()[4:])  # and its process was killed before it wrote the line
    for number in range(MOST + 3):
        give_up(store, letter(f"alert {number}", minutes=number, pipeline="small"))
    renew_lost_letters(store, "here", "small")
    for number in range(2, 5):
        by_hand = change("6", 20, model="small", pipeline="small", model_digest="6" * 64, action="rollback")
        note_production(store, append(store, by_hand, after=number))
    page = shown(pages._nights, "small", most=3)
    assert [f"oncall: alert {number}<" in page for number in range(MOST + 3)] == [False] * 3 + [True] * MOST
    assert page.count('">unfinished<') == 10
    append(store, change("7", 20, model="small", model_digest=CONTENT, action="rollback"), after=5)
    append(store, change("7", 20, model="small", model_digest=CONTENT, action="hold"), after=6)
    assert "in production" in shown(pages._nights, "small")  # two that were killed before they wrote that


def test_what_a_stage_has_kept(store: FileStore, shown: Callable[..., str]) -> None:
    store.create(paths.kept("small", "r", "validate", "validation.html"), b"<p>every check</p>")
    store.create(paths.log("small", "r", "train", 1), b"step 1")
    assert shown(pages._kept, "small", "r", "validate", "validation.html", most=1) == "<p>every check</p>"
    assert shown(pages._log, "small", "r", "train", 1, most=1) == "step 1"


def test_the_page_that_a_stage_has_published(store: FileStore, shown: Callable[..., str]) -> None:
    transaction = Transaction(store, paths.published("small", "report", "f1"), "a")
    transaction.add_bytes("page.html", b"<p>the report</p>")
    transaction.commit(stage="report", fingerprint=THIS, parts={}, content=THIS, summary={})
    assert shown(pages._page, "small", "report", "f1", most=2) == "<p>the report</p>"
