"""Passwords that are written into a source's URI. A file, a plan and MLflow show a URI to many people."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from ratchet.contracts.environment import SOURCE_SECRETS
from ratchet.contracts.joins import sources
from ratchet.contracts.misfits import Misfit

_VARIABLES = re.compile(r"(?:\$\{[A-Za-z_][A-Za-z0-9_]*\})*")
_LOGIN = re.compile(r"(?://|\$\{[A-Za-z_][A-Za-z0-9_]*\})[^:/@]*:([^@]*)@")
_PARAMETER = re.compile(
    r"(?:^|[?&;])\s*[\w.-]*(?:pass(?:word|wd|phrase)?|pwd|secret[\w-]*|token|credentials?(?:_base64|_info)?"
    r"|(?:api|access|account|private)_?key)\s*="
    r"\s*([^&;]*)",
    re.IGNORECASE,
)


def shows_password(uri: str) -> bool:
    """Whether a URI has a password as plain text: `user:password@`, or a parameter such as `password=`.

    A password that consists of `${NAME}` alone is none.
    """
    # A parameter may hold a whole ODBC string in its percent encoding.
    found = [*_LOGIN.findall(uri), *_PARAMETER.findall(uri), *_PARAMETER.findall(unquote(uri))]
    return not all(_VARIABLES.fullmatch(password.strip()) for password in found)


def no_password_is_shown(spec: Any) -> Iterator[Misfit]:
    """The rule for a pipeline file. The problem does not repeat the URI."""
    for path, source in sources(spec):
        if not shows_password(source.uri):
            continue
        remedy = "remove it: keys of S3 come from the usual AWS settings"
        if source.kind == "sql":
            name = f"{SOURCE_SECRETS}PASSWORD"
            remedy = f"write ${{{name}}} in its place, and set {name} where runs start"
        message = "has a password as plain text, which everyone who reads the file or a plan can see"
        yield Misfit((*path, "uri"), message, remedy=remedy)
