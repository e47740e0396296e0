"""The layout of the store is known to one module, to those of the outbox and of what is left, and to that of the rights to write. Code that needs a key, or a part of one, asks `paths`.

Left out: `team/backup_folder.py`, since a backup has a manifest of its own, and addresses of web pages, which begin with `/`.
"""

import re
from pathlib import Path

import pytest

from ratchet.contracts import paths
from tests.architecture.test_environment import MODULES, texts

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(paths.__file__)
OUTBOX = HOME.with_name("outbox_paths.py")
"""The keys of alerts that wait."""
LEFT = HOME.with_name("left_paths.py")
"""The keys of containers that were left to the follower of their host."""
RIGHTS = HOME.with_name("writing_rights.py")
"""Patterns of keys, for the rights of credentials."""
OTHERS = {ROOT / "team" / "backup_folder.py", RIGHTS, OUTBOX, LEFT}
PLACES = (
    "accumulation|alerts|attempts|builds|bundles|checkpoints|days|index|leases|ledger|left|nights|outbox|published|releases"
    "|removals|runs"
    "|shadow|tables|versions"
)
SPELLED = re.compile(rf"({PLACES})/|.*(/damaged\b|/superseded\b|manifest\.json|plan\.json)|\w+\.day")


def test_no_other_module_spells_a_key_of_the_store() -> None:
    modules = [*MODULES, *sorted((ROOT / "team").rglob("*.py"))]
    assert HOME in modules
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in modules
        if path not in {HOME, *OTHERS}
        for line, text in texts(path)
        if SPELLED.match(text) and not text.startswith("tasks.")
    ]
    assert found == []


@pytest.mark.parametrize(
    "text", ["published/", "runs/p", "/damaged", "/damaged/x.json", "/superseded", "x/manifest.json", "ingest.day"]
)
def test_a_key_is_recognised_with_and_without_a_slash_at_its_end(text: str) -> None:
    assert SPELLED.match(text)


def test_every_place_of_the_store_is_looked_for() -> None:
    made = HOME.read_text(encoding="utf-8") + OUTBOX.read_text(encoding="utf-8") + LEFT.read_text(encoding="utf-8")
    assert {*re.findall(r'join\("([a-z]+)"', made)} == {*PLACES.split("|")}
