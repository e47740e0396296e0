"""The benchmark of alerts, small: real processes, real kills, and a real receiver."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import alerts
from benchmarks.alerts import messages_of_a_flapping_store, messages_of_a_lost_engine, messages_of_a_lost_store

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # Apprise's own import


def test_no_alert_is_lost_to_a_kill_and_only_one_between_answer_and_mark_doubles() -> None:
    program = "import json; from benchmarks.alerts import kills; print(json.dumps(kills(160)))"
    # In a process of its own: its children are forks, and a worker of the tests has threads that may hold a lock.
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    lost, doubled, killed = json.loads(done.stdout.splitlines()[-1])
    assert killed >= 8
    assert lost == 0
    assert doubled <= 3


def test_many_pipelines_with_one_lost_store_are_three_messages_at_most() -> None:
    assert messages_of_a_lost_store(20) in {2, 3}


@pytest.mark.parametrize(("away", "messages"), [(1, 0), (2, 12)])
def test_a_store_that_flaps_for_six_hours_is_two_messages_an_hour_at_most(away: int, messages: int) -> None:
    assert messages_of_a_flapping_store(away) <= messages


def test_many_pipelines_with_one_lost_engine_are_three_messages_at_most() -> None:
    assert messages_of_a_lost_engine(20) == 3


def test_one_lost_alert_is_above_the_goal(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {"kills": (1, 0, 0), "messages_of_a_lost_store": 3, "messages_of_a_lost_engine": 3}
    for name, found in {**kept, "messages_of_a_flapping_store": 3}.items():
        monkeypatch.setattr(alerts, name, lambda *_, found=found: found)
    assert not alerts.run(full=False).holds
