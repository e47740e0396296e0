"""The metrics of a training are in Weights & Biases, by its own library, and the training does not notice the rest."""

import json
import os
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ratchet.runners.following import LeftRunning
from ratchet.runs import live_metrics
from ratchet.runs.events import Event
from tests.runs import test_requests
from tests.waiting import until

KEY = "0123456789abcdef" * 2 + "01234567"
_BLOCK, _HEAD = 32768, 7
_WHOLE, _LAST = 1, 4


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings but where the library puts its files; write every tenth of a second."""
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    monkeypatch.setattr(live_metrics, "EVERY_S", 0.1)


def progress(step: int, **fields: float) -> Event:
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return Event(name="progress", level="info", message=f"step {step}", time=now, fields={"step": step, **fields})


def stored(folder: Path) -> list[Any]:
    """The records of a run that the library has written offline: LevelDB's log format, with records of protobuf."""
    from wandb.proto.wandb_internal_pb2 import Record

    records = []
    for data in _chunks(folder):
        record = Record()
        record.ParseFromString(data)
        records.append(record)
    return records


def _chunks(folder: Path) -> Iterator[bytes]:
    data, place, parts = b"".join(path.read_bytes() for path in folder.glob("*.wandb")), _HEAD, b""
    while place + _HEAD <= len(data):
        if _BLOCK - place % _BLOCK < _HEAD:
            place += _BLOCK - place % _BLOCK
            continue
        _, size, kind = struct.unpack_from("<IHB", data, place)
        if kind == 0:
            return
        parts += data[place + _HEAD : place + _HEAD + size]
        place += _HEAD + size
        if kind in {_WHOLE, _LAST}:
            yield parts
            parts = b""


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """The rows of the run's history, without what the library adds."""
    found = []
    for record in stored(folder):
        if record.WhichOneof("record_type") == "history":
            items = {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            found.append({name: value for name, value in items.items() if name not in {"_step", "_runtime"}})
    return found


def offline_runs(folder: Path) -> list[Path]:
    return sorted(folder.glob("wandb/offline-run-*"), key=lambda path: path.stat().st_mtime_ns)


def has_rows(folder: Path, runs: int, count: int) -> bool:
    found = offline_runs(folder)
    return len(found) == runs and len(rows_of(found[-1])) == count


def exits(folder: Path) -> list[int]:
    return [record.exit.exit_code for record in stored(folder) if record.WhichOneof("record_type") == "exit"]


def test_the_values_are_in_the_offline_run_and_the_next_try_has_the_same_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    heard: list[Event] = []
    plan = test_requests.plan(tracking_uri=None, run_id="one")
    first = progress(1, loss=0.75, samples_per_sec=100.0, gradient_norm=float("nan"))
    with live_metrics.live_metrics(plan, "train", heard.append) as hear:
        hear(first)
        hear(progress(2, loss=0.5, valid_metric=0.25))
        until(lambda: has_rows(tmp_path, 1, 2), seconds=120)
    (run,) = offline_runs(tmp_path)
    rows = rows_of(run)
    moment = datetime.fromisoformat(first.time).timestamp()
    assert rows[0] == {
        "step": 1,
        "loss": 0.75,
        "training_throughput_samples_per_sec": 100.0,
        "_timestamp": pytest.approx(moment, abs=0.01),
    }
    assert {**rows[1], "_timestamp": 0} == {"step": 2, "loss": 0.5, "valid.metric": 0.25, "_timestamp": 0}
    until(lambda: exits(run) == [0], seconds=60)

    def fail() -> None:
        with live_metrics.live_metrics(plan, "train", heard.append) as hear:
            hear(progress(1, loss=0.25))
            until(lambda: has_rows(tmp_path, 2, 1), seconds=120)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    again = offline_runs(tmp_path)[-1]
    until(lambda: exits(again) == [1], seconds=60)
    made = [record.run for each in (run, again) for record in stored(each) if record.run.run_id]
    assert len({(each.run_id, each.project, each.display_name) for each in made}) == 1
    assert (made[0].project, made[0].display_name) == (plan.spec.name, "one train")
    assert {event.name for event in heard} == {"progress"}


def test_a_server_that_is_away_holds_nobody_up_and_its_key_is_in_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    heard: list[Event] = []
    began = time.monotonic()
    plan = test_requests.plan(tracking_uri=None, run_id="two")
    with live_metrics.live_metrics(plan, "train", heard.append) as hear:
        hear(progress(1, loss=0.5, learning_rate=1e-3))
    assert time.monotonic() - began < 60
    assert [event.name for event in heard] == ["progress", "warning"]
    assert heard[-1].message.startswith("2 values of the training's progress are not in Weights & Biases: ")
    assert KEY not in heard[-1].message


def test_an_error_of_the_library_is_named_and_the_values_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_PROJECT", "no/slash")
    heard: list[Event] = []
    plan = test_requests.plan(tracking_uri=None, run_id="three")
    with live_metrics.live_metrics(plan, "refit", heard.append) as hear:
        hear(progress(1, loss=0.5))
        writer = hear.__self__  # type: ignore[attr-defined]
        until(lambda: writer._error is not None, seconds=120)
        hear(progress(2, loss=0.5))
    message = heard[-1].message
    assert message.startswith("2 values of the training's progress are not in Weights & Biases: Weights & Biases: ")
    assert "no/slash" in message


def test_without_the_library_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setitem(sys.modules, "wandb", None)
    heard: list[Event] = []
    plan = test_requests.plan(tracking_uri=None, run_id="four")
    with live_metrics.live_metrics(plan, "train", heard.append) as hear:
        hear(progress(1, loss=0.5))
    assert [event.message for event in heard] == [
        "the metrics of the training are not in Weights & Biases: install its library, ratchet[wandb]",
        "step 1",
    ]


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({}, False),
        ({"WANDB_PROJECT": "p"}, False),
        ({"WANDB_MODE": "disabled", "WANDB_API_KEY": KEY}, False),
        ({"WANDB_MODE": "dryrun"}, True),
        ({"WANDB_API_KEY": KEY}, True),
    ],
)
def test_its_usual_variables_ask_for_it(given: dict[str, str], asked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    heard: list[Event] = []
    plan = test_requests.plan(tracking_uri=None, run_id="five")
    with live_metrics.live_metrics(plan, "train", heard.append) as hear:
        assert (hear != heard.append) == asked


def test_a_training_that_is_left_goes_on_in_the_same_run_which_its_task_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    heard: list[Event] = []
    plan = test_requests.plan(tracking_uri=None, run_id="six")
    for number in (1, 2):
        with suppress(LeftRunning), live_metrics.live_metrics(plan, "train", heard.append) as hear:
            hear(progress(number, loss=0.25))
            until(partial(has_rows, tmp_path, number, 1), seconds=120)
            raise LeftRunning
    with pytest.raises(KeyError), live_metrics.live_metrics(plan, "train", heard.append, goes_on=True):
        raise KeyError
    until(lambda: len(offline_runs(tmp_path)) == 3 and exits(offline_runs(tmp_path)[-1]), seconds=120)
    runs = offline_runs(tmp_path)
    assert exits(runs[-1]) == [1]
    assert len({record.run.run_id for each in runs for record in stored(each) if record.run.run_id}) == 1
    assert {event.name for event in heard} == {"progress"}
