"""The page for people on call does what it says: each command runs as it is written, and prints what the page shows.

It goes on where the tutorial ends, and changes its store; so this file is the last of those that use it.
"""

import os
import re
from datetime import UTC, datetime
from typing import get_args

import pytest

from ratchet.checkout import ROOT
from ratchet.contracts import outbox_paths
from ratchet.contracts.alerts import Occasion
from ratchet.outbox import incidents
from ratchet.outbox.incident import Incident
from ratchet.runners.runner import Engine
from ratchet.runs.known_hosts import mark_host
from ratchet.store.opening import open_store
from ratchet_airflow.watch.presence import Server
from ratchet_airflow.watch.waiting import NO_STORE
from tests.docs.blocks import DOCS, Done, blocks, commands, run, shows
from tests.docs.conftest import Tutorial

pytestmark = [pytest.mark.heavy, pytest.mark.xdist_group("docs"), pytest.mark.timeout(1200)]
COMMANDS = commands("on-call.md")
GONE = ("gpu-2", "gpu-3")


@pytest.fixture(scope="module")
def done(tutorial: Tutorial) -> tuple[Done, ...]:
    """How each command ended, in order. Two hosts have been silent for half a day."""
    for host in GONE:
        mark_host(open_store(str(tutorial.store)), "here", Engine(host, host), 1)
        mark = tutorial.store / outbox_paths.host("here", host)
        os.utime(mark, (mark.stat().st_mtime - 12 * 3600,) * 2)
    return tuple(run(command, tutorial.folder) for command in COMMANDS)


@pytest.mark.parametrize("place", range(len(COMMANDS)))
def test_a_command_succeeds_and_prints_what_the_page_shows(done: tuple[Done, ...], place: int) -> None:
    assert done[place].code == 0, done[place].printed
    shown = COMMANDS[place].shown
    assert shown
    assert shows(shown, done[place].printed), f"shown:\n{shown}\nprinted:\n{done[place].printed}"


def test_each_page_has_a_command_with_what_it_prints() -> None:
    """Those that are not typed here are typed in tests/airflow/test_on_call.py and tests/team/test_stack.py."""
    typed = [one for where in ("", "airflow", "server", "team") for one in commands("on-call.md", where)]
    assert [one.text for one in typed if not one.shown] == []
    assert len(typed) == len([one for one in blocks("on-call.md") if one.language == "sh"])
    pages = re.findall(r"^## (.*)$", (DOCS / "on-call.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(pages) - {one.heading for one in typed} == set()


def test_a_command_in_running_text_is_one_that_a_block_has() -> None:
    prose = re.sub(
        r"^```.*?^```$", "", (DOCS / "on-call.md").read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    named = set(re.findall(r"`((?:ratchet|airflow|python -m) [\w.-]+)", prose))
    typed = " ".join(one.text for one in blocks("on-call.md"))
    assert "ratchet doctor" in named
    assert {command for command in named if command not in typed} == set()


def test_there_is_a_page_for_each_kind_of_alert() -> None:
    headings = re.findall(r"^## (.*)$", (DOCS / "on-call.md").read_text(encoding="utf-8"), re.MULTILINE)
    named = [name for heading in headings for name in re.findall(r"\(`(\w+)`\)", heading)]
    assert sorted(named) == sorted(get_args(Occasion))


def test_there_is_a_page_for_each_message_of_the_servers() -> None:
    """Those that are of no pipeline have their titles in the code that sends them; a heading may name several."""
    headings = re.findall(r"^## Ratchet: (.*)$", (DOCS / "on-call.md").read_text(encoding="utf-8"), re.MULTILINE)
    code = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "plugins" / "ratchet_airflow").rglob("*.py"))
    titles = {title for one in re.findall(r'"Ratchet: ([^"]*)"', code) for title in _each_server(one)}
    digest = {"N ran", "N failed", "N wait for you"}  # which is made of counts
    assert {name for heading in headings for name in heading.split(", ")} == titles | digest


def test_what_many_pipelines_meet_is_found_by_the_titles_of_its_messages() -> None:
    """A person may see no more of a message. The others are made in `ratchet.outbox.incidents`."""
    now = datetime.now(UTC)
    several = [{f"p{number}": "recovered" for number in range(5)}, {f"p{number}": "failure" for number in range(5)}, {}]
    made = {
        re.sub(r"\d+", "N", incidents._title(one, over=over))
        for members in several
        for over in (False, True)
        for one in [
            Incident(
                receiver="r", cause="c", reason="CAUSE", opened=now, heard=now, said=now, messages=3, members=members
            )
        ]
    }
    headings = re.findall(r"^## (.*)$", (DOCS / "on-call.md").read_text(encoding="utf-8"), re.MULTILINE)
    (found,) = (set(one.split(", ")) for one in headings if NO_STORE in one)
    assert found == {NO_STORE, *made}
    assert len(made) == 4


def _each_server(title: str) -> tuple[str, ...]:
    title = title.replace("{host}", "HOST")
    return tuple(title.replace("{server}", name) for name in get_args(Server)) if "{server}" in title else (title,)
