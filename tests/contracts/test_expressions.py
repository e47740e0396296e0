from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.contracts.expressions import All, Among, Any, Compare, ExpressionError, Missing, Not, columns_of, parse


def test_and_binds_closer_than_or_and_not_closer_than_both() -> None:
    a, b, c = (Compare(name, "==", value=True) for name in "abc")
    assert parse("a or not b and c") == Any((a, All((Not(b), c))))
    assert parse("(a or b) and c") == All((Any((a, b)), c))


def test_each_comparison_is_read() -> None:
    assert parse("x >= -1.5e3") == Compare("x", ">=", -1500.0)
    assert parse("x in [1, 'two', true]") == Among("x", (1.0, "two", True))
    assert parse('x not in ["a"]') == Not(Among("x", ("a",)))
    assert parse("x is missing and y is not missing") == All((Missing("x"), Not(Missing("y"))))
    assert columns_of(parse("x > 1 or not (y == 2 and x < 3)")) == {"x", "y"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected a column instead of the end"),
        ("price >", 'expected a number, "text", true or false instead of the end'),
        ("price = 3", "'= 3' at character 7 is not understood"),
        ("price > 3 hour < 2", "expected and, or, or the end instead of 'hour' at character 11"),
        ("(price > 3", "expected `)` instead of the end"),
        ("price in 3", "expected `[` instead of '3' at character 10"),
        ("price in [3 4]", "expected `,` or `]` instead of '4'"),
        ("price is 3", "expected `missing` instead of '3'"),
        ("not", "expected a column instead of the end"),
        ("and > 3", "expected a column instead of 'and' at character 1"),
        ("price not 3", "expected `in` instead of '3'"),
        ("x == 3x", "'3x' at character 6 is not understood"),
        ("__import__('os')", "expected and, or, or the end instead of '(' at character 11"),
        ("x" * 501, "is 501 characters long"),
        ("(" * 60 + "x" + ")" * 60, "is nested deeper than 50 levels"),
        ("not " * 60 + "x", "is nested deeper than 50 levels"),
    ],
)
def test_what_is_no_expression_is_refused_by_its_place(text: str, said: str) -> None:
    with pytest.raises(ExpressionError) as raised:
        parse(text)
    assert said in str(raised.value)


@given(st.text(max_size=60) | st.text(alphabet="ab ()[],<>=!'\"13.-andortifmsg", max_size=60))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    with suppress(ExpressionError):
        assert parse(text) == parse(f" ({text}) ")
