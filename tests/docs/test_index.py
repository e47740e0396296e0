"""docs/README.md lists every page of docs/, and its links and those between the pages lead to a file."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md"))
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")


def linked(page: str) -> set[str]:
    """Files that a page links to, without addresses of the web and places in the page itself."""
    return set(LINK.findall((DOCS / page).read_text(encoding="utf-8")))


def test_every_page_is_listed() -> None:
    assert set(PAGES) - {"README.md"} - linked("README.md") == set()


@pytest.mark.parametrize("page", PAGES)
def test_every_link_of_a_page_leads_to_a_file(page: str) -> None:
    assert [link for link in sorted(linked(page)) if not (DOCS / link).exists()] == []
