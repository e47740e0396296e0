"""Names in braces mean several columns, each as if it had been written by itself."""

import pytest

from ratchet.contracts.column_names import MAX_COLUMNS
from ratchet.contracts.errors import PipelineInvalid
from ratchet.contracts.loading import loads

TEXT = """\
name: many
source: {kind: files, uri: "/data/{date}.parquet"}
columns:
  y: {role: label, type: int64}
  KEY: {role: numeric, type: float64}
  x_1: {role: id, type: string}
  last: {role: numeric, type: float64}
train: {objective: binary}
"""


def names(key: str) -> list[str]:
    """What stands between the label and the columns after it."""
    found = list(loads(TEXT.replace("KEY", key)).columns)
    assert found[0] == "y"
    assert found[-1] == "last"
    return found[1:-1]


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ('"a_{0..3}"', ["a_0", "a_1", "a_2", "a_3", "x_1"]),
        ('"a_{8..11}_b"', ["a_8_b", "a_9_b", "a_10_b", "a_11_b", "x_1"]),
        ('"a_{08..11}"', ["a_08", "a_09", "a_10", "a_11", "x_1"]),
        ('"{views,clicks}_{7d, 30d}"', ["views_7d", "views_30d", "clicks_7d", "clicks_30d", "x_1"]),
        ('"x_{0..2}"', ["x_0", "x_2", "x_1"]),
        ('"spent{,_7d}"', ["spent", "spent_7d", "x_1"]),
        ('"a_{5..5}"', ["a_5", "x_1"]),
    ],
)
def test_a_range_or_words_are_columns_in_their_order(key: str, meant: list[str]) -> None:
    assert names(key) == meant


def test_each_is_as_if_it_had_been_written_by_itself() -> None:
    spec = loads(TEXT.replace("KEY", '"x_{0..2}"'))
    content = "{role: numeric, type: float64}"
    assert spec == loads(TEXT.replace("  KEY", f"  x_0: {content}\n  x_2"))
    assert spec.columns["x_1"].role == "id", "its own key counts"
    changed = loads(TEXT.replace("KEY", '"x_{0..2}"'), overrides={"columns.x_2.max_null": "5%"})
    assert (changed.columns["x_0"].max_null, changed.columns["x_2"].max_null) == (spec.columns["x_2"].max_null, 0.05)


def refused(key: str, content: str = "{role: numeric, type: float64}") -> list[str]:
    with pytest.raises(PipelineInvalid) as raised:
        loads(TEXT.replace("KEY: {role: numeric, type: float64}", f"{key}: {content}"), "p.yaml")
    return str(raised.value).splitlines()


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ('"a_{3..0}"', "p.yaml:5: columns.a_{3..0}: the braces of this name are not understood; allowed: a range"),
        ('"a_{0..3"', "p.yaml:5: columns.a_{0..3: the braces"),
        ('"a_{}"', "p.yaml:5: columns.a_{}: the braces"),
        ('"a_{one}"', "p.yaml:5: columns.a_{one}: the braces"),
        ('"a_{b,b}"', "p.yaml:5: columns.a_{b,b}: the braces"),
        ('"a_{0..99}_{0..99}"', f"means 10,000 columns; allowed: at most {MAX_COLUMNS:,} columns in a pipeline"),
        ('"{a,b}"', "p.yaml:5: columns.a.role: 'numerical' is not allowed"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(key: str, said: str) -> None:
    content = "{role: numerical, type: float64}" if key == '"{a,b}"' else "{role: numeric, type: float64}"
    assert any(said in line for line in refused(key, content)), refused(key, content)


def test_a_column_is_in_one_range() -> None:
    lines = refused('"a_{0..3}": {role: numeric, type: float64}\n  "a_{3..4}"')
    assert lines == ["p.yaml:6: columns.a_{3..4}: a_3 is in a_{0..3} too; allowed: each column once"]
