"""What a module of model.py may ask for."""

import pytest

from ratchet.contracts.own_module import CONSTRUCTOR, FORWARD, OF_GROUPS, by_name, refusal


@pytest.mark.parametrize(
    ("required", "named"),
    [(["inputs"], True), (["classes", "numeric"], True), (["width"], False), (["inputs", "width"], False), ([], False)],
)
def test_names_that_exist_are_given_by_name(required: list[str], named: bool) -> None:
    assert by_name(required, CONSTRUCTOR) == named


def test_what_cannot_be_given_is_named() -> None:
    assert refusal(["inputs", "width", "depth"], CONSTRUCTOR) == (
        "asks for width, depth",
        "take width out, or give it a default",
    )
    assert refusal([], FORWARD) == ("asks for nothing", "ask for x")


def test_groups_are_a_part_of_what_forward_may_ask_for() -> None:
    assert set(FORWARD) > OF_GROUPS
