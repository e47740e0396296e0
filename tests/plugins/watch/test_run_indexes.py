"""The watch makes the indexes of runs again that a release before wrote, or that are lost, and lines that they lack."""

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest
from typing_extensions import override

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.loading import loads
from ratchet.contracts.run_index import FORM, RunIndex
from ratchet.runs.index_document import rebuilt
from ratchet.runs.run_index import nights, note_plan
from ratchet.runs.stage_record import StageRecord
from ratchet.runs.standstill import only_removal
from ratchet.store.base import Store
from ratchet.store.file import FileStore
from ratchet.store.opening import open_store
from ratchet_airflow.watch.guard import failures
from ratchet_airflow.watch.run_indexes import RunIndexes
from tests.plugins.watch import airflow_rows
from tests.runs.recorded import keep, keep_plan
from tests.runs.test_requests import DAY, JUDGED, OUTCOMES, SPEC, outcome, plan
from tests.store_calls import counted_calls


class Refusing(FileStore):
    """Refuses to write the document of any pipeline, as while its rights lack that."""

    refuses = False

    @override
    def replace(self, key: str, data: bytes, *, expected: str | None) -> bool:
        if self.refuses and key.startswith(f"{paths.run_index()}/"):
            raise ConfigurationError("access is denied")
        return super().replace(key, data, expected=expected)


def looked(indexes: RunIndexes, store: Store) -> None:
    work = indexes.look(store, (), for_lacking=True)
    assert work is not None
    work.join()


def test_an_index_of_a_release_before_is_written_once_also_of_a_retired_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, store = tmp_path / "pipelines" / "small", open_store(str(tmp_path / "store"))
    folder.mkdir(parents=True)
    monkeypatch.setenv("RATCHET_PIPELINES", str(folder.parent))
    store.prepare()
    keep_plan(store, plan(run_id="r"))
    key, indexes = paths.run_index("small"), RunIndexes()
    store.create(key, b"{}")  # its folder is empty: it is retired
    looked(indexes, store)
    made = RunIndex.model_validate_json(store.read(key))
    assert (made, made.form) == (rebuilt(store, "small"), FORM)
    looked(indexes, store)  # at what was written, which does not say yet from which records the line is
    written = store.head(key)
    looked(indexes, store)
    assert store.head(key) == written
    (folder / "pipeline.yaml").write_text(SPEC)
    store.delete(key)
    looked(indexes, store)
    assert RunIndex.model_validate_json(store.read(key)) == made


def test_lines_of_runs_under_way_are_written_at_most_every_few_minutes_however_many_runs_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_PIPELINES", str(tmp_path / "none"))
    store, indexes = open_store(str(tmp_path / "store")), RunIndexes()
    store.prepare()
    made = keep_plan(store, plan(run_id="r"))
    note_plan(store, made)
    looked(indexes, store)
    keep(store, made, OUTCOMES["train"], OUTCOMES["evaluate"])  # and it was killed before it wrote its line
    assert indexes.look(store, (), for_lacking=False) is None
    assert [line.standing for line in nights(store, "small", follow=False)] == ["unfinished"]
    monkeypatch.setattr("ratchet_airflow.watch.run_indexes._EVERY_S", 0.0)
    work = indexes.look(store, (), for_lacking=False)
    assert work is not None
    work.join()
    assert [line.standing for line in nights(store, "small", follow=False)] == ["promote"]


