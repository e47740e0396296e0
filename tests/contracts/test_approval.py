"""Which answers of people let a candidate into production."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.contracts.approval import Answer, approvals, why_not_approved, why_not_counted
from ratchet.contracts.authority import people
from ratchet.contracts.errors import PipelineInvalid
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.gate import Register
from ratchet.contracts.loading import loads

THIS, OTHER = digest(b"this"), digest(b"other")
AT = datetime(2026, 11, 21, 8, 12, tzinfo=UTC)
ONE = Register(promote="approve")
TWO = Register(promote="approve", approvals=2)
FILE = """\
name: small
source: {{kind: files, uri: '/data/{{date}}'}}
columns:
  x: {{role: numeric, type: float64}}
  y: {{role: label, type: int64}}
train: {{objective: binary}}
register: {register}
"""


def say(*words: str, about: str = THIS) -> tuple[Answer, ...]:
    """Answers such as `ada yes`; a word alone is an answer of nobody."""
    made = []
    for number, word in enumerate(words, 1):
        by, _, answer = word.rpartition(" ")
        made.append(
            Answer(pipeline="p", run_id="r", number=number, answer=answer, by=by, at=AT, evaluation=about)  # type: ignore[arg-type] # a test's words
        )
    return tuple(made)


def lacking(register: Register, *words: str, started_by: str = "", about: str = THIS) -> str:
    return why_not_approved(say(*words, about=about), register, started_by=started_by, evaluation=THIS)


def test_one_yes_is_enough_where_one_is_asked_for() -> None:
    assert lacking(ONE, "ada yes") == ""
    assert lacking(ONE, "ada yes", started_by="ada") == ""


def test_no_answer_is_no_yes() -> None:
    assert lacking(ONE) == "nobody who may approve it has approved it"
    assert lacking(ONE, "yes") == "nobody who may approve it has approved it"
    assert lacking(ONE, "no") == "the last answer is no answer in time, which is a no, at 2026-11-21 08:12 UTC"


@pytest.mark.parametrize("again", ["ada", "Ada", "ADA ", "\uff41da"])
def test_one_person_is_not_two_however_the_name_is_written(again: str) -> None:
    assert (
        lacking(TWO, "ada yes", f"{again} yes")
        == "ada has approved it, and a second person has to (register.approvals)"
    )
    assert lacking(TWO, "ben yes", f"{again} yes", started_by="ada").startswith("ben has approved it")
    with pytest.raises(PipelineInvalid, match=r"2 people have to approve, and register\.approvers names 1"):
        loads(FILE.format(register=f"{{promote: approve, approvals: 2, approvers: [ada, {again!r}]}}"))
    assert people(["ada", again, " ", "ben "]) == ["ada", "ben"]


def test_a_no_takes_back_every_yes_before_it_and_a_later_yes_counts_again() -> None:
    assert lacking(ONE, "ada yes", "ben no") == "the last answer is no of ben at 2026-11-21 08:12 UTC"
    assert lacking(ONE, "ben no", "ada yes") == ""


def test_a_yes_to_another_evaluation_does_not_count() -> None:
    assert lacking(ONE, "ada yes", about=OTHER) == "nobody who may approve it has approved it"


def test_only_those_whom_the_file_names_count() -> None:
    named = Register(promote="approve", approvers=("ada", "ben"))
    assert lacking(named, "eve yes") == "nobody who may approve it has approved it"
    assert lacking(named, "eve yes", "ben yes") == ""
    assert why_not_counted("eve", named, started_by="", earlier=()) == "eve is not in register.approvers (ada, ben)"


@pytest.mark.parametrize("words", [("ada yes",), ("ada yes", "ada yes"), ("ada yes", "sam yes")])
def test_two_are_two_different_people_and_none_of_them_started_the_run(words: tuple[str, ...]) -> None:
    assert (
        lacking(TWO, *words, started_by="sam") == "ada has approved it, and a second person has to (register.approvals)"
    )
    assert lacking(TWO, *words, "ben yes", started_by="sam") == ""


def test_why_a_yes_does_not_count() -> None:
    given = approvals(say("ada yes"), THIS)
    assert why_not_counted("", ONE, started_by="", earlier=()) == "a yes of nobody is no answer"
    assert why_not_counted("sam", TWO, started_by="sam", earlier=()).startswith("sam started the run")
    assert why_not_counted("ada", TWO, started_by="", earlier=given).startswith("ada has approved already")
    assert why_not_counted("ben", TWO, started_by="sam", earlier=given) == ""


def test_an_answer_in_words() -> None:
    (one,) = say("ada yes")
    assert one.model_copy(update={"text": "fine"}).line == "yes of ada at 2026-11-21 08:12 UTC: fine"


PEOPLE = st.sampled_from(["", "ada", "ben", "eve", "sam"])


@given(
    st.lists(st.tuples(PEOPLE, st.sampled_from(["yes", "no"]), st.sampled_from([THIS, OTHER])), max_size=6),
    st.sampled_from([(), ("ada",), ("ada", "ben"), ("ada", "ben", "sam")]),
    st.sampled_from([1, 2]),
    PEOPLE,
)
def test_what_is_approved_has_enough_people_who_may_after_the_last_no(
    told: list[tuple[str, str, str]], approvers: tuple[str, ...], number: int, starter: str
) -> None:
    register = Register(promote="approve", approvers=approvers, approvals=number)  # type: ignore[arg-type] # 1 or 2
    answers = [
        Answer(pipeline="p", run_id="r", number=place, answer=word, by=by, at=AT, evaluation=about)  # type: ignore[arg-type] # a test's words
        for place, (by, word, about) in enumerate(told, 1)
    ]
    people: set[str] = set()
    for one in answers:
        if one.evaluation != THIS:
            continue
        people = set() if one.answer == "no" else people | {one.by}
    people -= {""}
    people &= set(approvers) if approvers else people
    if number == 2:
        people -= {starter}
    approved = not why_not_approved(answers, register, started_by=starter, evaluation=THIS)
    assert approved == (len(people) >= number)


@pytest.mark.parametrize(
    ("register", "said"),
    [
        ("{promote: auto, approvers: [ada]}", "register.approvers: nobody is asked while register.promote is auto"),
        ("{promote: never, approvals: 2}", "register.approvals: nobody is asked while register.promote is never"),
        (
            "{promote: approve, approvals: 2, approvers: [ada, ada]}",
            "2 people have to approve, and register.approvers names 1",
        ),
        ("{promote: approve, approvals: 3}", "register.approvals"),
    ],
)
def test_approvers_who_are_not_asked_or_are_too_few_are_refused(register: str, said: str) -> None:
    with pytest.raises(PipelineInvalid) as refused:
        loads(FILE.format(register=register))
    assert said in str(refused.value)


def test_two_approvers_of_whom_two_have_to_approve_are_allowed() -> None:
    spec = loads(FILE.format(register="{promote: approve, approvals: 2, approvers: [ada, ben]}"))
    assert spec.register_.approvers == ("ada", "ben")
