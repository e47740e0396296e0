"""Texts for people, such as logs and messages, without a value that was purged."""

import html
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

MASK = "[purged]"
Masking = Callable[[str], str]
_FREE = frozenset({"observed", "allowed", "because", "last_lines", "explanation", "value", "cause"})
"""The keys of our documents whose values are texts for people. Others, such as keys and dates, are never changed."""
_OF_LETTERS = frozenset({"title", "body", "reason"})
_CUTS = (40, 100, 200)
"""To how many characters checks, names of slices and expectations cut a value."""
_PLAIN = re.compile(r"[A-Za-z0-9 _@.,:;+=/()#-]*")
"""What no text escapes."""
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?(e[-+]?\d{1,3})?", re.IGNORECASE)
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(\.\d{1,6})?Z?")
_ESCAPED = re.compile(r"[nrtbf]|u[0-9a-f]{4}")


def masking(values: Iterable[str]) -> Masking:
    """Replaces each value where it is a word of its own, in each way in which texts write it.

    These are numbers with separators, as in 1,234, and as floats; times as in ISO 8601; the escapes of HTML and of
    JSON; and the beginning of a long value. How long a text takes does not depend on the number of values.
    """
    words = {form for value in values for form in _forms(value) if form}
    lengths: dict[str, set[int]] = {}
    for word in words:
        lengths.setdefault(_first(word), set()).add(len(word))
    longest_first = {first: sorted(found, reverse=True) for first, found in lengths.items()}
    signs = "".join(re.escape(first) for first in longest_first if not _is_letter(first[0]))
    tokens = re.compile(r"\w+" + (rf"|(?:(?<!\w)|(?<=\\[nrtbf]))[{signs}]" if signs else ""))

    def find(text: str, start: int, first: str) -> int:
        """The end of the longest value that starts here; 0 if none does."""
        ends = (start + length for length in longest_first.get(first, ()))
        return next((end for end in ends if text[start:end] in words and not _is_letter(text[end : end + 1])), 0)

    def mask(text: str) -> str:
        if "\\" not in text and longest_first.keys().isdisjoint(tokens.findall(text)):
            return text
        pieces, done = [], 0
        for token in tokens.finditer(text):
            start, first = token.start(), token[0]
            if start < done:
                continue
            end = find(text, start, first)
            if not end and text[start - 1 : start] == "\\" and (escape := _ESCAPED.match(first)):
                start += escape.end()  # a word after a line's end, as JSON writes it
                end = find(text, start, first[escape.end() :])
            if end:
                pieces += [text[done:start], MASK]
                done = end
        return "".join([*pieces, text[done:]])

    return mask


def masked(document: Any, mask: Masking, *, free: bool = False) -> Any:
    """A JSON document with its texts for people masked. free: whether all of its texts are for people."""
    match document:
        case dict():
            return {key: masked(value, mask, free=free or key in _FREE) for key, value in document.items()}
        case list():
            return [masked(value, mask, free=free) for value in document]
        case str():
            return mask(document) if free else document
    return document


def masked_letter(document: Any, mask: Masking) -> Any:
    """A document of an outbox with its texts for people masked; its other texts say where it goes."""
    match document:
        case dict():
            return {
                key: mask(value) if key in _OF_LETTERS and isinstance(value, str) else masked_letter(value, mask)
                for key, value in document.items()
            }
        case list():
            return [masked_letter(value, mask) for value in document]
    return document


def _is_letter(text: str) -> bool:
    return text.isalnum() or text == "_"


def _first(word: str) -> str:
    found = re.match(r"\w+", word)
    return found[0] if found else word[0]


def _forms(value: str) -> Iterator[str]:
    """A value in each way in which texts write it."""
    for form in {value, *(value[:size] for size in _CUTS), *_as_numbers(value), *_as_times(value)}:
        if _PLAIN.fullmatch(form):
            yield form
            continue
        for text in (form, repr(form)[1:-1]):
            for escaped in {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}:
                yield escaped
                yield html.escape(escaped, quote=False)
                yield html.escape(escaped)
                yield html.escape(escaped).replace("&#x27;", "&#39;").replace("&quot;", "&#34;")  # of our templates


def _as_numbers(value: str) -> Iterator[str]:
    if not _NUMBER.fullmatch(value) or not math.isfinite(number := float(value)):
        return
    if (whole := value.removeprefix("-").isdigit()) or number.is_integer():
        exact = int(value) if whole else int(number)
        yield from (f"{exact}", f"{exact:,}")
        if exact != int(number):
            return  # no float has it
    yield from (repr(number), f"{number:,}")


def _as_times(value: str) -> Iterator[str]:
    if (found := _TIME.fullmatch(value)) is None:
        return
    day, second, part = found.groups(default="")
    part = part.removeprefix(".").rstrip("0")
    parts = {f".{part.ljust(size, '0')}" if size else "" for size in (len(part), 3, 6) if size >= len(part)}
    times = {f"{second}{part}" for part in parts} | ({second[:5]} if not part and second.endswith(":00") else set())
    yield from (f"{day}{separator}{time}{zone}" for separator in " T" for time in times for zone in ("", "Z"))
