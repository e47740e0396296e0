"""A day is not published if a value of it depends on the rows beside it."""

from pathlib import Path

import pytest

from ratchet.contracts import summaries
from ratchet.contracts.errors import ConfigurationError
from tests.features.encoding import D1, D2, D3, at, day_rows, encoded
from tests.world import World

OF_ITS_GROUP = "df['cheap'] = df.groupby('query_id')['price'].rank() < 2"


def world(folder: Path, line: str) -> World:
    made = at(folder)
    (made.pipeline / "features.py").write_text(f"def derive(df):\n    {line}\n    return df\n", encoding="utf-8")
    for day in (D1, D2, D3):
        made.put(day, day_rows())
    return made


def arrays(made: World) -> list[str]:
    """The arrays of features in the store."""
    return [entry.key for entry in made.store.list() if "features" in entry.key and entry.key.endswith(".npy")]


@pytest.mark.parametrize(
    "line", ["df['cheap'] = df.price < df.price.mean()", OF_ITS_GROUP, "df['cheap'] = df.index > 3"]
)
def test_a_value_of_the_rows_beside_it_ends_features_before_a_day_is_published(tmp_path: Path, line: str) -> None:
    made = world(tmp_path, line)
    message = r"features\.py:2: derive makes cheap (True|False) .*; allowed: a value of its own row"
    with pytest.raises(ConfigurationError, match=message) as caught:
        encoded(made)
    assert caught.value.code == 64
    assert arrays(made) == []


def test_in_a_ranking_a_value_of_its_group_is_published(tmp_path: Path) -> None:
    made = world(tmp_path, OF_ITS_GROUP)
    made.document["train"] = {"objective": "ranking"}
    assert [day.rows for day in summaries.features(encoded(made).result).days] == [11, 11, 11]
    assert arrays(made) != []
