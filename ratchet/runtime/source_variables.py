"""The variables in a source's URI: which of them a pipeline may read, and how messages hide their values.

A change here violates the promise of the project when a pipeline can read a setting of the installation, or when a
plan, a message or a log shows the value of a variable that is no address.
"""

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from urllib.parse import parse_qsl, unquote, urlsplit

from ratchet.contracts.environment import SOURCE_SECRETS, is_setting, source_variables, variable
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.source_names import ADDRESSES, VARIABLE, matches
from ratchet.contracts.source_password import shows_password


def expand(uri: str, environment: Mapping[str, str] = os.environ, *, secret: bool = False) -> str:
    """Replace each ${NAME} of a source URI by its value.

    secret: the result stays in this process, as the URL of a database does. Any other is an address, which plans and
    messages show, so it may only have variables that are addresses. Raises ConfigurationError for a variable that is
    not allowed or not set, and for an address with a password.
    """
    for name in allowed_names(uri, secret=secret):
        if not environment.get(name):
            raise ConfigurationError(
                f"source.uri: ${{{name}}} is not set in the environment", remedy=f"set {name}, or write its value"
            )
        if not secret and shows_password(environment[name]):
            raise ConfigurationError(
                f"source.uri: the value of ${{{name}}} has a password, and plans and logs show an address",
                remedy=f"remove it from {name}: keys of S3 come from the usual AWS settings",
            )
    return VARIABLE.sub(lambda found: environment[found[1]], uri)


def allowed_names(uri: str, *, secret: bool) -> tuple[str, ...]:
    """The variables of a source URI, each once. Raises ConfigurationError for one that no source may read."""
    names = tuple(dict.fromkeys(VARIABLE.findall(uri)))
    allowed = (*ADDRESSES, *source_variables()) if secret else ADDRESSES
    for name in names:
        if is_setting(name):
            raise ConfigurationError(
                f"source.uri: ${{{name}}} is a setting of this installation, which no source may read",
                remedy=f"use a variable of the source's own, as ${{{SOURCE_SECRETS}PASSWORD}} in an sql source",
            )
        if not matches(name, allowed):
            raise _not_allowed(name, allowed, secret=secret)
    return names


def _not_allowed(name: str, allowed: Iterable[str], *, secret: bool) -> ConfigurationError:
    shown = ", ".join(allowed)
    if secret:
        setting = variable("source_variables")
        return ConfigurationError(
            f"source.uri: ${{{name}}} is not a variable that a source may read; allowed: {shown}",
            remedy=f"rename it to {SOURCE_SECRETS}{name}, or let the operator add {name} to {setting}",
        )
    return ConfigurationError(
        f"source.uri: ${{{name}}} is not an address, and plans and logs show the place of the files; allowed: {shown}",
        remedy=f"rename it to {ADDRESSES[1][:-1]}{name}, or write the place itself",
    )


def hide(text: str, uri: str, environment: Mapping[str, str] = os.environ) -> str:
    """A message of a database with `${NAME}` for each value of the URI's variables, and for each part of one."""
    parts = {part: name for name in VARIABLE.findall(uri) for part in _parts(environment.get(name, ""))}
    if not parts:
        return text
    longest_first = sorted(parts, key=len, reverse=True)
    expression = re.compile("|".join(rf"(?<!\w){re.escape(part)}(?!\w)" for part in longest_first))
    return expression.sub(lambda found: f"${{{parts[found[0]]}}}", text)


def _parts(value: str) -> set[str]:
    """A value, and where it is a URL what it consists of: drivers name the user, the host and the database."""
    found = {value}
    if "://" in value:
        with suppress(ValueError):
            url = urlsplit(value)
            login, _, host = url.netloc.rpartition("@")
            found |= {*login.split(":", 1), host, url.hostname or "", url.path, url.path.lstrip("/")}
            found |= {given for _, given in parse_qsl(url.query)}
    return {part for each in found for part in (each, unquote(each)) if part.strip("/")}
