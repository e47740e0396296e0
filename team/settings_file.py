"""The settings of the team set-up are read from .env and the environment; every mistake is reported at once."""

import difflib
import os
import sys
from collections.abc import Mapping
from io import StringIO
from pathlib import Path

from dotenv.parser import parse_stream
from pydantic import ValidationError

from ratchet.contracts.errors import ConfigurationError
from team.env_lines import line_of
from team.settings import Settings

_PREFIX = "value error, "
"""Pydantic puts this before the message of a validator."""
_SECRET = frozenset({"database_url", "heartbeat_url", "pipelines"})
"""Their values may hold a password or a token, so no error shows them."""
_GONE = {"RATCHET_REAP_QUEUES": "each host with an engine has a reaper of its own"}
"""Keys of earlier releases, and why nothing needs them any more. An .env that still has one goes on to work."""
_KEYS = {f"RATCHET_{name.upper()}": name for name in Settings.model_fields}


def read(file: Path, environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings of an .env file, if it exists; those of the environment override them.

    Raises ConfigurationError with every unknown key, bad line and bad value at once, each with its line.
    """
    found, places, problems = _parse(file)
    for name, key in _KEYS.items():
        if environment.get(name):
            found[key], places[key] = environment[name], "environment"
    try:
        settings = Settings.model_validate({key: value for key, value in found.items() if value})
    except ValidationError as error:
        for each in error.errors():
            message = each["msg"][:1].lower() + each["msg"][1:]
            if not each["loc"]:  # of several keys, which it names
                problems.append(message.removeprefix(_PREFIX))
                continue
            key = str(each["loc"][0])
            value = "" if key in _SECRET else f" {found[key]!r}:"
            problems.append(f"{places[key]}: RATCHET_{key.upper()}:{value} {message.removeprefix(_PREFIX)}")
    if problems:
        raise ConfigurationError("; ".join(problems), remedy="correct .env; docs/team.md has every key")
    return settings


def _parse(file: Path) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """Values and places by the name of the setting, and the problems."""
    found: dict[str, str] = {}
    places: dict[str, str] = {}
    problems: list[str] = []
    try:
        text = file.read_text(encoding="utf-8") if file.is_file() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{file} cannot be read: {error}", remedy="make it a UTF-8 text that you may read"
        ) from error
    for binding in parse_stream(StringIO(text)):
        place, name, value = f"{file.name}:{line_of(binding.original)}", binding.key, binding.value
        if name is None and not binding.error:  # a comment
            continue
        if name is None or value is None:
            problems.append(f"{place}: not NAME=VALUE")
        elif name in _GONE:
            sys.stderr.write(f"{place}: {name} is not needed any more: {_GONE[name]}; delete the line\n")
        elif name not in _KEYS:
            near = difflib.get_close_matches(name, _KEYS, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; allowed: {', '.join(sorted(_KEYS))}"
            problems.append(f"{place}: {name}: unknown key{hint}")
        elif _KEYS[name] in found:
            problems.append(f"{place}: {name}: a second time; the first is {places[_KEYS[name]]}")
        else:
            found[_KEYS[name]], places[_KEYS[name]] = value, place
    return found, places, problems
