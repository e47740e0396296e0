"""Keys of S3 in a shared file that is written again while a process uses them.

Session tokens are valid for an hour or less. A stage of four hours has its keys in a file that its worker replaces in
time, and a worker may have such a file of another program. The file is read again whenever it has changed: no clock
decides.

A change here violates the promise of the project when a request is signed with keys that the file has no more.
"""

import configparser
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from threading import Lock
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from botocore.credentials import CredentialProvider, CredentialResolver, Credentials, ReadOnlyCredentials
from botocore.exceptions import BotoCoreError
from botocore.session import Session

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

_SHARED_FILE = "shared-credentials-file"
"""What botocore calls the way to such keys."""
MOMENT_S = 0.05
"""Seconds in which a file that has changed must stay as it is: a program may write it in place, in parts."""
_REFUSED = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN})
FRESH_S = 60.0
"""Seconds after a change of the keys in which a service that does not know them may know them soon."""


def follow_keys(session: Session) -> None:
    """Let a session follow the shared file that its keys are in. Does nothing if they are elsewhere."""
    place = Path(str(session.get_config_variable("credentials_file"))).expanduser()
    profile = str(session.get_config_variable("profile") or "default")
    if not place.is_file():
        return
    with suppress(BotoCoreError):  # who asks for the keys next gets the error
        found = Session(profile=session.profile).get_credentials()
        if found is not None and found.method == _SHARED_FILE:
            session.register_component("credential_provider", CredentialResolver([_Provider(place, profile)]))


def ask_heads_again(client: "S3Client") -> None:
    """Let a client ask each HEAD once more whose refusal has a status alone, whatever calls it and gave the keys.

    The refusal may be of keys that have been renewed since, such as a role's: the next request has the new ones.
    """
    for operation in ("HeadObject", "HeadBucket"):
        client.meta.events.register_first(f"needs-retry.s3.{operation}", _once_more)  # type: ignore[arg-type] # what it returns is used


def _once_more(response: tuple[Any, object] | None, attempts: int, **_: object) -> float | None:
    """For how many seconds botocore waits before it signs the request again; None: it does what it does otherwise."""
    refused = response is not None and response[0].status_code in _REFUSED
    return 0.0 if refused and attempts == 1 else None


class RenewedKeys(Credentials):
    """Keys of a section of the file. While it is absent, half written or without the section, those from before.

    All three values change at once, for each thread.
    """

    def __init__(self, place: Path, profile: str) -> None:
        super().__init__("", "", method=_SHARED_FILE)
        self._place, self._profile = place, profile
        self._keys = ReadOnlyCredentials("", "", None)
        self._seen: tuple[int, int, int] | None = None
        self._changed: float | None = None
        self._looking = Lock()
        self.look()

    def look(self) -> bool:
        """Read the file again if it has changed. Whether there are keys."""
        with self._looking, suppress(OSError, UnicodeDecodeError, configparser.Error):
            state = self._state()
            if state != self._seen:
                sleep(MOMENT_S)
                found = self._read()
                if found and self._state() == state:  # otherwise somebody writes it: the next look sees what it becomes
                    if self._keys.access_key and found != self._keys:
                        self._changed = monotonic()
                    self._keys, self._seen = found, state
                    self.access_key, self.secret_key, self.token = (
                        found.access_key or "",
                        found.secret_key or "",
                        found.token,
                    )
        return bool(self._keys.access_key)

    def is_fresh(self) -> bool:
        """Whether the keys have changed within FRESH_S: a refusal may be of a file that was half written."""
        return self._changed is not None and monotonic() - self._changed < FRESH_S

    def get_frozen_credentials(self) -> ReadOnlyCredentials:
        """The keys as the file has them now. botocore asks before it signs a request, and again for a retry."""
        self.look()
        return self._keys

    def _state(self) -> tuple[int, int, int]:
        found = self._place.stat()
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _read(self) -> ReadOnlyCredentials | None:
        parser = configparser.RawConfigParser()
        parser.read_string(self._place.read_text(encoding="utf-8"))
        section = parser[self._profile] if parser.has_section(self._profile) else {}
        key, secret = section.get("aws_access_key_id"), section.get("aws_secret_access_key")
        token = section.get("aws_security_token") or section.get("aws_session_token")  # in botocore's order
        return ReadOnlyCredentials(key, secret, token) if key and secret else None


class _Provider(CredentialProvider):
    METHOD = _SHARED_FILE

    def __init__(self, place: Path, profile: str) -> None:
        super().__init__()
        self._place, self._profile = place, profile

    def load(self) -> RenewedKeys | None:
        """The keys; None where the file has none."""
        keys = RenewedKeys(self._place, self._profile)
        return keys if keys.look() else None
