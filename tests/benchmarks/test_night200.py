"""The container of `night200` that computes nothing: what it publishes is read as any result."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks import no_op
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
    templates = {no_op.FILE: "manifest.json", "train": template.model_dump(mode="json", by_alias=True)}
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
