from pathlib import Path

import pandas as pd
import pytest

from ratchet.contracts.errors import ConfigurationError
from ratchet.model.derivation import load_derive

DF = pd.DataFrame({"price": [1.0, 2.0]})


def derive(folder: Path, body: str) -> pd.DataFrame:
    (folder / "features.py").write_text(f"import pandas as pd\n\ndef derive(df):\n    {body}\n", encoding="utf-8")
    return load_derive(folder, {"dear": "bool"})(DF)


def test_derive_adds_columns_to_a_copy(tmp_path: Path) -> None:
    made = derive(tmp_path, "df['dear'] = df['price'] > 1; return df")
    assert made["dear"].tolist() == [False, True]
    assert list(DF.columns) == ["price"]


def test_whole_numbers_beside_missing_ones_are_whole_and_fractions_are_not(tmp_path: Path) -> None:
    (tmp_path / "features.py").write_text(
        "def derive(df):\n    return df.assign(half=df['price'] / 2)\n", encoding="utf-8"
    )
    half = load_derive(tmp_path, {"half": "int64"})
    for prices in ([2.0, None, 6.0], [2.0], [None]):
        made = half(pd.DataFrame({"price": pd.Series(prices, dtype=float)}))
        assert made["half"].dropna().tolist() == [price / 2 for price in prices if price]
    with pytest.raises(ConfigurationError, match="derive makes half as float64, declared as int64"):
        half(pd.DataFrame({"price": [1.0, None]}))


def test_without_a_file_rows_stay_as_they_are(tmp_path: Path) -> None:
    assert load_derive(tmp_path, {})(DF) is DF
    with pytest.raises(ConfigurationError, match=r"columns\.dear\.derived: there is no features\.py"):
        load_derive(tmp_path, {"dear": "bool"})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "df['dear'] = df['prize'] > 1; return df",
            r"features\.py:4: derive reads the column 'prize', which .* allowed: price; to do: correct the name, or",
        ),
        (
            "df['dear'] = {}['prize']; return df",
            r"features\.py:4: KeyError: 'prize'; to do: correct derive in features\.py",
        ),
        (
            "df['dear'] = df.prize; return df",
            r"features\.py:4: AttributeError: 'DataFrame' object has no attribute 'prize'",
        ),
        ("return 1", r"features\.py:3: derive returned int"),
        ("return df[df.price > 1]", r"features\.py:3: derive gave 1 rows for 2"),
        ("return df.sort_values('price', ascending=False)", "or another index"),
        ("return df", "does not make dear"),
        ("df['dear'] = 'x'; return df", "makes dear as str, declared as bool"),
    ],
)
def test_what_derive_may_not_do_is_reported_with_its_line(tmp_path: Path, body: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        derive(tmp_path, body)


@pytest.mark.parametrize("value", ["df['name'].map(hash)", "[hash(name) % 7 for name in df['name']]"])
def test_the_hash_of_a_text_is_refused_since_each_process_has_another(tmp_path: Path, value: str) -> None:
    (tmp_path / "features.py").write_text(f"def derive(df):\n    return df.assign(code={value})\n", encoding="utf-8")
    made = load_derive(tmp_path, {"code": "int64"})
    with pytest.raises(ConfigurationError, match=r"^features\.py:2: TypeError: hash of text is another number in each"):
        made(pd.DataFrame({"name": ["a", "b"]}))
    assert made(pd.DataFrame({"name": [3, 4]}))["code"].tolist() == [3, 4]


def test_a_class_of_the_pipeline_may_hash_the_text_of_its_fields(tmp_path: Path) -> None:
    code = """from dataclasses import dataclass

@dataclass(frozen=True)
class Key:
    name: str

class Name:
    def __init__(self, name):
        self.name = name
    def __eq__(self, other):
        return self.name == other.name
    def __hash__(self):
        return hash(self.name)

def derive(df):
    keys, names = {Key("a"): 1, Key("b"): 2}, {Name("a"): 1, Name("b"): 2}
    return df.assign(code=[keys[Key(name)] + names[Name(name)] for name in df["name"]])
"""
    (tmp_path / "features.py").write_text(code, encoding="utf-8")
    made = load_derive(tmp_path, {"code": "int64"})(pd.DataFrame({"name": ["a", "b"]}))
    assert made["code"].tolist() == [2, 4]
