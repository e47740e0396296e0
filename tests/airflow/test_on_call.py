"""What docs/on-call.md says to type where Airflow runs is typed there, and prints what the page shows."""

import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ratchet.contracts.environment import variable
from tests.airflow.installation import ROOT, Installation
from tests.airflow.shared import PIPELINE
from tests.docs.blocks import Command, commands, environment, shows
from tests.waiting import until

pytestmark = [pytest.mark.airflow, pytest.mark.docker, pytest.mark.heavy, pytest.mark.xdist_group("airflow")]
SERVERS = commands("on-call.md", "server")
SERVE = commands("on-call.md", "serve")
REFUSED = "Ratchet: the watch may not read Airflow"


def typed(day: str) -> list[Command]:
    """The commands, for the pipeline and a day of these tests."""

    def here(text: str) -> str:
        return text.replace("late-orders", PIPELINE).replace("2026-11-21", day)

    return [
        Command(heading=one.heading, language=one.language, text=here(one.text), shown=here(one.shown))
        for one in commands("on-call.md", "airflow")
    ]


def printed(airflow: Installation, line: str) -> str:
    """What a line of a block prints here."""
    program, *words = shlex.split(line)
    home = ("--home", str(airflow.home)) if program == "ratchet" else ()
    return airflow.typed(program, *words, *home)


@contextmanager
def started(airflow: Installation, server: Command, log: Path) -> Iterator[None]:
    """A server as the page starts it, beside Airflow's own; it ends well once it has printed what the page shows."""
    address = airflow.services.watch_address
    wrong = address.replace("@", "x@") if server.heading == REFUSED else address
    with airflow._environment():
        environment = {**airflow.services.environment(), variable("airflow_api"): wrong, variable("gc"): "weekly"}
    with log.open("w") as out:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {server.text}"], env=environment, cwd=airflow.home, stdout=out, stderr=out
        )
    try:
        yield
        until(lambda: shows(f"{server.shown}...", log.read_text()), seconds=120)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()


def test_each_command_of_the_page_prints_what_it_shows(
    airflow: Installation, night: tuple[str, dict[str, str]], tmp_path: Path
) -> None:
    day = f"{airflow.plan(PIPELINE, night[0]).data_date}"
    blocks = typed(day)
    lines = list(dict.fromkeys(line for one in blocks for line in one.text.splitlines()))  # one night is triggered once
    assert len(SERVERS) == 4
    assert "backfill" in str(lines)
    before, found = {run["dag_run_id"] for run in airflow.api.runs(PIPELINE)}, dict[str, str]()

    def new() -> list[dict[str, Any]]:
        return [run for run in airflow.api.runs(PIPELINE) if run["dag_run_id"] not in before]

    airflow.until_no_backfill(PIPELINE)
    with ExitStack() as servers:
        for place, server in enumerate(SERVERS):
            servers.enter_context(started(airflow, server, tmp_path / f"{place}.log"))
        for line in lines:
            found[line] = printed(airflow, line).strip()
            if " trigger " in line:
                again = airflow.until(lambda: next((run for run in new() if run["state"] == "running"), None))
                # So that it still runs when the page lists runs: until somebody types `unpause`.
                airflow.api.call("PATCH", f"/dags/{PIPELINE}", {"is_paused": True})
    for one in blocks:
        said = "\n".join(found[line] for line in one.text.splitlines())
        assert shows(one.shown, said), f"{one.text}shown:\n{one.shown}\nprinted:\n{said}"
    assert len(new()) == 1
    assert again["conf"] == {"date": day}
    states = airflow.wait(PIPELINE, again["dag_run_id"])
    assert states["run"] == "success"  # the same date again: everything is found in the cache
    cleared = printed(airflow, f"airflow dags clear {PIPELINE} --run-id {again['dag_run_id']} --only-failed --yes")
    assert cleared.strip().endswith("Cleared 0 task instance(s) across 1 Dag run(s).")


def test_the_lines_for_make_serve_give_commands_the_settings_of_its_servers(
    airflow: Installation, night: tuple[str, dict[str, str]], tmp_path: Path
) -> None:
    """Typed as they are, but for the Python and the folder of these servers."""
    assert night[0]
    (tmp_path / "local").symlink_to(airflow.home)
    (block,) = SERVE
    here = f"{shlex.quote(sys.executable)} -m local run --home {shlex.quote(str(tmp_path))}"
    text = block.text.replace(".venv/bin/python -m local run", here).replace("late-orders", PIPELINE)
    assert text.count(here) == 2
    done = subprocess.run(
        ["bash", "-ec", text], cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    assert shows(block.shown, done.stdout), f"{text}shown:\n{block.shown}\nprinted:\n{done.stdout}"
