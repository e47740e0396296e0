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
TYPED_IN = {
    "": "docs/test_when_on_call.py",
    "airflow": "airflow/test_on_call.py",
    "server": "airflow/test_on_call.py",
    "serve": "airflow/test_on_call.py",
    "team": "team/test_stack.py",
}
"""The test that types the blocks of a kind, and compares what they print."""
_STACK = "team/test_stack.py"
_LOGS = (_STACK, 'for service in ("reaper", "rows", "logs")')
IN_TEXT = {
    "make serve": ("airflow/installation.py", "self.services.start()", "the same servers, on ports of their own"),
    "make logs SERVICE=reaper": (*_LOGS, "typed beside the stack"),
    "make logs SERVICE=rows": (*_LOGS, "typed beside the stack"),
    "SERVICE=logs": (*_LOGS, "the end of the line before; typed beside the stack"),
    "make logs SERVICE=follower": (*_LOGS, "of a GPU host, which no test has; typed with other services"),
    "make logs SERVICE=pipelines": (*_LOGS, "the stack has its pipelines from a folder; typed with other services"),
    "docker restart": (_STACK, "docker restart {reaper.name}", "typed with a name"),
    "docker exec ratchet_watch_1 with-secrets python -m ratchet_airflow.alerts mlops": (
        _STACK,
        "docker exec {watch} with-secrets python -m ratchet_airflow.alerts fraud-ops",
        "typed for a receiver of the stack",
    ),
    "--run-id RUN": ("airflow/test_on_call.py", "--run-id {again['dag_run_id']}", "typed with the id of a run"),
}
"""Commands in running text that no block has: the test that types them, what it has of them, and how they differ there."""
QUOTED = {
    "Error 69", "the container of attempt ... may still run on HOST", "nobody followed it at its end", "would promote",
    "waits for approval", "No alive jobs found.", "No data found", "not recovered", "could not be checked",
    "copied to",
}  # fmt: skip
"""What is quoted in running text, and is no command."""


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


def test_each_page_has_a_command_with_what_it_prints_and_each_block_is_typed_by_a_test() -> None:
    typed = [one for where in TYPED_IN for one in commands("on-call.md", where)]
    assert [one.text for one in typed if len(re.findall(r"\w+", one.shown)) < 2] == []  # a single word shows nothing
    assert len(typed) == len([one for one in blocks("on-call.md") if one.language != "text"])
    assert re.findall(r"^ {4}.*$", _prose(), re.MULTILINE) == []  # a block that no test would see
    for where, test in TYPED_IN.items():
        called = f'commands("on-call.md", "{where}")' if where else 'commands("on-call.md")'
        assert called in (ROOT / "tests" / test).read_text(encoding="utf-8")
    pages = re.findall(r"^## (.*)$", _prose(), re.MULTILINE)
    assert set(pages) - {one.heading for one in typed} == set()


def test_a_command_in_running_text_is_one_that_a_block_has_or_that_is_listed_with_why() -> None:
    said = {" ".join(span.split()) for span in re.findall(r"`([^`]+)`", _prose())}
    assert "ratchet doctor" in said
    typed = " ".join(one.text for one in blocks("on-call.md") if one.language == "sh")
    left = {one for one in said if (" " in one or "=" in one) and one not in typed}
    assert left == {*IN_TEXT, *QUOTED}
    for test, words, _ in IN_TEXT.values():
        assert words in (ROOT / "tests" / test).read_text(encoding="utf-8")


def _prose() -> str:
    """The page without its blocks."""
    page = (DOCS / "on-call.md").read_text(encoding="utf-8")
    return re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)


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
