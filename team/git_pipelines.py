"""The service `pipelines`: it has the pipelines of a git repository in a folder, and follows a branch.

Each commit is a folder of its own, `versions/COMMIT` (a subfolder of it `versions/COMMIT-DIGEST`), and `current` is a
link to the newest. So a program that follows the link once reads one commit. Whether git answers matters only for what
is new: what was fetched stays.

A change here violates the promise of the project when one plan can be made of two commits, or when a commit goes away
while a plan is made of it.
"""

import os
import shutil
import stat
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from urllib3 import BaseHTTPResponse, PoolManager
from urllib3.exceptions import HTTPError
from urllib3.util import Retry

from ratchet.contracts.errors import ConfigurationError, RatchetError, Unavailable
from ratchet.contracts.git_folder import VERSIONS, asked

if TYPE_CHECKING:
    from dulwich.client import GitClient
    from dulwich.objects import ObjectID
    from dulwich.repo import Repo

PLACE = Path("/srv/pipelines")
"""The volume, in each container."""
CURRENT = "current"
_NEW = ".new-"
_LOGIN = Path("/run/secrets/pipelines-credentials")
_EVERY_S = 30
_SILENT_S = 600
"""After this time without an answer of git the service is unhealthy."""
_KEPT_S = 3600
"""So long a commit stays after the next one has come: a plan reads its folder."""
_ANSWERS_S = 60
_NOWHERE = "links and submodules are left out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A branch of a git repository, without a name the one that it has as its usual, and a folder in it.

    login: USER:TOKEN, where the repository asks for it.
    """

    url: str
    branch: str = ""
    subfolder: str = ""
    login: str = field(default="", repr=False)


def update(source: Source, place: Path) -> str | None:
    """Ask for the newest commit, and have it in the folder; its name, if it was another one before.

    Raises ConfigurationError if the repository, branch or subfolder does not exist, or wants another log-in, and
    Unavailable if git does not answer. Then the folder is as before.
    """
    from dulwich.client import HTTPUnauthorized
    from dulwich.errors import (
        ApplyDeltaError,
        ChecksumMismatch,
        FileFormatException,
        GitProtocolError,
        NotGitRepository,
        WrongObjectException,
    )

    damaged = (ApplyDeltaError, ChecksumMismatch, FileFormatException, WrongObjectException, zlib.error, LookupError)

    try:
        with _client(source) as (client, path):
            commit = _newest(client, path, source)
            version = place / VERSIONS / _name(commit, source)
            changes = _current(place) != version
            if changes and not version.is_dir():
                _fetch(client, path, commit, source, version, place)
        if changes:
            _switch(place, version)
    except HTTPUnauthorized as error:
        raise ConfigurationError(
            f"{source.url} wants a log-in, or another one",
            remedy="name a file with USER:TOKEN in RATCHET_PIPELINES_CREDENTIALS; then `make up`",
        ) from error
    except NotGitRepository as error:
        raise ConfigurationError(
            f"{source.url} is no git repository, or one that this log-in may not see",
            remedy="correct RATCHET_PIPELINES or RATCHET_PIPELINES_CREDENTIALS; then `make up`",
        ) from error
    except (GitProtocolError, HTTPError, OSError, ValueError, *damaged) as error:
        raise Unavailable(
            f"{source.url} cannot be fetched: {error}", remedy="nothing, if it passes; the pipelines stay as they are"
        ) from error
    _prune(place)
    asked(place / CURRENT).touch()
    return commit.decode() if changes else None


def _name(commit: "ObjectID", source: Source) -> str:
    """The name of a folder with these files: those of another subfolder of the same commit are others."""
    below = sha256(source.subfolder.strip("/").encode()).hexdigest()[:8] if source.subfolder else ""
    return "-".join(filter(None, (commit.decode(), below)))


class _Pool(PoolManager):
    """dulwich leaves the connection of a refused request open."""

    def urlopen(self, *words: Any, **more: Any) -> BaseHTTPResponse:
        """See urllib3."""
        answer = super().urlopen(*words, **more)
        if answer.status >= HTTPStatus.BAD_REQUEST:
            answer.drain_conn()
        return answer


@contextmanager
def _client(source: Source) -> "Iterator[tuple[GitClient, str]]":
    from dulwich.client import get_transport_and_path

    user, _, token = source.login.strip().partition(":")
    with _Pool(timeout=_ANSWERS_S, retries=Retry(total=3, connect=0, read=0, other=0, status=0)) as pool:
        yield get_transport_and_path(
            source.url, username=user or None, password=token or None, pool_manager=pool, quiet=True
        )


def _newest(client: "GitClient", path: str, source: Source) -> "ObjectID":
    from dulwich.refs import Ref

    refs = client.get_refs(path.encode()).refs
    wanted = f"refs/heads/{source.branch}" if source.branch else "HEAD"
    found = refs.get(Ref(wanted.encode()))
    if found is None:
        heads = sorted(name.decode().removeprefix("refs/heads/") for name in refs if name.startswith(b"refs/heads/"))
        raise ConfigurationError(
            f"{source.url} has no branch {source.branch or 'that is its usual one'}",
            remedy=f"set RATCHET_PIPELINES_BRANCH to one of {', '.join(heads)}" if heads else "commit something to it",
        )
    commit: ObjectID = found
    return commit


def _fetch(client: "GitClient", path: str, commit: "ObjectID", source: Source, version: Path, place: Path) -> None:
    """Write the files of a commit into a folder that is there at once, or not at all."""
    from dulwich.repo import Repo

    version.parent.mkdir(exist_ok=True)
    _sweep(place)
    with tempfile.TemporaryDirectory(dir=place, prefix=_NEW) as folder:
        with Repo.init_bare(f"{folder}/repository", mkdir=True) as repository:
            client.fetch(path.encode(), repository, determine_wants=lambda *_, **__: [commit], depth=1)
            written = Path(folder) / "files"
            written.mkdir()
            _write(repository, commit, source, written, _current(place))
        os.sync()
        written.rename(version)


def _write(repository: "Repo", commit: "ObjectID", source: Source, target: Path, before: Path | None) -> None:
    """The files of a commit. One that is as before keeps its time, by which a new pipeline is known.

    In the place of what is no plain file is a link that leads nowhere: the plan of its pipeline refuses it by name.
    """
    left_out = []
    for name, mode, content in _files(repository, commit, source):
        path = PurePosixPath(name)
        if {"..", ".git"} & set(path.parts) or path.is_absolute():
            left_out.append(name)
            continue
        file = target / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if not stat.S_ISREG(mode):
            left_out.append(name)
            file.symlink_to(_NOWHERE)
            continue
        old = before / path if before is not None else None
        if old is not None and old.is_file() and old.read_bytes() == content:
            os.link(old, file)
        else:
            file.write_bytes(content)
    if left_out:
        print(f"pipelines: left out, since only plain files are read: {', '.join(left_out)}", flush=True)


def _files(repository: "Repo", commit: "ObjectID", source: Source) -> Iterator[tuple[str, int, bytes]]:
    """The path, mode and content of each file in the subfolder."""
    from dulwich.object_store import iter_tree_contents
    from dulwich.objects import Blob, Commit, Tree

    found = repository[commit]
    assert isinstance(found, Commit)
    tree = found.tree
    if source.subfolder:
        above = repository[tree]
        assert isinstance(above, Tree)
        try:
            _, tree = above.lookup_path(repository.__getitem__, source.subfolder.strip("/").encode())
            missing = not isinstance(repository[tree], Tree)
        except KeyError:
            missing = True
        if missing:
            raise ConfigurationError(
                f"{source.url} has no folder {source.subfolder} at {commit.decode()[:12]}",
                remedy="correct RATCHET_PIPELINES_SUBFOLDER; then `make up`",
            )
    for entry in iter_tree_contents(repository.object_store, tree):
        blob = repository[entry.sha] if stat.S_ISREG(entry.mode) else None
        yield entry.path.decode(errors="replace"), entry.mode, blob.data if isinstance(blob, Blob) else b""


def _current(place: Path) -> Path | None:
    """The folder of the commit that is read now."""
    with suppress(FileNotFoundError):
        return place / (place / CURRENT).readlink()
    return None


def _switch(place: Path, version: Path) -> None:
    before = _current(place)
    if before is not None and before.is_dir():
        os.utime(before)  # from now on it counts as old; first, since a process that is killed does not come back to it
    link = place / ".link"
    link.unlink(missing_ok=True)
    link.symlink_to(version.relative_to(place))
    link.rename(place / CURRENT)


def _prune(place: Path) -> None:
    """Delete the commits that were replaced long ago.

    Each loses its name first: what a process that is killed leaves of it is no commit, if the branch comes back to it.
    """
    current = _current(place)
    for version in (place / VERSIONS).iterdir():
        if version != current and version.stat().st_mtime < time.time() - _KEPT_S:
            version.rename(place / f"{_NEW}{version.name}")
    _sweep(place)


def _sweep(place: Path) -> None:
    """Delete what a process that was killed has left."""
    for left in place.glob(f"{_NEW}*"):
        shutil.rmtree(left)


def healthy(place: Path) -> str | None:
    """Why the service is not well, if it is not."""
    if not (place / CURRENT).is_dir():
        return "nothing was fetched yet"
    silent = time.time() - asked(place / CURRENT).stat().st_mtime
    return f"git has not answered for {silent:.0f} s" if silent > _SILENT_S else None


def main() -> int:
    """Follow the repository for ever; with the word `healthy`, say whether that goes well."""
    if sys.argv[1:] == ["healthy"]:
        ill = healthy(PLACE)
        print(ill or "healthy")
        return 1 if ill else 0
    source = Source(
        url=os.environ["PIPELINES_URL"],
        branch=os.environ.get("PIPELINES_BRANCH", ""),
        subfolder=os.environ.get("PIPELINES_SUBFOLDER", ""),
        login=_LOGIN.read_text(encoding="utf-8") if _LOGIN.is_file() else "",
    )
    said = ""
    while True:
        try:
            commit = update(source, PLACE)
            line = f"pipelines: at {commit[:12]} of {source.url}" if commit else ""
            said = "" if commit is None else line
        except RatchetError as error:
            line = f"pipelines: {error}"
            line, said = ("" if line == said else line), line
        if line:
            print(line, flush=True)
        time.sleep(_EVERY_S)


if __name__ == "__main__":
    sys.exit(main())
