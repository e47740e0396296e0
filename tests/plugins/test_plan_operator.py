"""The task that plans a run: what its log says of the model to beat and of the data that it takes."""

import shutil
from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ratchet.contracts import bundle
from ratchet.contracts.errors import Unavailable
from ratchet.contracts.fingerprint import digest
from ratchet.runs.history import plan_of
from ratchet.store.ledger import Change, append
from ratchet.store.opening import open_store
from ratchet_airflow.plan_operator import PlanOperator
from ratchet_airflow.run_id import store_run_id

FOLDER = Path(__file__).resolve().parents[2] / "dags" / "pipelines" / "search-ranking"
MODEL = "search-ranking"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store whose ledger has a champion of 10 March and one of 20 March."""
    monkeypatch.setenv("RATCHET_DATA", str(tmp_path))
    monkeypatch.setenv("RATCHET_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("RATCHET_RUNNER", "process")
    (tmp_path / "clicks").mkdir()
    opened = open_store(str(tmp_path / "store"))
    opened.prepare()
    for number, day in enumerate((10, 20)):
        change = Change(
            model=MODEL,
            action="promote",
            version=str(number + 1),
            fingerprint=digest(b"f"),
            model_digest=digest(bytes([number])),
            manifests={},
            data_date=date(2026, 3, day),
            window_start=date(2026, 3, day),
            pipeline=MODEL,
            run_id="r",
            reason="better",
            baseline=number or None,
            recorded=datetime.now(UTC),
        )
        append(opened, change, after=number)
    return opened.uri


def context_of(promote: str) -> dict[str, Any]:
    """What Airflow gives a task of a run that a person started."""
    run = SimpleNamespace(
        run_type="manual",
        run_after=datetime(2026, 3, 21, tzinfo=UTC),
        data_interval_start=None,
        data_interval_end=None,
        partition_key=None,
        logical_date=None,
    )
    return {"dag_run": run, "run_id": promote, "params": {"date": "2026-03-15", "promote": promote}}


@pytest.mark.parametrize(("promote", "version"), [("auto", 2), ("never", 1)])
def test_the_log_names_the_champion_that_the_run_is_measured_against(
    store: str, promote: str, version: int, capsys: pytest.CaptureFixture[str]
) -> None:
    operator = PlanOperator(task_id="plan", folder=FOLDER, timezone="UTC")
    assert operator.execute(context_of(promote)).startswith(store)
    assert f"champion: version {version}; promotion: {promote}" in capsys.readouterr().out


@pytest.mark.docker
def test_an_image_that_was_deleted_is_waited_for_as_a_stage_waits_for_it(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_RUNNER", "docker")
    monkeypatch.setenv("RATCHET_STAGE_IMAGE", "ratchet-stage:deleted")
    with pytest.raises(Unavailable, match=r"ratchet-stage:deleted is not in the engine"):
        PlanOperator(task_id="plan", folder=FOLDER, timezone="UTC").execute(context_of("never"))


def test_a_plan_is_made_of_one_commit_also_where_the_next_one_comes_meanwhile(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for commit in ("one", "two"):
        shutil.copytree(FOLDER, tmp_path / commit / MODEL)
        (tmp_path / commit / MODEL / "features.py").write_text(f"# {commit}\n")
    link = tmp_path / "current"
    link.symlink_to("one")
    pack = bundle.pack

    def pack_and_switch(folder: Path) -> bytes:
        packed = pack(folder)
        link.unlink()
        link.symlink_to("two")
        return packed

    monkeypatch.setattr(bundle, "pack", pack_and_switch)
    PlanOperator(task_id="plan", folder=link / MODEL, timezone="UTC").execute(context_of("never"))
    plan = plan_of(open_store(store), MODEL, store_run_id("never"))
    assert plan is not None
    assert plan.bundle.sha256 == digest(pack(tmp_path / "one" / MODEL))
    assert plan.user_files == {"features.py": digest(b"# one\n")}
