"""The container of `night200` that computes nothing, whose result is read as any; and the delays of its tasks."""

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from benchmarks import no_op
from benchmarks.many_pipelines import Night, result
from ratchet.contracts.result import StageResult
from ratchet.store.opening import open_store
from ratchet.store.publishing import find_result


def test_the_result_of_a_template_is_published_under_the_names_of_a_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = StageResult(
        stage="train", fingerprint="a" * 64, parts={"a": "1"}, content="c" * 64, outputs={}, metrics={"läss": 1e-7},
        summary={"empty": [], "none": {}, "deep": {"ü": [0.1, 3]}}, attempt="one", finished=datetime(2026, 3, 31, tzinfo=UTC),
    )  # fmt: skip
    templates = {
        no_op.ROOT: "published",
        no_op.FILE: "manifest.json",
        "train": template.model_dump(mode="json", by_alias=True),
    }
    (tmp_path / "templates").write_text(json.dumps(templates))
    store = open_store(str(tmp_path / "store"))
    request = {
        "stage": "train", "store": store.uri, "spec": {"name": "night-001"}, "fingerprint": "b" * 64, "parts": {"b": "2"},
        "attempt": "two",
    }  # fmt: skip
    (tmp_path / "request").write_text(json.dumps(request))
    monkeypatch.setattr(no_op, "TEMPLATES", str(tmp_path / "templates"))
    monkeypatch.setattr(sys, "argv", ["ratchet", "stage", str(tmp_path / "request")])
    no_op.main()
    found = find_result(store, f"published/night-001/train/{'b' * 64}")
    assert found is not None
    renamed = {"fingerprint": "b" * 64, "parts": {"b": "2"}, "attempt": "two"}
    assert found.result == template.model_copy(update=renamed)


def test_a_task_that_was_queued_to_go_on_after_the_triggerer_shortens_no_delay() -> None:
    begin = datetime(2026, 3, 31, tzinfo=UTC)

    def task(queued_s: float, started_s: float) -> dict[str, str]:
        times = {"scheduled_when": 0, "queued_when": queued_s, "start_date": started_s}
        return {name: (begin + timedelta(seconds=at)).isoformat() for name, at in times.items()}

    night = Night({"scheduler": 8.0}, {"scheduler": 2.0}, [task(1, 31), task(90, 20), task(95, 20)], 100.0, {}, {}, {})
    made = result("night200", night, ["waits-000"], ["night-000"])
    assert made.ours == 30.0
    assert made.peer == 2.0  # what the first stages took once does not count
    assert ("tasks", "3, 0.03 a second") in made.rows
    assert ("tasks among them that were left to the triggerer, without a delay", "2") in made.rows
