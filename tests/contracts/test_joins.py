"""What `ratchet check` says of joins, and which days of a further source a day looks at."""

import json
from datetime import date
from typing import Any

import pytest

from ratchet.contracts.errors import PipelineInvalid
from ratchet.contracts.fingerprint import digest_of
from ratchet.contracts.further_source import days_looked_at, further, join_identity, main_columns, time_column
from ratchet.contracts.loading import loads
from ratchet.contracts.request import FurtherDays, SourceDay, names_another_source
from ratchet.runs.requests import compose
from ratchet.store.memory import MemoryStore
from tests.runs.test_requests import plan
from tests.world import SPEC

DAY = date(2026, 11, 20)


def written(changes: dict[str, Any] | None = None, **join: Any) -> str:
    """A pipeline file with one join. changes: of its top level; join: of the join."""
    document = json.loads(json.dumps(SPEC))
    document["source"]["uri"] = "/data/{date}.parquet"
    document["columns"]["plan"] = {"role": "categorical", "type": "string"}
    document["columns"]["basket"] = {"role": "ignore", "type": "list<int64>"}
    document["columns"]["half"] = {
        "role": "numeric",
        "type": "float64",
        "make": {"clip": {"of": "price", "low": 0, "high": 1}},
    }
    source = {"kind": "files", "uri": "/data/users/{date}.parquet"}
    users = {"source": source, "on": ["query_id"], "time": "updated_at", "within": "2d", "columns": ["plan"], **join}
    document |= {"joins": {"users": users}, **(changes or {})}
    return json.dumps(document, indent=1)


def source(**keys: Any) -> dict[str, Any]:
    return {"kind": "files", "uri": "/data/users/{date}.parquet", **keys}


def columns(**changed: Any) -> dict[str, Any]:
    found = json.loads(written())["columns"]
    return {"columns": {name: {**found.get(name, {}), **changed.get(name, {})} for name in {**found, **changed}}}


TWO = {
    "users": json.loads(written())["joins"]["users"],
    "shops": {**json.loads(written())["joins"]["users"], "columns": ["plan", "country"]},
}
FAULTS: dict[str, tuple[str, str]] = {
    "joins.users.on: query is no column of the main source; allowed: query_id, ": (written(on=["query"]), "query_id?"),
    "joins.users.on: plan is no column of the main source": (written(on=["plan"]), "allowed: query_id"),
    "joins.users.on: half is no column of the main source": (written(on=["half"]), "allowed: query_id"),
    "joins.users.on: basket is list<int64>, which cannot be a key": (written(on=["basket"]), "a column of type int64"),
    "joins.users.on: price is float64, which cannot be a key": (written(on=["price"]), "a column of type int64"),
    "joins.users.on: clicked is the label": (written(on=["clicked"]), "not known"),
    "joins.users.on: names query_id twice": (written(on=["query_id", "query_id"]), ""),
    "joins.users.columns: plam is not in columns": (written(columns=["plam"]), "did you mean plan?"),
    "joins.users.columns: half is made from columns": (written(columns=["half"]), "comes from no source"),
    "joins.users.columns: clicked is the label": (written(columns=["clicked"]), "sees what was before"),
    "joins.users.columns: shown_at has the role time": (written(columns=["shown_at"]), "from the main source"),
    "joins.shops.columns: plan comes from users already": (written({"joins": TWO}), "give one of the two another name"),
    "joins.users.within: '0d' is zero": (written(within="0d"), "write it like"),
    "joins.users.within: '30 days' is not a duration": (written(within="30 days"), "4h or 1h30m"),
    "joins.users.source.window_days: the days of a further source follow from joins.users.within": (
        written(source=source(window_days=3)),
        "delete it",
    ),
    "joins.users.source.keep_days: source.keep_days is of all": (written(source=source(keep_days=99)), "delete it"),
    "joins.users.source.wait: a run waits for all": (written(source=source(wait="1h")), "set source.wait"),
    "joins.users.source.ready.fresh: only the age": (written(source=source(ready={"fresh": "1h"})), "delete it"),
    "joins.users.source.names.price: price is no column of the source": (
        written(source=source(names={"price": "p"})),
        "",
    ),
    "joins.users.source.codes.plan: codes are whole numbers": (written(source=source(codes={"plan": ["a", "b"]})), ""),
    "joins.users.source.names.query_id: updated_at is its time and query_id": (
        written(source=source(names={"query_id": "updated_at"})),
        "a column is read once",
    ),
    "joins.users.source.uri: ${HOME} is not an address": (
        written(source=source(uri="${HOME}/{date}.csv")),
        "rename it",
    ),
    "joins.users.source.uri: has a password": (written(source=source(uri="s3://a:b@c/{date}.csv")), "remove it"),
    "source.names.plan: plan is no column of the source": (
        written({"source": {"kind": "files", "uri": "/data/{date}.csv", "names": {"plan": "p"}}}),
        "allowed: query_id",
    ),
    "columns.since.type: since is joins.users.time, and int64; allowed: timestamp": (
        written(columns(since={"role": "ignore", "type": "int64"}), columns=["since"], time="since"),
        "",
    ),
    "joins.users.source.codes.query_id: source.codes.query_id differs": (
        written(
            {"source": {"kind": "files", "uri": "/data/{date}.csv", "codes": {"query_id": ["a", "b"]}}},
            source=source(codes={"query_id": ["b", "a"]}),
        ),
        "give both the same texts",
    ),
    "joins.users.source.day_starts: without a timezone its days begin at 04:00": (
        written(
            {"source": {"kind": "files", "uri": "/data/{date}.csv", "day_starts": "04:00"}},
            source=source(day_starts="00:00"),
        ),
        "set joins.users.source.timezone, or delete it",
    ),
    "joins.users: a join needs a column of role time": (written(columns(shown_at={"role": "id"})), "the role time"),
    "resources.ingest.tasks: with joins, ingest is one task": (
        written({"resources": {"ingest": {"tasks": 2}}}),
        "all days of the further sources; allowed: 1",
    ),
    "columns.shown_at.type: a join compares moments": (written(columns(shown_at={"type": "date"})), "timestamp"),
}


