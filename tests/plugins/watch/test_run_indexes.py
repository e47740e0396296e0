"""The watch makes the indexes of runs again that a release before wrote, or that are lost."""

from pathlib import Path

import pytest

from ratchet.contracts import paths
from ratchet.contracts.run_index import FORM, RunIndex
from ratchet.runs.run_index import rebuilt
from ratchet.store.opening import open_store
from ratchet_airflow.watch.run_indexes import RunIndexes
from tests.runs.recorded import keep_plan
from tests.runs.test_requests import SPEC, plan


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
    work = indexes.look(store)
    assert work is not None
    work.join()
    made = RunIndex.model_validate_json(store.read(key))
    assert (made, made.form) == (rebuilt(store, "small"), FORM)
    again = indexes.look(store)  # sees what was written
    assert again is not None
    again.join()
    assert indexes.look(store) is None
    (folder / "pipeline.yaml").write_text(SPEC)
    store.delete(key)
    lost = indexes.look(store)
    assert lost is not None
    lost.join()
    assert RunIndex.model_validate_json(store.read(key)) == made
