"""Delta tables whose log says which rows of a file count, and what its columns are called; and a named version."""

import json
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from ratchet.contracts import summaries
from ratchet.contracts.errors import ConfigurationError, DataRejected
from tests.world import LAST, World, clicks, rows

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def z85(data: bytes) -> str:
    words = [struct.unpack(">I", data[place : place + 4])[0] for place in range(0, len(data), 4)]
    return "".join(_DIGITS[word // 85**power % 85] for word in words for power in range(4, -1, -1))


def deletion_vector(places: list[int]) -> dict[str, Any]:
    """A deletion vector in the log: a 64-bit Roaring bitmap of one bucket, as Delta's protocol describes it."""
    bitmap = struct.pack("<IIHHI", 12346, 1, 0, len(places) - 1, 16) + struct.pack(f"<{len(places)}H", *places)
    body = struct.pack("<IQI", 1681511377, 1, 0) + bitmap
    text = z85(body + bytes(-len(body) % 4))
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(body), "cardinality": len(places)}


def actions(table: Path, version: int) -> dict[str, dict[str, Any]]:
    log = (table / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    return {name: action for line in log for name, action in json.loads(line).items()}


def commit(table: Path, version: int, *made: dict[str, Any]) -> None:
    lines = [*made, {"commitInfo": {"timestamp": 0, "operation": "DELETE"}}]
    (table / "_delta_log" / f"{version:020}.json").write_text("\n".join(map(json.dumps, lines)) + "\n")


def delete(table: Path, version: int, places: list[int]) -> None:
    """Delete rows of the file of the first commit, as a writer with deletion vectors does."""
    first = actions(table, 0)
    add = first["add"]
    features = ["deletionVectors", "timestampNtz"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    metadata = {**first["metaData"], "configuration": {"delta.enableDeletionVectors": "true"}}
    before = {"deletionVector": deletion_vector(places[:-1])} if version > 1 else {}
    removed = {"path": add["path"], "deletionTimestamp": 0, "dataChange": True, "size": add["size"], **before}
    commit(
        table, version, {"protocol": protocol}, {"metaData": metadata}, {"remove": removed},
        {"add": {**add, "deletionVector": deletion_vector(places)}},
    )  # fmt: skip


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = clicks(tmp_path)
    made.document["source"] = {
        "kind": "delta", "uri": str(tmp_path / "table"), "window_days": 3, "missing_days": "skip",
    }  # fmt: skip
    dated = pa.table(rows(60, LAST)).append_column("date", pa.array([LAST] * 60))
    write_deltalake(tmp_path / "table", dated, partition_by=["date"])
    return made


def found(world: World) -> list[dict[str, Any]]:
    day = summaries.snapshot(world.run("ingest").result).days[-1]
    return in_order(pq.read_table(world.store.local(day.file.key)))


def in_order(table: pa.Table) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = table.sort_by([(name, "ascending") for name in table.column_names]).to_pylist()
    return listed


def without(*places: int) -> list[dict[str, Any]]:
    return in_order(pa.table(rows(60, LAST)).take([place for place in range(60) if place not in places]))


def test_rows_that_a_deletion_vector_names_are_not_read(world: World, tmp_path: Path) -> None:
    table = tmp_path / "table"
    assert found(world) == without()
    delete(table, 1, [1, 3])
    assert found(world) == without(1, 3)
    delete(table, 2, [1, 3, 59])
    assert found(world) == without(1, 3, 59)  # the same file, and another version of the table
    world.document["source"]["version"] = 1
    assert found(world) == without(1, 3)
    world.document["source"]["version"] = 0
    assert found(world) == without()
    world.document["source"]["version"] = 99
    with pytest.raises(ConfigurationError, match=r"has no version 99; to do: set source\.version"):
        found(world)


def test_columns_are_read_under_the_names_of_the_table(world: World, tmp_path: Path) -> None:
    log = tmp_path / "table" / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for action in lines:
        if "protocol" in action:
            features = ["columnMapping", "timestampNtz"]
            action["protocol"] |= {"readerFeatures": features, "writerFeatures": features}
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            for place, field in enumerate(schema["fields"], 1):
                field["metadata"] = {"delta.columnMapping.id": place, "delta.columnMapping.physicalName": field["name"]}
                field["name"] = {"price": 'Preis "EUR"', "country": "price"}.get(field["name"], field["name"])
            action["metaData"]["schemaString"] = json.dumps(schema)
            action["metaData"]["configuration"] = {
                "delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": str(len(schema["fields"])),
            }  # fmt: skip
    log.write_text("\n".join(map(json.dumps, lines)) + "\n")
    world.document["source"]["names"] = {"price": 'Preis "EUR"', "country": "price"}
    assert found(world) == without()
    world.document["source"]["names"] = {"price": "country", "country": "price"}
    with pytest.raises(DataRejected, match="table: column country missing; the file has"):
        found(world)


def test_a_cut_file_of_such_a_table_is_refused_by_name(world: World, tmp_path: Path) -> None:
    delete(tmp_path / "table", 1, [1])
    path = next((tmp_path / "table").rglob("*.parquet"))
    path.write_bytes(path.read_bytes()[:900])
    with pytest.raises(DataRejected, match="table: a file of the table cannot be read"):
        found(world)
