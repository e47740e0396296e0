"""`ratchet why` lists the newest runs last, also in a copy of a store, and says what it does not know in one line."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from ratchet.store.opening import open_store
from tests.runs.nights import ratchet
from tests.runs.recorded import keep, keep_plan
from tests.runs.test_requests import OUTCOMES, plan
from tests.turned_times import turn_round

MONDAY = datetime(2026, 11, 2, tzinfo=UTC)


def test_runs_are_listed_as_they_were_planned(tmp_path: Path) -> None:
    store, where = open_store(str(tmp_path / "store")), ("--store", str(tmp_path / "store"))
    store.prepare()
    for number in range(25):
        made = plan(run_id=f"{24 - number:02}", created=MONDAY + timedelta(days=number))
        keep(store, keep_plan(store, made), OUTCOMES["train"])
    turn_round(store)
    newest = [f"{number:02}" for number in reversed(range(20))]
    assert ratchet("why", "small", *where).out.splitlines() == [f"small/{name}" for name in newest]
    assert "train     rebuilt" in ratchet("why", "small/24", *where).out
    for words in (("why", "small/manual__2026-11-02T00:00:00"), ("scores", "small/99", "--out", f"{tmp_path}/x.csv")):
        ended = ratchet(*words, *where)
        named = [name if words[0] == "why" else f"small/{name}" for name in newest[-5:]]
        assert (ended.code, f"newest: {', '.join(named)}" in ended.err) == (64, True), ended.err
    assert "no run of 'large'" in ratchet("why", "large", *where).err


def test_the_last_run_of_a_date_is_shown_however_its_id_begins(tmp_path: Path) -> None:
    """A scheduled run has the day after in its id, one that a person began the day on which that was."""
    store, where = open_store(str(tmp_path / "store")), ("--store", str(tmp_path / "store"))
    store.prepare()
    for number, run_id in enumerate(("scheduled__2026-11-03", "manual__2026-11-09", "scheduled__2026-11-02")):
        day = date(2026, 11, 1 if number == 2 else 2)
        made = plan(run_id=run_id, created=MONDAY + timedelta(days=number), data_date=day)
        keep(store, keep_plan(store, made), OUTCOMES["train"])
    shown = ratchet("why", "small", "--date", "2026-11-02", *where).out.splitlines()
    assert shown[0] == "small/manual__2026-11-09"
    assert shown[1].startswith("train     rebuilt")
    for words, said in (
        (("small", "--date", "2026-11-05"), "no run of 'small' of 2026-11-05"),
        (("small/manual__2026-11-09", "--date", "2026-11-02"), "leave one of them out"),
    ):
        ended = ratchet("why", *words, *where)
        assert (ended.code, said in ended.err) == (64, True), ended.err
