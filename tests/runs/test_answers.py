"""The answers of people about a run, in the store."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from ratchet.contracts import paths
from ratchet.contracts.approval import Answer
from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.request import Promotion
from ratchet.contracts.stages import STAGES
from ratchet.contracts.writing_rights import writable_by
from ratchet.runs.answers import answers, answers_to_show, record_answer
from ratchet.runs.requests import compose
from ratchet.store.file import FileStore
from ratchet.store.memory import MemoryStore
from ratchet.store.sealed import seal
from tests.runs.test_requests import OUTCOMES, plan
from tests.store_calls import counted_calls

AT = datetime(2026, 11, 21, 8, 12, tzinfo=UTC)
THIS = digest(b"this")
ASKED = plan(promotion=Promotion(mode="approve"))


def test_answers_are_kept_in_their_order_with_person_time_and_text() -> None:
    store = MemoryStore("answers-order")
    assert answers(store, "small", "r") == ()
    first = record_answer(store, ASKED, "no", by="ben", at=AT, text="too early", evaluation=THIS)
    second = record_answer(store, ASKED, "yes", by="ada", at=AT, text="", evaluation=THIS)
    assert answers(store, "small", "r") == (first, second)
    assert [one.number for one in (first, second)] == [1, 2]
    assert first.line == "no of ben at 2026-11-21 08:12 UTC: too early"


def test_a_page_reads_the_newest_answer_alone_but_those_of_a_release_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileStore(tmp_path)
    assert answers_to_show(store, "small", "r") == ()
    before = Answer(pipeline="small", run_id="r", number=1, answer="no", by="ben", at=AT, evaluation=THIS)
    store.create(paths.answer("small", "r", 1), seal(before))  # as releases before do
    assert [one.line for one in answers_to_show(store, "small", "r")] == [before.line]
    store.create(paths.answer("small", "r", 2), seal(before.model_copy(update={"number": 2})))
    third = record_answer(store, ASKED, "yes", by="ada", at=AT, text="", evaluation=THIS)
    with counted_calls(monkeypatch) as calls:
        shown = answers_to_show(store, "small", "r")
    assert [one.line for one in shown] == [before.line, before.line, third.line]
    assert calls == ["list", "read"]
    store.delete(paths.answer("small", "r", 1))  # as in a store that was restored in part
    assert answers_to_show(store, "small", "r") == answers(store, "small", "r") == ()


def test_an_answer_that_was_changed_is_noticed() -> None:
    store = MemoryStore("answers-changed")
    record_answer(store, ASKED, "no", by="ben", at=AT, text="", evaluation=THIS)
    key = paths.answer("small", "r", 1)
    entry = store.head(key)
    assert entry is not None
    store.replace(key, store.read(key).replace(b'"no"', b'"yes"'), expected=entry.etag)
    with pytest.raises(CorruptArtifact, match=r"approval-1\.json is damaged"):
        answers(store, "small", "r")


def test_no_stage_may_write_an_answer() -> None:
    key = paths.answer("small", "r", 1)
    for stage in STAGES:
        for pattern in writable_by(stage):
            assert not key.startswith(pattern.removesuffix("*")), pattern
            if pattern.startswith("runs/*/"):
                assert not key.rpartition("/")[2].startswith(pattern.rpartition("/")[2].removesuffix("*"))


def test_register_and_report_are_asked_with_the_answers_and_are_other_work_for_each() -> None:
    store = MemoryStore("answers-requests")
    without = compose(store, ASKED, "register", OUTCOMES, "a")
    report = compose(store, ASKED, "report", OUTCOMES, "a")
    made = record_answer(store, ASKED, "yes", by="ada", at=AT, text="", evaluation=THIS)
    having = compose(store, ASKED, "register", OUTCOMES, "a")
    assert (without.approvals, having.approvals) == ((), (made,))
    assert without.fingerprint != having.fingerprint
    assert compose(store, ASKED, "report", OUTCOMES, "a").fingerprint != report.fingerprint
    assert compose(store, ASKED, "validate", OUTCOMES, "a").approvals == ()
    assert compose(store, plan(), "register", OUTCOMES, "a").approvals == ()
