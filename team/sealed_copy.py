"""Files sealed with a key: encrypted, and nothing of them can change, move or be cut unnoticed.

Each file has a key of its own, derived (HKDF-SHA256) from the key file, a random salt and the names of the file and its
backup. Its content is a sequence of chunks of AES-256-GCM; the nonce is the chunk's number and whether it is the last
one. It is the construction of `age`: https://age-encryption.org/v1.
"""

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from ratchet.contracts.errors import ConfigurationError, CorruptArtifact

SUFFIX = ".sealed"
_MAGIC = b"ratchet sealed 1\n"
_CHUNK, _TAG, _SALT, _ID = 1 << 20, 16, 16, 8
_LENGTH = 32
HOW = "make one with `openssl rand -hex 32 > FILE`, and keep it elsewhere, too"


def read_key(file: Path | None) -> bytes:
    """The key of a key file: 64 hexadecimal digits. Raises ConfigurationError."""
    if file is None:
        raise ConfigurationError("there is no key to copies of backups", remedy="set RATCHET_BACKUPS_KEY in .env")
    try:
        key = bytes.fromhex(file.expanduser().read_text(encoding="ascii"))
    except OSError as error:
        raise ConfigurationError(
            f"RATCHET_BACKUPS_KEY: {file} cannot be read: {(error.strerror or '').lower()}", remedy=HOW
        ) from error
    except ValueError:
        key = b""
    if len(key) != _LENGTH:
        raise ConfigurationError(
            f"RATCHET_BACKUPS_KEY: {file} does not have {2 * _LENGTH} hexadecimal digits", remedy=HOW
        )
    return key


class Sealed(io.RawIOBase):
    """What an iterator of bytes gives, as a file that can be read once."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._left = chunks, b""

    def readable(self) -> bool:
        """It can."""
        return True

    def readinto(self, buffer: Any) -> int:
        """See io.RawIOBase."""
        while not self._left:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._left = chunk
        part, self._left = self._left[: len(buffer)], self._left[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)


def seal(source: IO[bytes], key: bytes, name: str) -> IO[bytes]:
    """A file that reads as the sealed content of another. name: of the file, which is needed to open it."""
    return io.BufferedReader(Sealed(_seal(source, key, name)))


def _seal(source: IO[bytes], key: bytes, name: str) -> Iterator[bytes]:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    salt = os.urandom(_SALT)
    yield _MAGIC + _derived(key, b"", "key")[:_ID] + salt
    cipher = AESGCM(_derived(key, salt, f"file {name}"))
    for number, (chunk, last) in enumerate(_chunks(source, _CHUNK)):
        yield cipher.encrypt(_nonce(number, last=last), chunk, None)


def unseal(source: IO[bytes], key: bytes, name: str, where: str) -> Iterator[bytes]:
    """The content of a sealed file. where: the file, for errors.

    Raises ConfigurationError for another key, CorruptArtifact if the file is damaged, cut, or another file.
    """
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    damaged = CorruptArtifact(f"{where} is damaged", remedy="restore another backup, or another copy of this one")
    if _exactly(source, len(_MAGIC)) != _MAGIC:
        raise damaged
    if _exactly(source, _ID) != _derived(key, b"", "key")[:_ID]:
        raise ConfigurationError(
            f"{where} was sealed with another key", remedy="name the file of that key in RATCHET_BACKUPS_KEY"
        )
    cipher = AESGCM(_derived(key, _exactly(source, _SALT), f"file {name}"))
    try:
        for number, (chunk, last) in enumerate(_chunks(source, _CHUNK + _TAG)):
            yield cipher.decrypt(_nonce(number, last=last), chunk, None)
    except InvalidTag:
        raise damaged from None


def _derived(key: bytes, salt: bytes, purpose: str) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), _LENGTH, salt, f"ratchet backup: {purpose}".encode()).derive(key)


def _nonce(number: int, *, last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([last])


def _chunks(source: IO[bytes], size: int) -> Iterator[tuple[bytes, bool]]:
    """Chunks of a file, at least one, each with whether it is the last."""
    chunk = _exactly(source, size)
    while True:
        following = _exactly(source, size)
        yield chunk, not following
        if not following:
            return
        chunk = following


def _exactly(source: IO[bytes], size: int) -> bytes:
    """So many bytes; fewer at the end."""
    parts, left = [], size
    while left and (part := source.read(left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
