"""What a plan refuses to write down."""

import os
import shutil
from datetime import date
from pathlib import Path

import pytest

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.loading import load
from ratchet.contracts.request import RunPlan
from ratchet.runs.history import runs_of
from ratchet.runs.planning import make_plan
from ratchet.runs.run_index import nights
from ratchet.store.file import FileStore

FOLDER = Path(__file__).resolve().parents[2] / "dags" / "pipelines" / "search-ranking"


def test_a_password_in_the_tracking_servers_address_is_refused_and_neither_shown_nor_kept(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="RATCHET_MLFLOW_CREDENTIALS") as refused:
        make_plan(
            folder=FOLDER,
            spec=load(FOLDER),
            data_date=date(2026, 3, 20),
            run_id="r",
            kind="local",
            store_uri=str(tmp_path / "store"),
            tracking_uri="https://me:hunter2@mlflow.example",
        )
    assert "hunter2" not in str(refused.value)
    assert not (tmp_path / "store").exists()


def test_a_damaged_bundle_is_written_again_by_the_next_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_DATA", str(tmp_path))
    folder = tmp_path / "search-ranking"
    shutil.copytree(FOLDER, folder)
    (tmp_path / "clicks").mkdir()

    def planned(run_id: str) -> RunPlan:
        return make_plan(
            folder=folder,
            spec=load(folder),
            data_date=date(2026, 3, 20),
            run_id=run_id,
            kind="local",
            store_uri=str(tmp_path / "store"),
        )

    first = planned("first")
    file = tmp_path / "store" / first.bundle.key
    for again in ("second", "first"):  # a new run of the pipeline, and the same one planned again
        whole = file.read_bytes()
        file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        assert planned(again).bundle == first.bundle
        assert file.read_bytes() == whole
    file.write_bytes(b"damaged")
    (folder / "pipeline.yaml").write_text((FOLDER / "pipeline.yaml").read_text(encoding="utf-8") + "# changed\n")
    assert planned("first").bundle == first.bundle
    assert file.read_bytes() == b"damaged"  # what the run was planned with is not at hand any more


def test_a_run_of_another_installation_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_DATA", str(tmp_path))
    (tmp_path / "clicks").mkdir()

    def planned(installation: str | None, run_id: str = "scheduled") -> RunPlan:
        if installation is None:
            monkeypatch.delenv("RATCHET_INSTALLATION", raising=False)
        else:
            monkeypatch.setenv("RATCHET_INSTALLATION", installation)
        return make_plan(
            folder=FOLDER,
            spec=load(FOLDER),
            data_date=date(2026, 3, 20),
            run_id=run_id,
            kind="local",
            store_uri=str(tmp_path / "store"),
        )

    first = planned("production")
    assert planned("production") == first
    for other in ("staging", None):
        with pytest.raises(
            ConfigurationError, match="run scheduled of search-ranking belongs to the installation prod"
        ):
            planned(other)
    before = planned(None, "of-a-release-before")
    assert planned("staging", "of-a-release-before") == before


def test_a_night_is_marked_before_its_plan_so_that_a_crash_between_leaves_it_in_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_DATA", str(tmp_path))
    (tmp_path / "clicks").mkdir()
    create, crash = FileStore.create, ConnectionAbortedError("the lights went out")

    def fail_at_plan(self: FileStore, key: str, data: bytes) -> bool:
        if key.endswith("plan.json"):
            raise crash
        return create(self, key, data)

    def planned() -> RunPlan:
        return make_plan(
            folder=FOLDER, spec=load(FOLDER), data_date=day, run_id="r", kind="local", store_uri=store.uri
        )  # fmt: skip

    day, store = date(2026, 3, 20), FileStore(tmp_path / "store")
    with monkeypatch.context() as crashed:
        crashed.setattr(FileStore, "create", fail_at_plan)
        with pytest.raises(ConnectionAbortedError):
            planned()
    assert runs_of(store, "search-ranking", day) == ["r"]
    mark = store.root / paths.night("search-ranking", day, "r")
    os.utime(mark, (0, 0))
    made = planned()
    assert mark.stat().st_mtime > made.created.timestamp() - 1  # no mark is older than its plan


def test_a_try_after_a_kill_between_plan_and_line_writes_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_DATA", str(tmp_path))
    (tmp_path / "clicks").mkdir()

    def planned(day: date) -> RunPlan:
        return make_plan(
            folder=FOLDER, spec=load(FOLDER), data_date=day, run_id=f"{day}", kind="local",
            store_uri=str(tmp_path / "store"),
        )  # fmt: skip

    def shown() -> list[date]:
        return [line.day for line in nights(FileStore(tmp_path / "store"), "search-ranking")]

    before, day = date(2026, 3, 19), date(2026, 3, 20)
    planned(before)
    with monkeypatch.context() as killed:
        killed.setattr("ratchet.runs.planning.note_plan", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            planned(day)
    assert shown() == [before]
    planned(day)
    assert shown() == [before, day]
