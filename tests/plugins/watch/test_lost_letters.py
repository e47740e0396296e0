"""The watch writes what the documents with the newest alerts that reached nobody lack, a few pipelines in a look."""

from pathlib import Path

import pytest

from ratchet.outbox.lost_letters import lost_letters, renew_lost_letters
from ratchet.store.file import FileStore
from ratchet_airflow.watch.lost_letters import LostLetterDocuments
from tests.outbox.test_lost_letters import give_up, letter
from tests.store_calls import counted_calls


def test_what_a_release_before_gave_up_is_on_the_page_after_a_few_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_INSTALLATION", "here")
    store, documents = FileStore(tmp_path), LostLetterDocuments()
    names = [f"p{number:02}" for number in range(10)]
    keys = [give_up(store, letter("a", pipeline=name)) for name in names]

    def shown() -> list[int]:
        return [len(lost_letters(store, "here", name)) for name in names]

    documents.look(store)
    assert shown() == [1] * 8 + [0] * 2
    documents.look(store)
    assert shown() == [1] * 10
    for _ in range(2):
        documents.look(store)
    with counted_calls(pytest.MonkeyPatch()) as calls:
        documents.look(store)
    assert calls == ["list", "list"]
    store.delete(keys[0])  # old letters are deleted
    documents.look(store)
    assert shown() == [0] + [1] * 9


def test_a_watch_that_has_just_started_looks_first_where_a_letter_is_newer_than_the_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_INSTALLATION", "here")
    store = FileStore(tmp_path)
    names = [f"p{number:02}" for number in range(20)]
    for name in names:
        give_up(store, letter("a", pipeline=name))
        if name not in {"p17", "p18"}:
            renew_lost_letters(store, "here", name)
    give_up(store, letter("b", pipeline="p19"))
    LostLetterDocuments().look(store)
    assert [len(lost_letters(store, "here", name)) for name in names] == [1] * 19 + [2]
