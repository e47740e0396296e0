"""What a progress line says beside the loss."""

import pytest

from tests.train.miniature import loop, rows


def test_progress_has_what_people_watch() -> None:
    seen: list[dict[str, float]] = []
    one = loop(
        "binary", valid=rows("binary", 300), progress=lambda _message, _done, _total, fields: seen.append(fields)
    )
    trace = one.run().trace
    last = seen[-1]
    assert last["gradient_norm"] == pytest.approx(trace[-1][1])
    assert 0 < last["learning_rate"] < 1e-2
    assert last["data_loading_latency_ms"] > 0
    assert 0 < last["waiting_pct"] < 100
    assert 50 < last["memory_mib"] < 100_000
    assert last["checkpoint_duration_ms"] > 0
    assert "gpu_utilization_pct" not in last
