"""A mistake in YAML's syntax is reported in one plain sentence, with its place and a remedy."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.contracts.errors import PipelineInvalid
from ratchet.contracts.loading import loads
from ratchet.contracts.yaml_errors import mistake
from ratchet.contracts.yaml_lines import YamlDocument

JARGON = re.compile(r"token|scalar|flow|block|stream|mapping values|expected|indicator|alias", re.IGNORECASE)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: a\n\tb: 1\n", "2:1: the line is indented with a tab; to do: indent it with spaces"),
        ("train:\n\tobjective: x\n", "2:1: the line is indented with a tab; to do: indent it with spaces"),
        ('name: "a\nb: 1\n', "1:7: the quote that opens here is not closed; to do: close it with the same quote"),
        ("a: 1\nb: 'x\n", "2:4: the quote that opens here is not closed; to do: close it with the same quote"),
        ("name: a: b\n", "1:8: the line has a second `: `; to do: put the value into quotes, or begin a new line"),
        ("name: a\n b: 1\n", "2:3: this does not fit the lines above; to do: indent it like its neighbours"),
        ("name\nb: 1\n", "2:2: this does not fit the lines above; to do: indent it like its neighbours"),
        ("a:\n  - x\n b: 1\n", "3:2: this does not fit the lines above"),
        ("- a\nb: 1\n", "2:1: this does not fit the lines above"),
        ("in: [a, b\nb: 1\n", "1:5: the [ that opens here is not closed, or a comma is missing; to do: close it with ]"),
        ("in: [a, b\n", "1:5: the [ that opens here is not closed"),
        ("x: {a: 1\nb: 1\n", "1:4: the { that opens here is not closed, or a comma is missing; to do: close it with }"),
        ("a: 1\n]\n", "2:1: the ] closes nothing; to do: remove it, or open the bracket"),
        ("a: *x\n", "1:4: a value that starts with * repeats an earlier value marked with &, and there is none"),
        ("a: @x\n", "1:4: a value cannot start with @; to do: put the value into quotes"),
        ("a: 1\n---\nb: 2\n", "2:1: a second document begins here; to do: keep one document"),
        ('a: "\\q"\n', "1:5: a backslash inside double quotes begins an escape, and this is none"),
        ("a: 'it's'\n", "1:8: text follows the closing quote"),
        ("a: x\x01\n", "1:5: the character U+0001 is not allowed; to do: remove it"),
        ("a: |x\n", "1:5: this cannot be read; to do: check quotes, brackets and indentation"),
        ("[[[[", "2:1: the text ends before every bracket is closed; to do: close each [ with ]"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_with_its_place_and_a_remedy(text: str, said: str) -> None:
    with pytest.raises(PipelineInvalid) as raised:
        loads(text, "p.yaml")
    (problem,) = raised.value.problems
    line = str(problem).replace("not valid YAML: ", "")
    assert line.startswith(f"p.yaml:{said}")
    assert not JARGON.search(line)


@given(st.text(alphabet="ab:- \t\n'\"[]{},#&*!|>%@\\", max_size=40))
def test_any_text_is_read_or_reported_without_jargon(text: str) -> None:
    for problem in YamlDocument(text, "p.yaml").problems:
        if problem.message.startswith("not valid YAML"):
            assert re.fullmatch(r"p\.yaml:\d+:\d+", problem.where)
            assert problem.remedy
            assert not JARGON.search(problem.message)


def test_a_text_that_no_parser_can_follow_is_nested_too_deeply() -> None:
    """PyYAML's parser in Python recurses; the one in C, which is taken where it is installed, does not."""
    found = mistake("[" * 9, RecursionError())
    assert (found.line, found.message, found.remedy) == (
        1, "the text is nested too deeply", "nest fewer lists and mappings",
    )  # fmt: skip