def test_a_purge_of_hours_is_no_fault_of_the_watch_and_its_index_is_written_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watch sent no heartbeat after each look, as long as the purge went on."""
    monkeypatch.setenv("RATCHET_PIPELINES", str(tmp_path / "none"))
    monkeypatch.setattr("ratchet.store.lease.BEAT_S", 0.2)
    store, key, indexes = open_store(str(tmp_path / "store")), paths.run_index("small"), RunIndexes()
    store.prepare()
    keep_plan(store, plan(run_id="r"))
    store.create(key, b"{}")
    failures()
    with only_removal(store, "small", "Ada", wait_s=0.0):
        looked(indexes, store)
    assert failures() == []
    assert store.read(key) == b"{}"
    looked(indexes, store)
    assert RunIndex.model_validate_json(store.read(key)) == rebuilt(store, "small")


def test_a_line_that_the_store_refused_when_the_run_was_planned_and_ended_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_PIPELINES", str(tmp_path / "none"))
    store, indexes = Refusing(tmp_path / "store"), RunIndexes()
    store.prepare()

    def ran(run_id: str, day: date) -> None:
        made = keep_plan(store, plan(run_id=run_id, data_date=day))
        note_plan(store, made)
        keep(store, made, OUTCOMES["train"], OUTCOMES["evaluate"])
        with StageRecord(store, made, "report") as record:
            record.end(OUTCOMES["report"])

    def shown() -> list[str]:
        return [line.run_id for line in nights(store, "small")]

    ran("first", DAY)
    ran("second", DAY)
    store.refuses = True
    ran("lost", DAY + timedelta(days=1))
    ran("last", DAY)
    looked(indexes, store)  # it cannot help yet
    assert shown() == ["second"]
    store.refuses = False
    looked(indexes, store)
    assert shown() == ["last", "lost"]
    index = RunIndex.model_validate_json(store.read(paths.run_index("small")))
    assert index == rebuilt(store, "small")
    assert all(run.ended for run in index.runs)  # so a page reads no records of theirs
    looked(indexes, store)
    with counted_calls(monkeypatch) as calls:
        looked(indexes, store)  # a run that a newer one of its date hides is not looked at again
    assert sorted(calls) == [*["list"] * 4, "read"]  # two of alerts that reached nobody


def test_a_verdict_that_the_store_refused_to_note_is_compared_once_its_run_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_PIPELINES", str(tmp_path / "none"))
    monkeypatch.setenv("RATCHET_INSTALLATION", "here")
    store, indexes = Refusing(tmp_path / "store"), RunIndexes()
    store.prepare()
    made = keep_plan(store, plan(run_id="r.here"))
    note_plan(store, made)
    for stage in ("train", "evaluate", "report"):
        with StageRecord(store, made, stage) as record:
            record.end(OUTCOMES[stage])
    store.refuses = True  # and a person has cleared it
    with StageRecord(store, made, "evaluate") as record:
        record.end(outcome("evaluate", summary={**JUDGED, "verdict": "reject"}))

    def shown() -> list[str]:
        return [line.standing for line in nights(store, "small", follow=False)]

    store.refuses = False
    looked(indexes, store)
    assert shown() == ["promote"]
    ran = replace(airflow_rows.run(state="success"), dag_id="small", run_id="r")
    for _ in range(3):
        with counted_calls(pytest.MonkeyPatch()) as calls:
            work = indexes.look(store, [ran], for_lacking=True)
            assert work is not None
            work.join()
        assert shown() == ["reject"]
    assert sorted(calls) == [*["list"] * 4, "read"]  # it is compared once


def test_a_look_takes_few_requests_and_the_next_ones_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_PIPELINES", str(tmp_path / "none"))
    store, indexes = Refusing(tmp_path / "store"), RunIndexes()
    store.prepare()
    names, needed = [f"p{number:02}" for number in range(12)], 0
    for name in names:
        spec = loads(SPEC.replace("name: small", f"name: {name}"))
        for number in range(12 if name == "p00" else 2):
            made = keep_plan(store, plan(run_id=f"r{number}", data_date=DAY - timedelta(days=number), spec=spec))
            store.refuses = number > 0
            note_plan(store, made)
    store.refuses = False
    while any(len(nights(store, name)) < (12 if name == "p00" else 2) for name in names):
        with counted_calls(monkeypatch) as calls:
            looked(indexes, store)
        assert len(calls) < 130 + 3 * len(names) + 2  # two for each pipeline with runs under way, and those of letters
        needed += 1
        assert needed < 12


def test_runs_that_newer_ones_hide_keep_no_other_pipeline_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_PIPELINES", str(tmp_path / "none"))
    store, looks = Refusing(tmp_path / "store"), 0
    store.prepare()
    for name in (names := [f"p{number:02}" for number in range(8)]):
        spec = loads(SPEC.replace("name: small", f"name: {name}"))
        for number in range(20):  # of one date
            note_plan(store, keep_plan(store, plan(run_id=f"r{number}", spec=spec)))
        store.refuses = True
        note_plan(store, keep_plan(store, plan(run_id="lost", data_date=DAY + timedelta(days=1), spec=spec)))
        store.refuses = False
    indexes = RunIndexes()
    while any(len(nights(store, name)) < 2 for name in names):
        looked(indexes, store)
        looks += 1
        assert looks <= 1
