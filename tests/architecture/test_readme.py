"""The README and the docs say what is there: tree, links, paths and length."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAX_LINES = 160
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = {"docs/adr/NNN-title.md"}
PLANNED = {"team/launcher/", "ratchet/runners/launcher.py"}
"""Of ADR 17, which decides what will be built."""


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
    links = {
        (page.name, link): page.parent / link.partition("#")[0]
        for page in PAGES
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
        if "://" not in link and not link.startswith("#")
    }
    assert links
    assert [where for where, target in links.items() if not target.exists()] == []


def test_every_path_that_the_readme_and_the_docs_name_exists() -> None:
    tops = "|".join(sorted(top for top in folders() if (ROOT / top).is_dir()))
    path = re.compile(rf"(?<![\w/.<>*${{}}~-])(?:{tops})/[\w./-]*(?![\w<*{{$-])")
    named = {
        (page.relative_to(ROOT).as_posix(), name)
        for page in PAGES
        for name in path.findall(page.read_text(encoding="utf-8"))
    }
    assert len(named) > len(PAGES)
    missing = {
        (page, name)
        for page, name in named
        if not (ROOT / name.rstrip(".")).exists()
        and not (page == "docs/faults.md" and (ROOT / "tests" / name).exists())
    }
    assert {(page, name) for page, name in missing if name not in EXAMPLES | PLANNED} == set()


def test_every_verb_of_the_command_line_is_named() -> None:
    from ratchet.cli.main import _VERBS

    assert [verb for verb in _VERBS if f"ratchet {verb}" not in README and verb != "stage"] == []
