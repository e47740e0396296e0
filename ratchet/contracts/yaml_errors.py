"""Errors of YAML's syntax in plain words: where the mistake is, what it is, and what to do."""

import re
from typing import NamedTuple

import yaml

_QUOTE = "put the value into quotes"
_PROBLEMS = (
    (
        "escape",
        "",
        "a backslash inside double quotes begins an escape, and this is none",
        "use single quotes, or write the backslash twice",
    ),
    (
        "undefined alias",
        "",
        "a value that starts with * repeats an earlier value marked with &, and there is none",
        _QUOTE,
    ),
    ("another document", "", "a second document begins here", "keep one document in the file, without ---"),
    ("mapping values", r":\s", "the line has a second `: `", f"{_QUOTE}, or begin a new line"),
    (
        "expected key",
        r"['\"]\s*$",
        "text follows the closing quote",
        "write a quote inside quotes twice, or use the other kind around it",
    ),
    (
        "mapping values|expected key|'-' indicator",
        "",
        "this does not fit the lines above",
        "indent it like its neighbours, with spaces; end every key with `: `",
    ),
)
"""(words, pattern, message, remedy): the first one whose words are in the parser's problem, and whose pattern is in the
line before the mark.
"""


class SyntaxMistake(NamedTuple):
    """A mistake in the text. line, column: from 1."""

    line: int
    column: int
    message: str
    remedy: str


def mistake(text: str, error: yaml.YAMLError | RecursionError) -> SyntaxMistake:
    """The mistake in a text that made the parser raise an error."""
    if isinstance(error, yaml.MarkedYAMLError) and (mark := error.problem_mark or error.context_mark):
        return _at_mark(text.split("\n"), error, mark)
    if isinstance(error, yaml.reader.ReaderError):
        return _strange_character(text, error)
    return SyntaxMistake(1, 1, "the text is nested too deeply", "nest fewer lists and mappings")


def _strange_character(text: str, error: yaml.reader.ReaderError) -> SyntaxMistake:
    code = error.character if isinstance(error.character, int) else ord(error.character[:1] or "\0")
    before = text[: max(text.find(chr(code)), 0)]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return SyntaxMistake(line, column, f"the character U+{code:04X} is not allowed", "remove it")


def _at_mark(lines: list[str], error: yaml.MarkedYAMLError, mark: yaml.Mark) -> SyntaxMistake:
    context, problem = error.context or "", error.problem or ""
    opened = error.context_mark
    if opened and ("quoted scalar" in context and "end of stream" in problem):
        return _here(opened, "the quote that opens here is not closed", "close it with the same quote")
    bracket = _char(lines, opened) if opened and "flow" in context else ""
    said = _by_character(lines, mark) or _by_problem(lines, mark, problem)
    if opened and bracket and bracket in "[{" and (said is None or not _char(lines, mark)):
        return _unclosed(opened, bracket)
    if "flow" in context and not _char(lines, mark):
        said = "the text ends before every bracket is closed", "close each [ with ] and each { with }"
    return _here(mark, *(said or ("this cannot be read", f"check quotes, brackets and indentation; or {_QUOTE}")))


def _by_character(lines: list[str], mark: yaml.Mark) -> tuple[str, str] | None:
    """What the character at a mark says about the mistake."""
    found, before = _char(lines, mark), lines[mark.line][: mark.column] if mark.line < len(lines) else ""
    if "\t" in {found, before[-1:]} and not before.strip():
        return "the line is indented with a tab", "indent it with spaces"
    if found and found in "@`%":
        return f"a value cannot start with {found}", _QUOTE
    if found and found in "]}" and not before.strip():
        return f"the {found} closes nothing", "remove it, or open the bracket"
    return None


def _by_problem(lines: list[str], mark: yaml.Mark, problem: str) -> tuple[str, str] | None:
    """What the parser's words and the line before a mark say about the mistake."""
    before = lines[mark.line][: mark.column] if mark.line < len(lines) else ""
    for words, pattern, message, remedy in _PROBLEMS:
        if re.search(words, problem) and re.search(pattern, before):
            return message, remedy
    return None


def _unclosed(opened: yaml.Mark, bracket: str) -> SyntaxMistake:
    return _here(
        opened,
        f"the {bracket} that opens here is not closed, or a comma is missing",
        f"close it with {']' if bracket == '[' else '}'}, with a comma between two values",
    )


def _char(lines: list[str], mark: yaml.Mark) -> str:
    return lines[mark.line][mark.column : mark.column + 1] if mark.line < len(lines) else ""


def _here(mark: yaml.Mark, message: str, remedy: str) -> SyntaxMistake:
    return SyntaxMistake(mark.line + 1, mark.column + 1, message, remedy)
