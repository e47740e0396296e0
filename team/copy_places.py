"""Where copies of backups are kept: a folder, such as a mounted disk, or a prefix of a bucket."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from ratchet.contracts.errors import ConfigurationError
from team.bucket_files import get, listed, one_line
from team.durable import rename
from team.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

_BLOCK = 1 << 20
_PART, _PARTS = 8 << 20, 9000
"""S3 takes an object in at most 10,000 parts."""


class CopyPlace(Protocol):
    """A place of files by name, with `/` inside. Each call raises one of our errors, in one line."""

    address: str

    def names(self) -> list[str]:
        """The files that are there."""
        ...

    def put(self, name: str, source: IO[bytes], size: int) -> None:
        """Write a file. size: about how long it is. A file that is half written has no name."""
        ...

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """Read a file."""
        ...

    def delete(self, name: str) -> None:
        """Delete a file."""
        ...


class Folder:
    """A folder. Its parent has to be there: a disk that is not mounted is no place for copies."""

    def __init__(self, root: Path) -> None:
        self.address, self._root = str(root), root

    def names(self) -> list[str]:
        """See CopyPlace."""
        if not self._root.parent.is_dir():
            raise ConfigurationError(f"{self._root.parent} is not there", remedy="mount the disk, or create the folder")
        with one_line(self.address):
            found = (path for path in self._root.rglob("*") if path.is_file())
            return sorted(path.relative_to(self._root).as_posix() for path in found)

    def put(self, name: str, source: IO[bytes], size: int) -> None:  # noqa: ARG002 - a bucket needs it
        """See CopyPlace."""
        path = self._root / name
        unfinished = path.with_name(f".{path.name}")
        with one_line(str(path)):
            self._root.mkdir(exist_ok=True, mode=0o700)
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with unfinished.open("wb") as out:
                while block := source.read(_BLOCK):
                    out.write(block)
                out.flush()
                os.fsync(out.fileno())
            rename(unfinished, path)

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """See CopyPlace."""
        with one_line(f"{self.address}/{name}"), (self._root / name).open("rb") as file:
            yield file

    def delete(self, name: str) -> None:
        """See CopyPlace."""
        path = self._root / name
        with one_line(str(path)):
            path.unlink()
            for folder in path.relative_to(self._root).parents:
                if folder.name and not any((self._root / folder).iterdir()):
                    (self._root / folder).rmdir()


class Bucket:
    """A prefix of a bucket of S3."""

    def __init__(self, client: "S3Client", bucket: str, prefix: str) -> None:
        self.address = f"s3://{bucket}/{prefix}"
        self._client, self._bucket, self._prefix = client, bucket, prefix

    def names(self) -> list[str]:
        """See CopyPlace."""
        with one_line(self.address):
            found = listed(self._client, self._bucket, f"{self._prefix}/")
            return sorted(each.key.removeprefix(f"{self._prefix}/") for each in found)

    def put(self, name: str, source: IO[bytes], size: int) -> None:
        """See CopyPlace."""
        from boto3.s3.transfer import TransferConfig

        parts = TransferConfig(multipart_chunksize=max(_PART, size // _PARTS), max_concurrency=2)
        with one_line(f"{self.address}/{name}"):
            self._client.upload_fileobj(source, self._bucket, f"{self._prefix}/{name}", Config=parts)

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """See CopyPlace."""
        with one_line(f"{self.address}/{name}"):
            found = get(self._client, self._bucket, f"{self._prefix}/{name}")
            if found is None:
                raise FileNotFoundError(0, "is not there", f"{self.address}/{name}")
            yield found.body

    def delete(self, name: str) -> None:
        """See CopyPlace."""
        with one_line(f"{self.address}/{name}"):
            self._client.delete_object(Bucket=self._bucket, Key=f"{self._prefix}/{name}")


def copy_place(address: str, settings: Settings) -> CopyPlace:
    """The place at an address: s3://bucket/prefix, or a folder."""
    if not address.startswith("s3://"):
        return Folder(Path(address).expanduser())
    parts = urlsplit(address)
    return Bucket(_client(settings), parts.netloc, parts.path.strip("/"))


def is_on_disk_of(address: str, folder: Path) -> bool:
    """Whether a place is a folder on the disk of another one, and so is lost with it: a mount may be missing."""
    return not address.startswith("s3://") and Path(address).expanduser().stat().st_dev == folder.stat().st_dev


def refuse_inside(address: str, home: Path) -> None:
    """Raises ConfigurationError for a place in the folder of the stacks and their backups."""
    if not address.startswith("s3://") and Path(address).expanduser().resolve().is_relative_to(home.resolve()):
        raise ConfigurationError(
            f"RATCHET_BACKUPS_TO: {address} lies in {home}, where the backups are", remedy="name another place"
        )


def _client(settings: Settings) -> "S3Client":
    import botocore.session
    from boto3.session import Session
    from botocore.config import Config

    core = botocore.session.Session()
    file = settings.backups_credentials
    if file is not None:
        if not file.expanduser().is_file():
            raise ConfigurationError(
                f"RATCHET_BACKUPS_CREDENTIALS: {file} is not there", remedy="name a file that you may read"
            )
        core.set_config_variable("credentials_file", str(file.expanduser()))
        core.set_config_variable("profile", "default")
    own = settings.backups_endpoint is not None
    with one_line(f"RATCHET_BACKUPS_CREDENTIALS: {file}"):
        client: S3Client = Session(botocore_session=core).client(
            "s3",
            endpoint_url=settings.backups_endpoint,
            region_name=settings.s3_region,
            config=Config(s3={"addressing_style": "path"} if own else None),
        )
    return client
