"""A proxy before an S3 server that refuses every session token but the newest, as S3 refuses those that have expired."""

from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from pathlib import Path

from tests.s3_proxy import Refusal, s3_proxy

EXPIRED: Refusal = (400, b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>")


class Tokens:
    """endpoint: of the proxy. refused: how many requests had an old token."""

    def __init__(self, file: Path) -> None:
        self.endpoint, self.refused = "", 0
        self._file, self._number, self._valid = file, 0, set[str]()
        self.renew()

    def renew(self, *, overlap: bool = False) -> str:
        """Write a new token into the file, as the program of a role does. overlap: whether the one before stays valid."""
        self._number += 1
        token = f"session-token-{self._number}"
        kept = {f"session-token-{self._number - 1}"} if overlap else set[str]()
        self._valid = {token, *kept}
        new = self._file.with_suffix(".new")
        new.write_text(
            f"[default]\naws_access_key_id = AKID\naws_secret_access_key = secret-key\naws_session_token = {token}\n"
        )
        new.replace(self._file)
        return token

    def expire(self) -> None:
        """No token is valid until the next one."""
        self._valid = set()

    def refuse(self, _method: str, _path: str, headers: "Message[str, str]") -> Refusal | None:
        """The answer to a request with an old token."""
        valid = headers.get("x-amz-security-token") in self._valid
        self.refused += not valid
        return None if valid else EXPIRED


@contextmanager
def s3_with_tokens(upstream: str, file: Path) -> Iterator[Tokens]:
    """The proxy before the server at `upstream`; `file` has the valid token."""
    tokens = Tokens(file)
    with s3_proxy(upstream, refuse=tokens.refuse) as proxy:
        tokens.endpoint = proxy.endpoint
        yield tokens
