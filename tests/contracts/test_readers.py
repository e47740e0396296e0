"""What a model reads of the rows of a source."""

import json

from ratchet.contracts.columns import Column
from ratchet.contracts.readers import Reader, reader, recorded_columns

COLUMNS = {
    "price": Column(role="numeric", type="float64"),
    "shop": Column(role="ignore", type="string"),
    "per_item": Column(role="numeric", type="float64", derived=True),
    "seen": Column(role="time", type="timestamp"),
    "clicked": Column(role="label", type="int64"),
    "cost": Column(role="weight", type="float64"),
}


def test_a_model_reads_the_columns_of_the_source_but_neither_label_nor_weight() -> None:
    assert reader(COLUMNS) == Reader(
        columns={"price": "float64", "shop": "string", "seen": "timestamp"}, needed=("price",)
    )


def test_rows_lack_a_column_that_is_not_there_or_has_another_type() -> None:
    model = reader(COLUMNS)
    source = {name: column.type for name, column in COLUMNS.items()}
    assert not model.lacks(source)
    assert model.lacks({**source, "price": "int64"})
    assert model.lacks({name: kind for name, kind in source.items() if name != "shop"})


def test_columns_are_read_from_a_fingerprint_in_the_order_of_the_file() -> None:
    parts = {
        "config.columns": "price shop",
        **{
            f"config.columns.{name}.{key}": json.dumps(value)
            for name in ("shop", "price", "seen")
            for key, value in COLUMNS[name].model_dump(mode="json", exclude_defaults=True).items()
        },
        "config.columns.price.key_of_another_release": "3",
        "config.train.lr": "0.1",
    }
    found = recorded_columns(parts)
    assert list(found or ()) == ["price", "shop", "seen"]
    assert found == {name: COLUMNS[name] for name in ("price", "shop", "seen")}
    assert recorded_columns({"config.train.lr": "0.1"}) is None
