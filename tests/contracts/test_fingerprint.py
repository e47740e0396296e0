"""The same parts give the same fingerprint, other parts another; the difference is readable."""

from hypothesis import given
from hypothesis import strategies as st

from ratchet.contracts.fingerprint import canonical, differences, digest, digest_of, fingerprint, flatten
from ratchet.contracts.training import Train

PARTS = st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=6)


@given(PARTS)
def test_order_does_not_matter(parts: dict[str, str]) -> None:
    assert fingerprint(parts) == fingerprint(dict(reversed(parts.items())))


@given(PARTS, PARTS)
def test_different_parts_have_different_fingerprints_and_say_so(one: dict[str, str], other: dict[str, str]) -> None:
    assert (fingerprint(one) == fingerprint(other)) == (one == other)
    assert (not differences(one, other)) == (one == other)


def test_a_document_becomes_one_part_for_each_leaf() -> None:
    parts = flatten(Train.model_validate({"objective": "binary"}), "config.train")
    assert parts["config.train.epochs"] == "40"
    assert parts["config.train.model.hidden"] == "[256, 128]"
    assert flatten({"a": {}}, "x") == {"x.a": "{}"}


def test_differences_are_readable() -> None:
    before = {"config.train.epochs": "3", "input.features": digest(b"1"), "gone": "x"}
    after = {"config.train.epochs": "1", "input.features": digest(b"2"), "new": "y"}
    assert differences(before, after) == [
        "config.train.epochs: 3 -> 1",
        "gone: x -> (none)",
        f"input.features: {digest(b'1')[:12]} -> {digest(b'2')[:12]}",
        "new: (none) -> y",
    ]


def test_the_canonical_form_is_pinned() -> None:
    assert canonical({"b": [1, 2.5], "a": "ü"}) == '{"a":"ü","b":[1,2.5]}'.encode()
    assert digest_of(Train.model_validate({"objective": "binary"})) == digest_of(
        Train.model_validate({"epochs": 40, "objective": "binary"})
    )
