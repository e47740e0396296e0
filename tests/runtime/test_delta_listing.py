"""A Delta table whose features ingest cannot read is a configuration error, at once and for good."""

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ratchet.contracts.errors import ConfigurationError, NoAnswer
from ratchet.contracts.source import DeltaSource
from ratchet.runtime.delta_listing import delta_options
from ratchet.runtime.sources import list_days
from tests.s3 import S3Server
from tests.s3_proxy import Refusal, s3_proxy

DAY = date(2026, 11, 20)


def rewrite(table: Path, features: list[str], configuration: dict[str, str], metadata: dict[str, Any]) -> None:
    """Give the first version of a table other features."""
    log = table / "_delta_log" / f"{0:020}.json"
    lines = []
    for line in log.read_text().splitlines():
        action = json.loads(line)
        if "protocol" in action:
            action["protocol"] = {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": features,
                "writerFeatures": features,
            }
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            for field in schema["fields"]:
                field["metadata"] = metadata
            action["metaData"].update(configuration=configuration, schemaString=json.dumps(schema))
        lines.append(json.dumps(action))
    log.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("features", "configuration", "metadata", "named"),
    [
        (["columnMapping"], {"delta.columnMapping.mode": "name"}, {}, "columnMapping|column mapping"),
        (["v2Checkpoint", "deletionVectors"], {}, {}, "v2Checkpoint"),
    ],
)
def test_features_that_cannot_be_read_are_named(
    tmp_path: Path, features: list[str], configuration: dict[str, str], metadata: dict[str, Any], named: str
) -> None:
    pl.DataFrame({"date": [DAY]}).write_delta(str(tmp_path))
    rewrite(tmp_path, features, configuration, metadata)
    with pytest.raises(
        ConfigurationError, match=rf"a feature that cannot be read: .*({named}).*; to do: write the table"
    ):
        list_days(DeltaSource(kind="delta", uri=str(tmp_path)), [DAY])


@pytest.mark.parametrize("place", ["versions", "Unsupported"])
def test_a_table_that_does_not_answer_is_waited_for_whatever_its_address_says(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """The library repeats the address in its error, in which these words were looked for."""
    down: Refusal = (500, b"<Error><Code>InternalError</Code></Error>")
    with s3_proxy(s3.endpoint, refuse=lambda *_: down) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        monkeypatch.setattr("ratchet.runtime.delta_listing.delta_options", quick(delta_options))
        source = DeltaSource(kind="delta", uri=f"s3://{s3.bucket}/{place}/clicks", version=3)
        with pytest.raises(NoAnswer, match=f"{place}/clicks cannot be read"):
            list_days(source, [DAY])


def quick(options: Callable[[str], dict[str, str]]) -> Callable[[str], dict[str, str]]:
    """The same, and no repetition, since each waits."""
    return lambda root: {**options(root), "max_retries": "0"}
