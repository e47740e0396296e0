"""`make demo` as a person has it: three nights through a real Airflow, the same again from the cache, and a clean end."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ratchet.contracts.labels import Label
from ratchet.contracts.stages import REGULAR
from ratchet.runs.history import days_of, runs_of
from ratchet.runs.jobs import store_label
from ratchet.runs.outcomes import outcomes
from ratchet.store.opening import open_store
from tests.readable import readable_by_all

ROOT = Path(__file__).resolve().parents[2]
PIPELINE = "search-ranking"
NIGHT = re.compile(r"^night of (\S+): (\w+)", re.MULTILINE)
VERDICT = re.compile(r"^demo: (?:promote|reject|inconclusive): .*", re.MULTILINE)
pytestmark = [
    pytest.mark.airflow,
    pytest.mark.docker,
    pytest.mark.heavy,
    pytest.mark.xdist_group("demo"),
    pytest.mark.timeout(1800),  # it shares its cores with other tests
]


class Demo:
    """The demo's program, with a home of its own."""

    def __init__(self, home: Path, image: str) -> None:
        self.home = home
        own = ("AIRFLOW", "MLFLOW_", "RATCHET_")
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(own)},
            "PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}",
            "RATCHET_RUNNER": "docker",
            "RATCHET_STAGE_IMAGE": image,
            "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.7",  # it shares its cores with other tests
        }

    def run(self) -> str:
        """What it prints."""
        return self._run("demo")

    def stop(self) -> str:
        """What `make stop` prints."""
        return self._run("local", "stop")

    def _run(self, module: str, *words: str) -> str:
        ended = subprocess.run(
            [sys.executable, "-m", module, *words, "--home", self.home],
            cwd=ROOT,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def processes(self) -> list[str]:
        """The command lines of the processes that run in its home, or on its behalf."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                content = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
            except OSError:
                continue
            if os.fsencode(self.home) in content:
                found.append((process / "cmdline").read_text().replace("\0", " "))
        return found


@pytest.fixture
def demo(tmp_path: Path, stage_image: str) -> Iterator[Demo]:
    readable_by_all(tmp_path)
    made = Demo(tmp_path, stage_image)
    yield made
    made.stop()


def test_a_first_model_a_better_one_a_refused_day_and_the_same_again_is_cached_and_nothing_is_left(demo: Demo) -> None:
    first = demo.run()
    assert [state for _, state in NIGHT.findall(first)] == ["success", "success", "failed"]
    assert [line.split(": ")[1] for line in VERDICT.findall(first)] == ["promote", "promote"]
    assert f"demo: model {PIPELINE} version 1, in production" in first
    assert f"demo: model {PIPELINE} version 2, in production" in first
    assert "column price: drift" in first
    assert "Ratchet trained nothing on the poisoned day, and production stays at version 2" in first
    assert "were reused" not in first
    page = re.search(r"^demo: checks page (.*)", first, re.MULTILINE)
    assert page is not None
    assert "<html" in Path(page[1]).read_text(encoding="utf-8")

    again = demo.run()
    assert VERDICT.findall(again) == VERDICT.findall(first)
    assert "results were reused from earlier runs" in again
    store = open_store(str(demo.home / "demo" / "store"))
    days = days_of(store, PIPELINE)
    assert len(days) == 3
    for day in sorted(days)[:2]:
        built, reused = (outcomes(store, PIPELINE, run_id) for run_id in runs_of(store, PIPELINE, day))
        assert not built["train"].cached
        again_built = [stage for stage in REGULAR if reused[stage].state == "done" and not reused[stage].cached]
        assert again_built == (["report"] if day == min(days) else [])  # its page says who is in production by now
        assert reused["evaluate"].content == built["evaluate"].content

    assert "stopped: " in demo.stop()
    assert demo.processes() == []
    label = f"label={Label.STORE}={store_label(store.uri)}"
    containers = subprocess.run(
        ["docker", "ps", "--all", "--quiet", "--filter", label], capture_output=True, text=True, check=True
    )
    assert containers.stdout == ""
    assert demo.stop() == "nothing was running\n"
