"""Secrets, masked in every text that is kept or sent: logs, alerts, outcomes, reports, pages, manifests.

`mask` finds secrets by how they are written, such as `password=...`; see `secret_forms`. A `Mask` knows the values of
some secrets as well, such as those that a stage was given.

A change here violates the promise of the project when a secret in one of the forms of its test stays in a text, when a
text that is masked twice changes again, or when the time for a text grows faster than its length.
"""

import json
import logging
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, quote_plus

from ratchet.contracts.errors import RatchetError
from ratchet.contracts.secret_forms import FORMS, MASK

SHORTEST = 4
"""Letters of a value that is masked. A shorter one hides nothing, and would be masked inside other words."""
_PROTOCOL = frozenset({"time", "level", "stage", "event"})
"""What the stage's own code writes into each event."""


def mask(text: str) -> str:
    """The text with `***` in place of what is written like a secret."""
    small = text.lower()
    for form in FORMS:
        if not form.needles or any(needle in small for needle in form.needles):
            text = form.mask(text)
    return text


def mask_error(error: BaseException) -> None:
    """Mask the texts of one of our errors, before it is raised further, logged and recorded."""
    if isinstance(error, RatchetError):
        error.cause, error.remedy = mask(error.cause), mask(error.remedy)
        error.last_lines = tuple(map(mask, error.last_lines))


def masked_logger(name: str) -> logging.Logger:
    """The logger of a name, whose lines and tracebacks are masked."""
    logger = logging.getLogger(name)
    if not any(isinstance(one, _MaskedRecords) for one in logger.filters):
        logger.addFilter(_MaskedRecords())
    return logger


class _MaskedRecords(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = mask(record.getMessage()), None
        if record.exc_info and not record.exc_text:
            record.exc_text = mask(logging.Formatter().formatException(record.exc_info))
        return True


class Mask:
    """Masks what is written like a secret, and the values that it is given.

    Such a value is found as it is, and as it appears in JSON, in a URL and in Python's repr.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms = {form for secret in secrets if len(secret) >= SHORTEST for form in _forms(secret)}
        longest_first = sorted(forms, key=len, reverse=True)
        self._secrets = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def text(self, text: str) -> str:
        """The text without secrets."""
        return mask(self._secrets.sub(MASK, text) if self._secrets else text)

    def line(self, text: str) -> str:
        """A line of a log without secrets. An event, which is a line of JSON, stays an event, whatever they are."""
        try:
            event = json.loads(text) if text[:1] == "{" else None
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict):
            return self.text(text)
        inside = {name: value if name in _PROTOCOL else self._named(name, value) for name, value in event.items()}
        return text if inside == event else json.dumps(inside, ensure_ascii=False)

    def _named(self, name: str, value: Any) -> Any:
        """A value of an object; its name may say that it is a secret."""
        return MASK if isinstance(value, str) and _names_secret(name) else self._value(value)

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            is_variable = any(
                name.lower() in {"name", "key"} and _names_secret(inside) for name, inside in value.items()
            )
            named = {name: "secret" if is_variable and name.lower() == "value" else name for name in value}
            return {self.text(name): self._named(named[name], inside) for name, inside in value.items()}
        return [self._value(inside) for inside in value] if isinstance(value, list) else value


def _names_secret(name: object) -> bool:
    return isinstance(name, str) and mask(f'"{name}": "x"') != f'"{name}": "x"'


def _forms(secret: str) -> set[str]:
    quoted = {quote(secret, safe=""), quote(secret), quote_plus(secret)}
    written = {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1]}
    return {secret, *quoted, *written}
