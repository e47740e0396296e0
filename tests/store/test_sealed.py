"""A reader of a sealed document detects every change."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import JsonValue

from ratchet.contracts.document import Document
from ratchet.contracts.errors import CorruptArtifact, OtherRelease
from ratchet.contracts.fingerprint import digest_of
from ratchet.contracts.result import Artifact
from ratchet.store.sealed import seal, unseal

documents = st.builds(
    Artifact,
    key=st.text(st.characters(codec="utf-8"), max_size=20),
    sha256=st.just("ab" * 32),
    bytes=st.integers(0, 10**12),
    rows=st.none() | st.integers(0, 10**12),
)


def opened(data: bytes) -> Artifact:
    return unseal(data, Artifact, where="the/file", remedy="mend it")


@given(documents)
def test_a_sealed_document_is_read_back(document: Artifact) -> None:
    assert opened(seal(document)) == document


class Anything(Document):
    """A document with any JSON."""

    value: JsonValue


numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(st.characters(codec="utf-8")),
    lambda below: st.lists(below) | st.dictionaries(st.text(st.characters(codec="utf-8")), below),
)


@given(values)
@example([1e-05, 1e16, -1.5e-7, {"a": 5e300}, [1e22], " 1e5"])
@example([0.00015, 1.5e-05, -0.00009999, [0.0001]])
@example({'a": 1e5': '": 1e-5', "a\\": 1.5e-05, 'a\\"': 2e-07, "b": ["  1e-5", "0.00001"], "1e-5": {"\\": 1e-05}})
def test_the_bytes_are_those_of_every_release(value: Any) -> None:
    plain = {"value": value}
    sealed = {"sha256": digest_of(plain), "document": plain}
    assert seal(Anything(value=value)) == json.dumps(sealed, indent=1, ensure_ascii=False, allow_nan=False).encode()


@given(documents, st.data())
def test_every_flipped_bit_is_noticed(document: Artifact, data: st.DataObject) -> None:
    sealed = bytearray(seal(document))
    place = data.draw(st.integers(0, len(sealed) - 1))
    sealed[place] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(CorruptArtifact, match=r"the/file is damaged.*mend it"):
        opened(bytes(sealed))


@given(documents, st.data())
def test_every_cut_is_noticed(document: Artifact, data: st.DataObject) -> None:
    sealed = seal(document)
    with pytest.raises(CorruptArtifact, match="the/file is damaged"):
        opened(sealed[: data.draw(st.integers(0, len(sealed) - 1))])


@given(st.binary(max_size=200))
def test_bytes_that_are_not_sealed_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptArtifact):
        opened(data)


@pytest.mark.parametrize("data", [b"null", b"[]", b'{"document": 1}', b"1e999", b"[" * 100_000])
def test_other_json_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptArtifact):
        opened(data)


def test_a_document_of_another_release_is_read_without_its_new_keys_or_named_as_such() -> None:
    class Newer(Artifact):
        colour: str

    newer = Newer(key="a", sha256="0" * 64, bytes=1, colour="red")
    assert opened(seal(newer)) == Artifact(key="a", sha256="0" * 64, bytes=1)
    with pytest.raises(OtherRelease, match=r"cannot be read by Ratchet .*: key: .*another release wrote it"):
        opened(seal(Anything(value=1)))
