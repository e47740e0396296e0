"""The variables of sources that the workers get: passwords of databases, and addresses, from a file of the operator."""

import shlex
from io import StringIO

from dotenv.parser import parse_stream

from ratchet.contracts.environment import SOURCE_ADDRESSES, SOURCE_SECRETS, is_setting
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.source_names import matches
from team.env_lines import line_of
from team.settings import Settings


def shell_lines(text: str, settings: Settings) -> str:
    """The lines of a shell that set the variables of a file, which has NAME=VALUE lines as .env has them.

    Raises ConfigurationError with every line that is wrong, or that no source could read. It shows no value.
    """
    allowed = (f"{SOURCE_SECRETS}*", f"{SOURCE_ADDRESSES}_*", *settings.source_names)
    found: dict[str, str] = {}
    problems: list[str] = []
    for binding in parse_stream(StringIO(text)):
        name, value = binding.key, binding.value
        line = line_of(binding.original)
        if name is None and not binding.error:  # a comment
            continue
        if name is None or not value:
            problems.append(f"line {line}: not NAME=VALUE")
        elif is_setting(name) or not matches(name, allowed):
            problems.append(f"line {line}: no source may read {name}; allowed: {', '.join(allowed)}")
        elif name in found:
            problems.append(f"line {line}: {name} a second time")
        else:
            found[name] = value
    if problems:
        raise ConfigurationError(
            f"RATCHET_SOURCE_CREDENTIALS: {'; '.join(problems)}",
            remedy="correct the file, or add the name to RATCHET_SOURCE_VARIABLES",
        )
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in found.items())
