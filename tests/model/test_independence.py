"""A derive whose values depend on more than their row, or group in a ranking, is refused with its line."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ratchet.contracts.errors import ConfigurationError
from ratchet.model.derivation import OwnDerive, load_derive
from ratchet.model.independence import SAMPLE_ROWS, Reads, refuse_dependence

ROWS = 2000


def day(rows: int = ROWS) -> pd.DataFrame:
    draw = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "query": draw.permutation(rows) // 5,
            "price": draw.lognormal(3, 1, rows),
            "shop": draw.choice(["a", "b", "c"], rows),
            "at": pd.Timestamp("2026-11-20") + pd.to_timedelta(draw.integers(0, 86400, rows), unit="s"),
        }
    )


def judged(folder: Path, line: str, df: pd.DataFrame, *, group: str | None = None, head: str = "") -> None:
    code = f"import numpy as np\nimport pandas as pd\n{head}\n\n\ndef derive(df):\n    {line}\n    return df\n"
    (folder / "features.py").write_text(code, encoding="utf-8")
    derive = load_derive(folder, {"made": "float64"})
    assert isinstance(derive, OwnDerive)
    reads = Reads(numeric=("price", "made"), categorical={"shop": "string"}, group=group)
    refuse_dependence(derive, df, derive(df), reads)


OF_ITS_ROW = {
    "arithmetic": "df['made'] = np.log1p(df.price) / 3 - 0.1",
    "near zero": "df['made'] = np.sin(2 * np.pi * df['at'].dt.hour / 24)",
    "missing": "df['made'] = df.price.where(df.price > 20)",
    "all missing": "df['made'] = np.nan",
    "infinite": "df['made'] = np.where(df.price > 20, np.inf, -np.inf)",
    "text": "df['shop'] = df['shop'].str.upper(); df['made'] = df['shop'].str.len()",
    "apply": "df['made'] = df.apply(lambda row: row['price'] * 2, axis=1)",
    "float32": "df['made'] = df.price.astype('float32') ** 1.7",
}


@pytest.mark.parametrize("line", OF_ITS_ROW.values(), ids=OF_ITS_ROW)
@pytest.mark.parametrize("group", [None, "query"])
def test_a_value_of_its_row_is_fine(tmp_path: Path, line: str, group: str | None) -> None:
    judged(tmp_path, line, day(), group=group)


OF_THE_ROWS_BESIDE_IT: dict[str, tuple[str, str]] = {
    "mean": ("df['made'] = df.price - df.price.mean()", "256 of the 2,000 rows alone"),
    "rank": ("df['made'] = df.price.rank(pct=True)", "256 of the 2,000 rows alone"),
    "shift": ("df['made'] = df.price.shift()", "256 of the 2,000 rows alone"),
    "another column": ("df['made'] = 1.0; df['price'] = df.price / df.price.max()", "256 of the 2,000 rows alone"),
    "category": ("df['made'] = 1.0; df['shop'] = df['shop'].mode()[0]", "the row alone"),
    "rare group": ("df['made'] = df.groupby('query').cumcount()", "256 of the 2,000 rows alone"),
    "length": ("df['made'] = len(df)", "256 of the 2,000 rows alone"),
    "first of a call": ("df['made'] = (np.arange(len(df)) == 0) * 1.0", "256 of the 2,000 rows alone"),
    "index": ("df['made'] = df.index % 7", "the same rows with another index"),
    "index of a new series": ("df['made'] = pd.Series(list(df.price))", "256 of the 2,000 rows alone"),
    "chance": ("df['made'] = np.random.rand(len(df))", "256 of the 2,000 rows alone"),
    "state": ("seen.append(1); df['made'] = len(seen)", "256 of the 2,000 rows alone"),
}


@pytest.mark.parametrize(("line", "how"), OF_THE_ROWS_BESIDE_IT.values(), ids=OF_THE_ROWS_BESIDE_IT)
def test_a_value_of_the_rows_beside_it_is_refused_with_its_line(tmp_path: Path, line: str, how: str) -> None:
    column = "price" if "df['price'] =" in line else "shop" if "df['shop'] =" in line else "made"
    message = rf"features\.py:7: derive makes {column} \S+ for a row among the others, and \S+ if it gets "
    with pytest.raises(ConfigurationError, match=message) as caught:
        judged(tmp_path, line, day(), head="seen = []")
    assert caught.value.code == 64
    assert caught.value.cause.endswith(f" if it gets {how}; allowed: a value of its own row")


@pytest.mark.parametrize("rows", [2, 3, 40, SAMPLE_ROWS, SAMPLE_ROWS + 1])
@pytest.mark.parametrize(
    "line", ["df['made'] = df.price.mean()", "df['made'] = df.price.diff()", "df['made'] = df.index + 0.0"]
)
def test_dependence_is_found_in_days_of_all_sizes(tmp_path: Path, line: str, rows: int) -> None:
    with pytest.raises(ConfigurationError, match=r"features\.py:7: derive makes made"):
        judged(tmp_path, line, day(rows))


def test_a_dependence_of_a_few_rows_of_a_large_day_is_found_by_the_whole_day(tmp_path: Path) -> None:
    """Rows of one shop in 50,000 rarely meet in a sample of 256; the whole day has them together."""
    df = day(50_000)
    with pytest.raises(ConfigurationError, match=r"features\.py:7: derive makes made"):
        judged(tmp_path, "df['made'] = df.groupby('query')['price'].transform('mean')", df)


OF_ITS_GROUP = {
    "rank": "df['made'] = df.groupby('query')['price'].rank()",
    "mean": "df['made'] = df.price - df.groupby('query')['price'].transform('mean')",
    "size": "df['made'] = df.groupby('query')['price'].transform('size')",
}


@pytest.mark.parametrize("line", OF_ITS_GROUP.values(), ids=OF_ITS_GROUP)
def test_a_value_of_its_group_is_allowed_in_a_ranking_and_nowhere_else(tmp_path: Path, line: str) -> None:
    judged(tmp_path, line, day(), group="query")
    with pytest.raises(ConfigurationError, match="allowed: a value of its own row"):
        judged(tmp_path, line, day())


@pytest.mark.parametrize(
    "line",
    [
        "df['made'] = df.groupby('query').cumcount()",
        "df['made'] = df.groupby('query')['price'].shift()",
        "df['made'] = df.groupby('shop')['price'].transform('mean')",
        "df['made'] = df.groupby('query').ngroup()",
        "df['made'] = df.price.mean()",
    ],
)
def test_in_a_ranking_a_value_of_other_groups_or_of_the_order_is_refused(tmp_path: Path, line: str) -> None:
    allowed = r"features\.py:7: .* allowed: a value of the rows of its query, in any order"
    with pytest.raises(ConfigurationError, match=allowed):
        judged(tmp_path, line, day(), group="query")


def test_an_error_that_only_some_rows_cause_says_what_derive_got(tmp_path: Path) -> None:
    message = r"(?s)features\.py:7: ValueError: .* \(derive got the row alone\)"
    with pytest.raises(ConfigurationError, match=message):
        judged(tmp_path, "df['made'] = pd.qcut(df.price, 3, labels=False) * 0.0", day(40))


def test_the_cost_is_bounded_whatever_the_size_of_the_day(tmp_path: Path) -> None:
    calls: list[int] = []
    df = day(30_000)
    (tmp_path / "features.py").write_text("def derive(df):\n    return df.assign(made=df.price * 2)\n")
    derive = load_derive(tmp_path, {})
    assert isinstance(derive, OwnDerive)

    def counted(rows: pd.DataFrame) -> pd.DataFrame:
        calls.append(len(rows))
        return derive.function(rows)

    reads: dict[str, Any] = {"numeric": ("made",), "categorical": {}}
    for group in (None, "query"):
        calls.clear()
        refuse_dependence(OwnDerive(counted, derive.path, 1), df, derive(df), Reads(**reads, group=group))
        assert len(calls) <= 16
        assert max(calls) <= SAMPLE_ROWS + 5


@pytest.mark.parametrize("group", [None, "query"])
def test_a_day_without_rows_and_one_without_groups_have_nothing_to_test(tmp_path: Path, group: str | None) -> None:
    judged(tmp_path, "df['made'] = df.price.mean()", day(40)[:0], group=group)
    df = day(40).assign(query=None)
    judged(tmp_path, "df['made'] = df.price.mean()", df, group="query")
