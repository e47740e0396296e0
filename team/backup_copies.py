"""Copies of backups off this host: sealed, verified, and fetched again.

All files of a copy are sealed, since a backup has every secret of its installation. The manifest goes last: without it
a copy is not whole, and the next one removes it.
"""

import hashlib
import json
import shutil
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ratchet.contracts.errors import ConfigurationError, CorruptArtifact, RatchetError
from team.backup_folder import MANIFEST, check, is_name, read_manifest, sha256
from team.bucket_files import one_line
from team.copy_places import CopyPlace
from team.sealed_copy import SUFFIX, seal, unseal

_SEALED_MANIFEST = f"{MANIFEST}{SUFFIX}"


def is_copy(folder: Path) -> bool:
    """Whether a folder is a copy, and not a backup itself."""
    return (folder / _SEALED_MANIFEST).is_file()


def copy(place: CopyPlace, folder: Path, key: bytes) -> None:
    """Copy a backup, and read the copy again: raises CorruptArtifact if it is not the same."""
    files = read_manifest(folder)
    for name in files:
        _put(place, folder, name, key)
    for name, digest in files.items():
        _verify(place, folder.name, name, digest, key)
    _put(place, folder, MANIFEST, key)
    _verify(place, folder.name, MANIFEST, sha256(folder / MANIFEST), key)


def prune(place: CopyPlace, keep: int, *, but: str | None = None) -> list[str]:
    """Delete copies that are not whole, and all but the newest whole ones; the names of those that went.

    but: a whole one that stays, whatever the clock said. A folder with a file that is not sealed is no copy, and stays:
    a person put it there.
    """
    found = {name: files for name, files in _copies(place).items() if all(file.endswith(SUFFIX) for file in files)}
    whole = sorted((name for name, files in found.items() if _SEALED_MANIFEST in files), reverse=True)
    gone = sorted(found.keys() - {*whole[:keep], *(name for name in whole if name == but)})
    for name in gone:
        # The manifest goes first: what is left after a kill is not whole.
        for file in sorted(found[name], key=lambda each: each != _SEALED_MANIFEST):
            place.delete(f"{name}/{file}")
    return gone


def fetch(place: CopyPlace, name: str, backups: Path, key: bytes) -> Path:
    """Open a copy into a folder of the backups. A backup of that name that is there and whole is left.

    Raises ConfigurationError if there is no such copy, or for another key, and CorruptArtifact, with the file, for a
    damaged one.
    """
    whole = sorted(name for name, files in _copies(place).items() if _SEALED_MANIFEST in files)
    if name not in whole:
        raise ConfigurationError(
            f"{place.address}/{name} is no copy of a backup",
            remedy=f"name one of {', '.join(whole)}" if whole else "name another place; there is none here",
        )
    target, unfinished = backups / name, backups / f".{name}"
    with suppress(RatchetError):
        check(target)
        return target
    with one_line(str(target)):
        unfinished.mkdir(mode=0o700)
        _open(place, name, MANIFEST, unfinished, key)
        files: dict[str, str] = json.loads((unfinished / MANIFEST).read_text(encoding="utf-8"))
        for file, digest in files.items():
            _open(place, name, file, unfinished, key)
            if sha256(unfinished / file) != digest:
                raise _damaged(place, name, file)
        shutil.rmtree(target, ignore_errors=True)
        unfinished.rename(target)
    return target


def _copies(place: CopyPlace) -> dict[str, list[str]]:
    """The files of each copy."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in place.names():
        name, _, file = path.partition("/")
        if is_name(name) and file:
            found[name].append(file)
    return found


def _put(place: CopyPlace, folder: Path, name: str, key: bytes) -> None:
    with (folder / name).open("rb") as source:
        place.put(
            f"{folder.name}/{name}{SUFFIX}", seal(source, key, f"{folder.name}/{name}"), (folder / name).stat().st_size
        )


def _verify(place: CopyPlace, backup: str, name: str, digest: str, key: bytes) -> None:
    seen = hashlib.sha256()
    for chunk in _content(place, backup, name, key):
        seen.update(chunk)
    if seen.hexdigest() != digest:
        raise _damaged(place, backup, name)


def _open(place: CopyPlace, backup: str, name: str, folder: Path, key: bytes) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with path.open("xb") as out:
        path.chmod(0o600)
        for chunk in _content(place, backup, name, key):
            out.write(chunk)


def _content(place: CopyPlace, backup: str, name: str, key: bytes) -> Iterator[bytes]:
    file = f"{backup}/{name}{SUFFIX}"
    with place.open(file) as source:
        yield from unseal(source, key, f"{backup}/{name}", f"{place.address}/{file}")


def _damaged(place: CopyPlace, backup: str, name: str) -> CorruptArtifact:
    return CorruptArtifact(
        f"{place.address}/{backup}/{name}{SUFFIX} is not what was copied there", remedy="restore another backup"
    )
