"""The README says what is there: its tree, its links and its length."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAX_LINES = 160


def folders() -> set[str]:
    """The folders at the top, and the packages of the library."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    tops = {name.split("/")[0] for name in listed if "/" in name and not name.startswith(".")}
    packages = {name.split("/")[1] for name in listed if name.startswith("ratchet/") and name.count("/") > 1}
    return tops | packages


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= MAX_LINES


def test_its_tree_has_every_folder_and_no_other() -> None:
    tree = README.partition("## The tree")[2]
    assert set(re.findall(r"^ +([\w-]+)/ ", tree, re.MULTILINE)) == folders()


def test_every_file_that_the_readme_and_the_docs_link_to_exists() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    links = {
        (page.name, link): page.parent / link.partition("#")[0]
        for page in pages
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
        if "://" not in link and not link.startswith("#")
    }
    assert links
    assert [where for where, target in links.items() if not target.exists()] == []


def test_every_verb_of_the_command_line_is_named() -> None:
    from ratchet.cli.main import _VERBS

    assert [verb for verb in _VERBS if f"ratchet {verb}" not in README and verb != "stage"] == []
