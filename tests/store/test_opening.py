"""Opening the store of a URI."""

import subprocess
import sys
from pathlib import Path

import pytest

from ratchet.contracts.errors import ConfigurationError
from ratchet.store.file import FileStore
from ratchet.store.memory import MemoryStore
from ratchet.store.opening import open_store


def test_a_path_and_its_uri_name_the_same_folder(tmp_path: Path) -> None:
    folder = tmp_path / "a store"
    for uri in (str(folder), folder.as_uri(), f"{folder.as_uri()}/", f"file://localhost{folder}"):
        store = open_store(uri)
        assert isinstance(store, FileStore)
        assert store.root == folder


def test_a_relative_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_store("store").uri == (tmp_path / "store").as_uri()


def test_memory_stores_are_distinguished_by_name() -> None:
    assert isinstance(open_store("mem://one"), MemoryStore)
    open_store("mem://one").create("a", b"1")
    assert open_store("mem://two").head("a") is None


@pytest.mark.parametrize(
    ("uri", "clean"),
    [("s3://bucket", "s3://bucket"), ("s3://bucket/", "s3://bucket"), ("s3://bucket/a/b/", "s3://bucket/a/b")],
)
def test_buckets_have_a_prefix_or_none(uri: str, clean: str) -> None:
    assert open_store(uri).uri == clean


@pytest.mark.parametrize(
    "uri",
    [
        *("", "s3://", "s3://B_ad/x", "s3://bucket/../x", "s3://bucket//x", "gs://bucket", "mem://"),
        *("http://host/x", "file://host/x", "file:///a?b", "file:///a%00b", "a\0b"),
    ],
)
def test_a_uri_of_no_store_is_refused(uri: str) -> None:
    with pytest.raises(ConfigurationError, match=r"is not the URI of a store|store key"):
        open_store(uri)


def test_credentials_in_a_uri_are_not_repeated() -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_store("https://someone:hunter2@host/store")
    assert "hunter2" not in str(caught.value)


def test_only_s3_stores_need_boto3(tmp_path: Path) -> None:
    program = (
        "import sys; from ratchet.store.opening import open_store; import ratchet.store.ledger\n"
        f"open_store('mem://a'); open_store({str(tmp_path)!r})\n"
        "heavy = {'boto3', 'botocore', 'torch', 'pandas', 'numpy', 'pyarrow', 'deltalake'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
