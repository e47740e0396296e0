"""The tar file with a job's request and secrets: read entry by entry, and rebuilt for the engine."""

import io
import re
import tarfile

from team.engine_filter.refusal import Refusal

_NAME = re.compile(r"ratchet(/[A-Za-z0-9][A-Za-z0-9_.-]{0,99}){0,2}")
_KEYS = "ratchet/secrets/aws-credentials"
_MODE = 0o750
_ENTRIES = 200
_ID_LIMIT = 1 << 31


def rewritten(content: bytes) -> bytes:
    """The same folders and files, and nothing else that a tar file could hold. Raises Refusal, never naming content."""
    packed = io.BytesIO()
    seen: set[str] = set()
    end = 0
    try:
        with (
            tarfile.open(fileobj=io.BytesIO(content), mode="r:") as tar,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as out,
        ):
            for found in tar:
                _check(found, seen)
                seen.add(found.name)
                entry = tarfile.TarInfo(found.name)
                entry.gid, entry.mode, entry.type, entry.size = found.gid, found.mode, found.type, found.size
                out.addfile(entry, tar.extractfile(found) if found.isreg() else None)
                end = found.offset_data + -(-found.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
    except (tarfile.TarError, ValueError, OSError) as error:
        raise Refusal("the archive, which is no plain tar file", "what Ratchet's runner packs") from error
    # Python stops quietly at a header that is cut off.
    if not seen or len(content) - end < 2 * tarfile.BLOCKSIZE or content[end:].strip(b"\0"):
        raise Refusal("an archive that is empty, cut off or goes on after its end", "what Ratchet's runner packs")
    return packed.getvalue()


def renews_keys(content: bytes) -> bool:
    """Whether a rebuilt archive has the keys of S3 alone, which a stage that runs may get new ones of."""
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as tar:
        return tar.getnames() == [_KEYS]


def _check(found: tarfile.TarInfo, seen: set[str]) -> None:
    if found.type not in {tarfile.REGTYPE, tarfile.DIRTYPE}:
        raise Refusal("a link or device in the archive", "folders and plain files")
    if not _NAME.fullmatch(found.name) or found.name in seen or len(seen) >= _ENTRIES:
        raise Refusal(
            f"the archive's entry {found.name[:60]!r}", f"plain names below ratchet/, each once, {_ENTRIES} at most"
        )
    if found.mode & ~_MODE or found.uid != 0 or not 0 < found.gid < _ID_LIMIT or found.sparse is not None:
        raise Refusal(f"the archive's entry {found.name!r}", "root's, of a group in numbers, mode 0750 or less")