@pytest.mark.parametrize("said", FAULTS)
def test_a_join_that_cannot_be_is_refused_with_one_line(said: str) -> None:
    text, also = FAULTS[said]
    with pytest.raises(PipelineInvalid) as caught:
        loads(text)
    found = [str(problem) for problem in caught.value.problems if said in str(problem)]
    assert len(found) == 1, str(caught.value)
    assert also in found[0]


def test_a_join_that_is_wrong_elsewhere_still_shows_what_else_is_wrong() -> None:
    with pytest.raises(PipelineInvalid) as caught:
        loads(written(within="often", on=["nothing"], source=source(kind="parquet")))
    assert "'often' is not a duration" in str(caught.value)
    assert "nothing is no column of the main source" in str(caught.value)
    assert "joins.users.source: 'parquet' is not allowed; allowed: files, sql, delta" in str(caught.value)


def test_the_columns_of_a_further_source_are_keys_time_and_what_is_joined() -> None:
    spec = loads(written(source=source(names={"plan": "tariff"})))
    of_users = further(spec, "users")
    assert of_users.source_columns == {"query_id": "int64", "plan": "string", "users.updated_at": "timestamp"}
    assert of_users.source.names == {"plan": "tariff", "users.updated_at": "updated_at"}
    assert list(main_columns(spec)) == ["query_id", "shown_at", "country", "price", "clicked", "basket"]
    document = json.loads(written(columns=["plan", "since"], source=source(names={"since": "updated_at"})))
    document["columns"]["since"] = {"role": "ignore", "type": "timestamp"}
    also = loads(json.dumps(document))
    assert time_column(also, "users") == "since"
    assert list(further(also, "users").columns) == ["query_id", "plan", "since"]


@pytest.mark.parametrize(
    ("main", "of_join", "within", "back", "ahead"),
    [
        ({}, {}, "2d", 2, 0),
        ({}, {}, "1h", 1, 0),
        ({"timezone": "Europe/Berlin", "day_starts": "04:00"}, {}, "2d", 2, 0),
        ({}, {"day_starts": "04:00"}, "2d", 3, 0),
        ({"timezone": "America/New_York"}, {"timezone": "UTC"}, "1d", 1, 1),
        ({"timezone": "Asia/Tokyo"}, {"timezone": "UTC"}, "1d", 2, 0),
    ],
)
def test_the_days_that_are_looked_at_reach_from_within_to_the_end_of_the_day(
    main: dict[str, Any], of_join: dict[str, Any], within: str, back: int, ahead: int
) -> None:
    changes = {"source": {"kind": "files", "uri": "/data/{date}.csv", **main}}
    spec = loads(written(changes, within=within, source=source(**of_join)))
    days = days_looked_at(spec, "users", DAY)
    assert (days[0], days[-1]) == (date.fromordinal(DAY.toordinal() - back), date.fromordinal(DAY.toordinal() + ahead))
    assert len(days) == back + ahead + 1


def test_the_identity_of_a_join_is_that_of_its_keys_and_of_the_rows_that_it_looks_at() -> None:
    spec, rows = loads(written()), {DAY: "1", date(2026, 11, 18): "2", date(2026, 11, 17): "3"}
    first = join_identity(spec, "users", rows, DAY)
    assert first == join_identity(spec, "users", {**rows, date(2026, 11, 17): "x"}, DAY)
    assert first != join_identity(spec, "users", {**rows, date(2026, 11, 18): "x"}, DAY)
    assert first != join_identity(loads(written(within="3d")), "users", rows, DAY)
    assert first != join_identity(loads(written(source=source(names={"plan": "p"}))), "users", rows, DAY)


def test_a_file_without_joins_has_the_digest_that_it_had_before_there_were_joins() -> None:
    document = json.loads(written())
    del document["joins"]
    spec = loads(json.dumps(document))
    assert "joins" not in spec.model_dump(mode="json")
    assert digest_of(spec) == digest_of({**spec.model_dump(mode="json", by_alias=True)})


def test_another_join_for_one_run_is_another_source() -> None:
    assert names_another_source(["joins.users.within"])
    assert not names_another_source(["train.epochs"])


def test_a_further_source_whose_days_are_all_as_then_is_not_read() -> None:
    spec = loads(written())
    nothing = FurtherDays(root="/further", days=(SourceDay(day=DAY, files=()),))
    now = compose(MemoryStore("joins"), plan(spec=spec, joins={"users": nothing}), "ingest", {}, "a")
    then = now.model_copy(update={"as_of": "then"})
    assert [name for name, *_ in now.sources_read] == ["", "users"]
    assert [name for name, *_ in then.sources_read] == [""]
