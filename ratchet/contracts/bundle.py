"""A pipeline's folder as one file of bytes, the same bytes for the same files."""

import hashlib
import io
import tarfile
from pathlib import Path, PurePosixPath

from ratchet.contracts.errors import ConfigurationError

MAX_BYTES = 16 << 20


def members(folder: Path) -> dict[str, Path]:
    """List the files of a pipeline's folder by relative name, without hidden files and byte code.

    Raises ConfigurationError for links and for anything that is not a plain file.
    """
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if any(part.startswith(".") or part == "__pycache__" for part in name.parts):
            continue
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            raise ConfigurationError(
                f"{path}: is not a plain file", remedy="keep plain files only in the pipeline's folder"
            )
        if path.is_file():
            found[name.as_posix()] = path
    return found


def pack(folder: Path) -> bytes:
    """Pack the folder as a tar without times and owners, in sorted order. Raises ConfigurationError above 16 MiB."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, path in members(folder).items():
            data = path.read_bytes()
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o444
            tar.addfile(info, io.BytesIO(data))
            if buffer.tell() > MAX_BYTES:
                raise ConfigurationError(
                    f"{folder}: larger than {MAX_BYTES >> 20} MiB", remedy="keep data out of the pipeline's folder"
                )
    return buffer.getvalue()


def digests(folder: Path) -> dict[str, str]:
    """Sha256 of each file in the folder, by relative name."""
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in members(folder).items()}


def python_files(folder: Path) -> dict[str, str]:
    """Sha256 of each Python file in the folder, by relative name."""
    return {name: sha256 for name, sha256 in digests(folder).items() if name.endswith(".py")}


def unpack(data: bytes, folder: Path) -> None:
    """Unpack a bundle into an empty folder, read-only. Raises ConfigurationError unless it holds plain files only."""
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
            for info in tar:
                content = tar.extractfile(info) if info.isreg() else None
                if content is None:
                    raise ConfigurationError(f"{info.name!r} in a bundle is not a plain file", remedy="pack it again")
                target = folder / _inside(info.name)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content.read())
                target.chmod(0o444)
    except tarfile.TarError as error:
        raise ConfigurationError(f"a bundle cannot be unpacked: {error}", remedy="pack it again") from error


def _inside(name: str) -> PurePosixPath:
    """A member's name as a path inside the folder. Python 3.11.2 in Debian lacks tarfile's filter for this."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ConfigurationError(f"{name!r} leads out of the bundle", remedy="pack it again")
    return path
