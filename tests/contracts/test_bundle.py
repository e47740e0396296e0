"""A pipeline's folder packs to the same bytes, and unpacks to the same files."""

import contextlib
import io
import os
import tarfile
from pathlib import Path

import pytest

from ratchet.contracts import bundle
from ratchet.contracts.errors import ConfigurationError


def folder_with(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def test_the_same_files_pack_to_the_same_bytes_whenever_and_wherever(tmp_path: Path) -> None:
    files = {"pipeline.yaml": "name: x", "features.py": "1", "lib/more.py": "2"}
    one = folder_with(tmp_path / "one", files)
    other = folder_with(tmp_path / "other", dict(reversed(files.items())))
    os.utime(other / "features.py", (1, 1))
    folder_with(other, {"__pycache__/x.pyc": "", ".git/config": ""})
    assert bundle.pack(one) == bundle.pack(other)


def test_a_packed_folder_unpacks_to_the_same_files_read_only(tmp_path: Path) -> None:
    packed = bundle.pack(folder_with(tmp_path / "in", {"lib/more.py": "2"}))
    bundle.unpack(packed, tmp_path / "out")
    back = tmp_path / "out" / "lib" / "more.py"
    assert back.read_text(encoding="utf-8") == "2"
    assert back.stat().st_mode & 0o222 == 0


def test_python_files_have_different_digests(tmp_path: Path) -> None:
    folder_with(tmp_path, {"pipeline.yaml": "x", "model.py": "y"})
    assert list(bundle.python_files(tmp_path)) == ["model.py"]


def test_links_are_refused(tmp_path: Path) -> None:
    (tmp_path / "secret.py").symlink_to("/etc/passwd")
    with pytest.raises(ConfigurationError, match="is not a plain file"):
        bundle.pack(tmp_path)


def test_a_folder_with_data_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(b"0" * (bundle.MAX_BYTES + 1))
    with pytest.raises(ConfigurationError, match="larger than 16 MiB"):
        bundle.pack(tmp_path)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_a_crafted_bundle_is_refused(tmp_path: Path, kind: bytes) -> None:
    crafted = _tar("evil", kind)
    with pytest.raises(ConfigurationError, match="not a plain file"):
        bundle.unpack(crafted, tmp_path)


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil"])
def test_a_bundle_cannot_write_outside_of_its_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "in").mkdir()
    with contextlib.suppress(ConfigurationError):
        bundle.unpack(_tar(name, tarfile.REGTYPE), tmp_path / "in")
    inside = tmp_path / "in"
    assert all(inside in path.parents for path in tmp_path.rglob("*") if path.is_file())
    assert not os.path.lexists("/etc/evil")


def test_bytes_that_are_not_a_bundle_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be unpacked"):
        bundle.unpack(b"x" * 1000, tmp_path)


def _tar(name: str, kind: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        info = tarfile.TarInfo(name)
        info.type = kind
        info.linkname = "/etc/passwd"
        tar.addfile(info)
    return buffer.getvalue()
