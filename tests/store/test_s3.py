"""The S3 store: its settings, and its errors when S3 fails."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import (
    BotoCoreError,
    ConnectTimeoutError,
    ProxyConnectionError,
    ReadTimeoutError,
    SSLError,
)
from botocore.loaders import JSONFileLoader
from deltalake import DeltaTable, write_deltalake
from urllib3 import HTTPResponse
from urllib3.exceptions import SSLError as Broken

from ratchet.contracts.errors import ConfigurationError, NoAnswer, Unavailable
from ratchet.store import s3_client
from ratchet.store.opening import open_store
from ratchet.store.s3 import S3Store
from ratchet.store.s3_client import Connection
from tests.ports import hold, number
from tests.s3 import S3Server
from tests.s3_faults import faulty


@pytest.fixture
def faults(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Faults for the next requests, one for each; the AWS settings point to the proxy."""
    with faulty(s3.endpoint) as (endpoint, faults):
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        yield faults


def test_a_create_whose_answer_was_lost_still_counts_as_ours(faults: list[str], s3_uri: str) -> None:
    store = open_store(s3_uri)
    faults.append("lose")
    assert store.create("a", b"ours")
    assert not store.create("a", b"ours")
    entry = store.head("a")
    assert entry is not None
    faults.append("lose")
    assert store.replace("a", b"ours too", expected=entry.etag)


def test_conflicts_and_bursts_of_503_are_retried(faults: list[str], s3_uri: str) -> None:
    store = open_store(s3_uri)
    faults += ["conflict", "conflict", "503"]
    assert store.create("a", b"1")
    assert faults == []


