"""The secrets that a stage may know, so that they are masked in what it prints, however it prints them.

A change here violates the promise of the project when a value that a stage was given as a secret appears in a log.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping

from ratchet.contracts.environment import variable
from ratchet.contracts.source import FilesSource, Source
from ratchet.contracts.source_names import ADDRESSES, VARIABLE, matches
from ratchet.contracts.source_password import shows_password

_SECRET_NAME = re.compile(r"(PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|KEY|CREDENTIALS?)$", re.IGNORECASE)
_SECRET_SETTING = re.compile(r"password|token|secret|key", re.IGNORECASE)
"""What names a secret in a file of keys, such as `aws_secret_access_key`."""
_LOGIN = re.compile(r"(://[^/\s:@'\"]*:)([^/\s@'\"]+)(?=@)")
"""A password in a URL: `postgresql://user:password@host`."""


def secrets_of(sources: Iterable[Source], files: Mapping[str, bytes]) -> set[str]:
    """The secrets that a stage may know.

    files: its files of secrets. Besides, a process has the environment of the process that starts it: what a source
    reads from there, what is named like a secret, and the passwords of URLs.
    """
    found = {value for content in files.values() for value in _values(content.decode("utf-8", "replace"))}
    read = {name for one in sources if not isinstance(one, FilesSource) for name in VARIABLE.findall(one.uri)}
    for name, value in os.environ.items():
        if (name in read and not _is_shown(name, value)) or (_SECRET_NAME.search(name) and not _is_a_file(value)):
            found.update((value, *value.splitlines()))
        found.update(password for _, password in _LOGIN.findall(value))
    return found


def _values(content: str) -> Iterator[str]:
    """The values of a JSON object that are no address, or the secret ones of the lines `name = value` of a key file.

    Such a file has a region and an address, too, and the name of a user: errors without them do not say what to mend.
    """
    try:
        given = json.loads(content)
    except ValueError:
        given = None
    if isinstance(given, dict):
        for name, value in given.items():
            if not _is_shown(name, str(value)):
                yield from (str(value), *str(value).splitlines())
        return
    for line in content.splitlines():
        name, separator, value = line.partition("=")
        if separator and _SECRET_SETTING.search(name):
            yield value.strip()
            yield value.strip().replace("%%", "%")


def _is_a_file(value: str) -> bool:
    """Whether a value is the path of a file. A key may begin with a slash, too."""
    return value.startswith("/") and os.access(value, os.F_OK)


def _is_shown(name: str, value: str) -> bool:
    """Whether messages show the value of a source's variable: an address, or the names of what sources may read."""
    return (name == variable("source_variables") or matches(name, ADDRESSES)) and not shows_password(value)
