from pathlib import Path

import pytest
from jinja2 import UndefinedError

from ratchet.pages.template import render


@pytest.fixture
def template(tmp_path: Path) -> Path:
    path = tmp_path / "own.html"
    path.write_text(
        '{% extends "page.html" %}{% block title %}{{ name }}{% endblock %}'
        "{% block content %}<p>{{ name }} {{ gain | percent(signed=true) }}</p>{% endblock %}"
    )
    return path


def test_a_page_has_the_style_of_all_pages_and_loads_nothing(template: Path) -> None:
    page = render(template, name="shop", gain=0.0125)
    assert "<p>shop +1.25 %</p>" in page
    assert "--paper:" in page
    assert "default-src 'none'" in page
    assert "://" not in page


def test_what_a_page_is_given_is_escaped(template: Path) -> None:
    page = render(template, name="<script>", gain=0)
    assert "<script>" not in page
    assert page.count("&lt;script&gt;") == 2


def test_a_value_that_is_missing_is_an_error_and_not_an_empty_place(template: Path) -> None:
    with pytest.raises(UndefinedError, match="gain"):
        render(template, name="shop")