def test_an_answer_that_is_cut_off_is_requested_again(faults: list[str], s3_uri: str, tmp_path: Path) -> None:
    store = open_store(s3_uri)
    store.create("a", b"0123456789" * 1000)
    faults += ["cut", "cut"]
    assert store.read("a") == b"0123456789" * 1000
    faults += ["", "cut"]
    store.download("a", tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"0123456789" * 1000


def test_an_encrypted_connection_that_breaks_in_an_answer_is_asked_again(
    s3_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """botocore passes the error of urllib3 on."""
    store, read, is_broken = open_store(s3_uri), HTTPResponse.read, [True]
    store.create("a", b"0123456789")

    def breaks(answer: HTTPResponse, amt: int | None = None, **given: Any) -> bytes:
        if amt is None and is_broken:
            answer.close()
            raise Broken("bad record mac")
        return read(answer, amt, **given)

    monkeypatch.setattr(HTTPResponse, "read", breaks)
    monkeypatch.setattr(s3_client, "pause", lambda _: None)
    with pytest.raises(NoAnswer, match="does not answer: bad record mac"):
        store.read("a")
    monkeypatch.setattr(s3_client, "pause", lambda _: is_broken.clear())
    assert store.read("a") == b"0123456789"


@pytest.mark.parametrize(
    "error",
    [
        ConnectTimeoutError(endpoint_url="http://away"),
        ReadTimeoutError(endpoint_url="http://away"),
        SSLError(endpoint_url="http://away", error=OSError("bad record mac")),
        ProxyConnectionError(proxy_url="http://away"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_server_that_is_silent_during_a_download_is_no_error_of_the_disk(
    s3_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BotoCoreError
) -> None:
    """These errors of the client are an OSError, too."""

    def fails(*_: object, **__: object) -> None:
        raise error

    store = open_store(s3_uri)
    assert isinstance(store, S3Store)
    monkeypatch.setattr(store._client, "download_file", fails)
    with pytest.raises(NoAnswer, match=r"^bucket .*: does not answer: .*http://away"):
        store.download("a", tmp_path / "a")


def test_a_server_that_never_recovers_is_unavailable(
    faults: list[str], s3_uri: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    store = open_store(s3_uri)
    (tmp_path / "file").write_bytes(b"1")
    for call in (lambda: store.read("a"), lambda: store.create("a", b""), lambda: store.upload(tmp_path / "file", "a")):
        faults[:] = ["503"] * 20
        with pytest.raises(Unavailable, match=f"bucket {s3.bucket} at http://127.0.0.1:.*SlowDown"):
            call()


def test_a_server_that_has_too_much_to_do_is_asked_again_later(
    faults: list[str], s3_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    store = open_store(s3_uri)
    faults[:] = ["429"] * 20
    with pytest.raises(Unavailable, match="answered 429"):
        store.head("a")


def test_credentials_that_have_expired_say_nothing_about_what_was_asked_for(faults: list[str], s3_uri: str) -> None:
    store = open_store(s3_uri)
    store.create("a", b"1")
    faults += ["expired"]
    with pytest.raises(Unavailable, match="ExpiredToken") as raised:
        store.read("a")
    assert raised.value.remedy == "renew the AWS credentials; run again if no retry follows"
    assert store.read("a") == b"1"


@pytest.mark.parametrize(
    ("fault", "remedy"), [("expired", "renew the AWS credentials"), ("skewed", "set the clock of this machine")]
)
def test_expired_credentials_and_a_wrong_clock_are_seen_where_an_answer_has_a_status_alone(
    faults: list[str], s3_uri: str, tmp_path: Path, fault: str, remedy: str
) -> None:
    store = open_store(s3_uri)
    store.create("a", b"1")
    for call in (store.prepare, lambda: store.head("a"), lambda: store.download("a", tmp_path / "a")):
        faults[:] = 20 * [fault]  # HEAD requests are repeated, botocore looks for another region, and we for the reason
        with pytest.raises(Unavailable) as raised:
            call()
        assert raised.value.remedy == f"{remedy}; run again if no retry follows"
        faults.clear()
    assert store.read("a") == b"1"


@pytest.fixture
def nobody() -> Iterator[socket.socket]:
    """A port where nobody listens."""
    with hold() as held:
        yield held


def test_no_server_is_unavailable_and_named(
    s3: S3Server, nobody: socket.socket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    port = number(nobody)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    store = open_store("s3://some-bucket/x")
    (tmp_path / "file").write_bytes(b"1")
    for call in (
        store.prepare,
        lambda: store.read("a"),
        lambda: store.create("a", b""),
        lambda: store.head("a"),
        lambda: list(store.list()),
        lambda: store.delete("a"),
        lambda: store.upload(tmp_path / "file", "a"),
        lambda: store.download("a", tmp_path / "b"),
        lambda: store.sweep(older_than_s=0),
    ):
        with pytest.raises(Unavailable, match=f"bucket some-bucket at http://127.0.0.1:{port}"):
            call()


def test_a_server_that_stalls_is_given_up(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_client, "READ_TIMEOUT_S", 0.2)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(Unavailable, match="does not answer"):
            open_store("s3://some-bucket").create("a", b"1")


def test_a_missing_bucket_is_a_configuration_error(s3: S3Server, tmp_path: Path) -> None:
    store = open_store("s3://no-such-bucket/x")
    (tmp_path / "file").write_bytes(b"1")
    for call in (
        store.prepare,
        lambda: store.read("a"),
        lambda: store.create("a", b""),
        lambda: list(store.list()),
        lambda: store.upload(tmp_path / "file", "a"),
    ):
        with pytest.raises(ConfigurationError, match=r"bucket no-such-bucket at .*the bucket does not exist"):
            call()


def test_missing_credentials_may_come_later(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    store = open_store(f"s3://{s3.bucket}")
    with pytest.raises(Unavailable, match="no credentials"):
        store.read("a")
    with pytest.raises(Unavailable, match="no credentials"):
        store.table("t")


def test_invalid_settings_are_a_configuration_error(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(ConfigurationError, match="nobody"):
        open_store(f"s3://{s3.bucket}")
    monkeypatch.delenv("AWS_PROFILE")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "not a url")
    with pytest.raises(ConfigurationError, match="not a url"):
        open_store(f"s3://{s3.bucket}")


def test_credentials_may_come_as_a_file(
    s3: S3Server, s3_uri: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    secret = tmp_path / "credentials"
    secret.write_text(
        "[default]\naws_access_key_id = filed\naws_secret_access_key = hidden\naws_session_token = token\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(secret))
    store = open_store(s3_uri)
    assert store.create("a", b"1")
    _, options = store.table("t")
    assert (options["AWS_ACCESS_KEY_ID"], options["AWS_SESSION_TOKEN"]) == ("filed", "token")


def test_real_s3_gets_its_region_and_no_endpoint(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    connection = Connection("bucket")
    assert connection.endpoint == "https://s3.eu-central-1.amazonaws.com"
    options = connection.delta_options()
    assert options["AWS_REGION"] == "eu-central-1"
    assert "AWS_ENDPOINT_URL" not in options
    assert "AWS_ALLOW_HTTP" not in options


def test_delta_tables_live_beside_the_files(s3_uri: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    store = open_store(s3_uri)
    uri, options = store.table("tables/t")
    write_deltalake(uri, pyarrow.table({"x": [1, 2, 3]}), storage_options=options)
    assert DeltaTable(uri, storage_options=options).version() == 0
    assert any(entry.key.startswith("tables/t/_delta_log/") for entry in store.list("tables/t"))


def test_lists_of_many_pages_are_whole(s3_uri: str) -> None:
    store = S3Store(*s3_uri.removeprefix("s3://").split("/"))
    wanted = [f"many/{number:02d}" for number in range(30)]
    for key in wanted:
        store.create(key, b"")
    pages: list[str] = []

    def small_pages(params: dict[str, object], **_: object) -> None:
        params["MaxKeys"] = 7
        pages.append(str(params.get("ContinuationToken")))

    store._client.meta.events.register("before-parameter-build.s3.ListObjectsV2", small_pages)
    assert [entry.key for entry in store.list("many")] == wanted
    assert len(pages) == 5


def test_folder_marks_of_a_console_are_not_files(s3: S3Server, s3_uri: str) -> None:
    prefix = s3_uri.removeprefix(f"s3://{s3.bucket}/")
    client = boto3.client("s3")
    client.put_object(Bucket=s3.bucket, Key=f"{prefix}/folder/", Body=b"")
    client.put_object(Bucket=s3.bucket, Key=f"{prefix}x/file", Body=b"of another store")
    assert list(open_store(s3_uri).list()) == []


def test_uploads_that_nobody_finished_are_swept_when_they_are_old(s3: S3Server, s3_uri: str) -> None:
    prefix = s3_uri.removeprefix(f"s3://{s3.bucket}/")
    client = boto3.client("s3")
    client.create_multipart_upload(Bucket=s3.bucket, Key=f"{prefix}/half")
    store = open_store(s3_uri)
    assert store.sweep("other", older_than_s=0) == 0
    assert store.sweep(older_than_s=1e9) == 0
    assert store.sweep(older_than_s=0) == 1
    assert store.sweep(older_than_s=0) == 0


def test_what_is_known_of_the_service_is_read_once(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    Connection(s3.bucket)
    read, load = list[str](), JSONFileLoader.load_file

    def seen(self: JSONFileLoader, path: str) -> object:
        read.append(path)
        return load(self, path)

    monkeypatch.setattr(JSONFileLoader, "load_file", seen)
    places = len(s3_client._models.search_paths)
    Connection(s3.bucket)
    assert [path for path in read if "/s3/" in path] == []
    assert len(s3_client._models.search_paths) == places
