"""Register does to production what the file allows and people have approved, whatever the tasks before it say."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pytest

from ratchet.contracts.approval import Answer
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.registration import Registration
from ratchet.contracts.request import Promotion, StageRequest
from ratchet.store.file import FileStore
from ratchet.store.ledger import records
from tests.mlflow_server import prepare
from tests.register.night import evaluate
from tests.shop import SPEC, Shop

AT = datetime(2026, 11, 21, 8, 12, tzinfo=UTC)
FILE = """\
name: shop
source: {{kind: files, uri: '/data/{{date}}'}}
columns:
  x: {{role: numeric, type: float64}}
  y: {{role: label, type: int64}}
train: {{objective: binary}}
register: {register}
"""
APPROVE = "{promote: approve}"


@pytest.fixture
def shop(tmp_path: Path, mlflow_database: Path) -> Shop:
    store = prepare(FileStore(tmp_path / "store"), mlflow_database)
    return Shop.make(store, tmp_path / "scratch", document={**SPEC, "register": {"promote": "approve"}})


def request(shop: Shop, register: str = APPROVE, mode: Literal["auto", "approve"] = "approve") -> StageRequest:
    """To register a model that is better; its file has this section."""
    (shop.pipeline / "pipeline.yaml").write_text(FILE.format(register=register))
    training = shop.train(1.0)
    made = shop.registration(training, evaluate(shop, training))
    return made.model_copy(update={"promotion": Promotion(mode=mode), "started_by": "sam"})


def with_answers(asked: StageRequest, *words: str, evaluation: str | None = None) -> StageRequest:
    about = evaluation or asked.inputs["evaluate"].content
    given = tuple(
        Answer(
            pipeline="shop", run_id=asked.run_id, number=number, by=word.split()[0], answer=word.split()[1], at=AT,  # type: ignore[arg-type] # a test's words
            evaluation=about, text="fine",
        )
        for number, word in enumerate(words, 1)
    )  # fmt: skip
    return asked.model_copy(update={"approvals": given})


def register(shop: Shop, asked: StageRequest) -> Registration:
    summary = shop.finish(asked)[0].summary
    assert isinstance(summary, Registration)
    return summary


def test_an_approve_task_that_was_marked_as_a_success_registers_nothing(shop: Shop) -> None:
    with pytest.raises(
        ConfigurationError, match=r"register\.promote is approve, and nobody who may approve it"
    ) as refused:
        register(shop, request(shop))
    assert "clear the task approve" in refused.value.remedy
    assert records(shop.store, "shop") == ()


def test_the_ledger_names_who_said_yes_and_when(shop: Shop) -> None:
    done = register(shop, with_answers(request(shop), "ada yes"))
    assert done.promoted
    (record,) = records(shop.store, "shop")
    (approval,) = record.approvals
    assert (approval.name, approval.at, approval.how) == ("ada", AT, "airflow: fine")


@pytest.mark.parametrize("words", [("ada no",), ("ada yes", "ben no")])
def test_after_a_no_nothing_is_registered(shop: Shop, words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigurationError, match="the last answer is no of "):
        register(shop, with_answers(request(shop), *words))
    assert records(shop.store, "shop") == ()


def test_a_yes_about_another_evaluation_registers_nothing(shop: Shop) -> None:
    with pytest.raises(ConfigurationError, match="nobody who may approve it"):
        register(shop, with_answers(request(shop), "ada yes", evaluation=digest(b"another")))


@pytest.mark.parametrize("words", [("ada yes",), ("ada yes", "sam yes"), ("eve yes", "ada yes")])
def test_two_of_those_whom_the_file_names_have_to_agree(shop: Shop, words: tuple[str, ...]) -> None:
    asked = request(shop, "{promote: approve, approvals: 2, approvers: [ada, ben, sam]}")
    with pytest.raises(ConfigurationError, match="ada has approved it, and a second person has to"):
        register(shop, with_answers(asked, *words))
    assert register(shop, with_answers(asked, *words, "ben yes")).promoted
    assert {one.name for one in records(shop.store, "shop")[0].approvals} >= {"ada", "ben"}


@pytest.mark.parametrize("register_section", [APPROVE, "{promote: never}"])
def test_a_plan_that_was_changed_between_plan_and_register_is_refused(shop: Shop, register_section: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r"says promote auto, and register\.promote of its file is .*was changed"
    ):
        register(shop, request(shop, register_section, mode="auto"))
    assert records(shop.store, "shop") == ()


def test_a_schedule_in_the_file_needs_no_library_that_the_stage_image_lacks(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "croniter", None)
    asked = request(shop, register="{promote: auto}\nschedule: {cron: '0 2 * * *'}", mode="auto")
    assert register(shop, asked).promoted
