"""A store whose keys expire again and again, in a file that somebody replaces."""

import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from ratchet.contracts.errors import ConfigurationError, Unavailable
from ratchet.store import renewed_keys
from ratchet.store.opening import open_store
from ratchet.store.renewed_keys import RenewedKeys
from ratchet.store.s3_client import Connection
from tests.s3 import S3Server
from tests.s3_proxy import Refusal, s3_proxy
from tests.s3_tokens import Tokens, s3_with_tokens


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return tmp_path / "keys"


@pytest.fixture
def tokens(s3: S3Server, keys: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tokens]:
    with s3_with_tokens(s3.endpoint, keys) as made:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(keys))
        monkeypatch.setenv("AWS_ENDPOINT_URL", made.endpoint)
        yield made


def test_a_store_that_was_opened_once_signs_with_the_keys_of_now(
    s3: S3Server, tokens: Tokens, keys: Path, tmp_path: Path
) -> None:
    store = open_store(f"s3://{s3.bucket}/{uuid.uuid4().hex}")
    for number in range(3):
        assert store.create(str(number), b"1")
        tokens.renew()
    (tmp_path / "large").write_bytes(bytes(17 << 20))  # in parts, in parallel
    store.upload(tmp_path / "large", "large")
    new = tokens.renew()
    assert store.read("2") == b"1"
    assert store.table("t")[1]["AWS_SESSION_TOKEN"] == new
    assert tokens.refused == 0
    whole = keys.read_text()
    for broken in (None, "", "[default]\n"):  # while it is replaced
        keys.unlink() if broken is None else keys.write_text(broken)
        assert store.read("2") == b"1"
    keys.write_text(whole)
    assert store.read("2") == b"1"


def test_keys_that_nobody_renews_expire_and_are_69(s3: S3Server, tokens: Tokens, keys: Path) -> None:
    store = open_store(f"s3://{s3.bucket}/{uuid.uuid4().hex}")
    store.create("a", b"1")
    old = keys.read_text()
    tokens.renew()
    keys.write_text(old)
    for call in (lambda: store.read("a"), lambda: store.head("a"), lambda: store.create("b", b"1")):
        with pytest.raises(Unavailable, match="ExpiredToken"):
            call()
    tokens.renew()
    assert store.read("a") == b"1"


OLD = "[default]\naws_access_key_id = A\naws_secret_access_key = old-secret\naws_session_token = old\n"
NEW = OLD.replace("A\n", "B\n").replace("old", "new")


@pytest.mark.parametrize("name", ["aws_session_token", "aws_security_token"])
def test_the_token_has_either_of_its_names(keys: Path, name: str) -> None:
    keys.write_text(OLD.replace("aws_session_token", name))
    assert RenewedKeys(keys, "default").get_frozen_credentials()[:3] == ("A", "old-secret", "old")


def test_a_file_that_is_being_written_in_place_is_not_taken(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys.write_text(OLD)
    found = RenewedKeys(keys, "default")
    end = NEW.index("secret\n")
    keys.write_text(NEW[:end])
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(renewed_keys, "sleep", lambda _: keys.write_text(NEW[: end + 3]))
        assert found.get_frozen_credentials()[:3] == ("A", "old-secret", "old")
    keys.write_text(NEW)
    assert found.get_frozen_credentials()[:3] == ("B", "new-secret", "new")


@pytest.mark.parametrize("code", ["SignatureDoesNotMatch", "InvalidAccessKeyId"])
def test_new_keys_that_are_refused_may_be_half_a_file(
    s3: S3Server, tokens: Tokens, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    connection = Connection(s3.bucket)
    refused = ClientError({"Error": {"Code": code, "Message": ""}, "ResponseMetadata": {"HTTPStatusCode": 403}}, "Get")
    assert isinstance(connection.explain(refused), ConfigurationError)
    tokens.renew()
    connection.client.list_buckets()
    assert isinstance(connection.explain(refused), Unavailable)
    monkeypatch.setattr(renewed_keys, "FRESH_S", 0.0)
    assert isinstance(connection.explain(refused), ConfigurationError)


@pytest.mark.parametrize("status", [400, 403])
def test_keys_of_a_role_that_were_renewed_between_two_requests_make_no_refusal_final(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """S3 says of a HEAD no more than that it is refused; a list after it has the new keys, and is answered."""
    refused = list[str]()

    def refuse(method: str, path: str, *_: object) -> Refusal | None:
        if method != "HEAD" or refused:
            return None
        refused.append(path)
        return status, b""

    with s3_proxy(s3.endpoint, refuse=refuse) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        store = open_store(f"s3://{s3.bucket}/{uuid.uuid4().hex}")
        assert store.create("a", b"1")
        last = partial(store.delete, "a")
        for call in (store.prepare, partial(store.head, "a"), partial(store.download, "a", tmp_path / "a"), last):
            refused.clear()
            call()
            assert len(refused) == 1


def test_keys_that_were_renewed_after_a_refusal_with_a_status_alone_are_tried_again(
    s3: S3Server, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to a HEAD request does not say whether the keys have expired or may not read it."""
    renews = False

    def refuse(method: str, *_: object) -> Refusal | None:
        if method == "HEAD" and renews:
            tokens.renew()
        return (403, b"") if method == "HEAD" else None

    with s3_proxy(tokens.endpoint, refuse=refuse) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        store = open_store(f"s3://{s3.bucket}/{uuid.uuid4().hex}")
        with pytest.raises(ConfigurationError, match="refused with 403"):
            store.head("a")
        renews = True
        with pytest.raises(Unavailable, match="answered 403") as raised:
            store.head("a")
        assert raised.value.remedy.startswith("renew the AWS credentials")
        renews = False
        monkeypatch.setattr(renewed_keys, "FRESH_S", 0.0)
        with pytest.raises(ConfigurationError, match="refused with 403"):
            store.head("a")
