"""A source reads the variables that it may read, and no message shows a value."""

import traceback
from datetime import date
from pathlib import Path

import pytest

from ratchet.contracts.endpoints import network_for
from ratchet.contracts.environment import environment
from ratchet.contracts.errors import ConfigurationError, Unavailable
from ratchet.contracts.source import DeltaSource, FilesSource, Source, SqlSource
from ratchet.contracts.time_zones import day_bounds
from ratchet.runtime.source_variables import allowed_names, expand, hide
from ratchet.runtime.sources import list_days
from tasks.ingest.sql_source import read_query
from tasks.ingest.traits import SourceTraits

DAY = date(2026, 11, 20)
CANARY = "hunter2-canary"
SETTINGS = (
    "AIRFLOW__CORE__FERNET_KEY",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN",
    "AWS_SECRET_ACCESS_KEY",
    "MLFLOW_TRACKING_PASSWORD",
    "MLFLOW_TRACKING_URI",
    "RATCHET_ALERTS_MLOPS",
    "RATCHET_MLFLOW_CREDENTIALS",
    "RATCHET_SOURCE_VARIABLES",
    "RATCHET_STORE",
)


def sources(name: str) -> list[Source]:
    """A source of each kind that reads a variable."""
    return [
        FilesSource(kind="files", uri=f"/nope/${{{name}}}/{{date}}"),
        FilesSource(kind="files", uri=f"s3://${{{name}}}/{{date}}"),
        DeltaSource(kind="delta", uri=f"/nope/${{{name}}}"),
        sql(f"sqlite:////nope/${{{name}}}.db"),
    ]


def sql(uri: str) -> SqlSource:
    return SqlSource(kind="sql", uri=uri, query="SELECT :date")


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("allowed", ["", "A*,M*,R*"])
def test_no_source_reads_a_setting_of_the_installation_whatever_is_allowed(
    name: str, allowed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, CANARY)
    monkeypatch.setenv("RATCHET_SOURCE_VARIABLES", allowed)
    for source in sources(name):
        with pytest.raises(ConfigurationError, match=rf"source\.uri: \$\{{{name}\}} is a setting") as refused:
            list_days(source, [DAY])
        assert CANARY not in "".join(traceback.format_exception(refused.value))


def test_a_variable_that_nobody_allowed_is_refused_and_the_operator_can_allow_it_for_databases(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", CANARY)
    for source in sources("SHOP_PASSWORD"):
        with pytest.raises(ConfigurationError, match="allowed: RATCHET_DATA, RATCHET_DATA_") as refused:
            list_days(source, [DAY])
        assert CANARY not in str(refused.value)
    for allowed in ("SHOP_PASSWORD", "CRM_*, SHOP_*"):
        monkeypatch.setenv("RATCHET_SOURCE_VARIABLES", allowed)
        *addresses, database = sources("SHOP_PASSWORD")
        assert list_days(database, [DAY])[0] == database.uri
        for source in addresses:
            with pytest.raises(ConfigurationError, match="is not an address, and plans and logs show the place"):
                list_days(source, [DAY])


def test_the_refusal_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_SOURCE_VARIABLES", "CRM_*")
    with pytest.raises(ConfigurationError) as refused:
        allowed_names("${SHOP}", secret=True)
    assert str(refused.value) == (
        "source.uri: ${SHOP} is not a variable that a source may read; allowed: RATCHET_DATA, RATCHET_DATA_*,"
        " RATCHET_SOURCE_*, CRM_*; to do: rename it to RATCHET_SOURCE_SHOP, or let the operator add SHOP to"
        " RATCHET_SOURCE_VARIABLES"
    )


@pytest.mark.parametrize("given", ["*", "SHOP *", "${SHOP}", "SHOP_*_X"])
def test_a_setting_that_allows_everything_or_is_no_name_is_refused(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_SOURCE_VARIABLES", given)
    with pytest.raises(ConfigurationError, match=r"RATCHET_SOURCE_VARIABLES: .*is not the name of a variable"):
        _ = environment().source_variables


def test_the_variables_that_are_made_for_it_need_no_setting() -> None:
    values = {"RATCHET_DATA": "/data", "RATCHET_DATA_SHOP": "/shop", "RATCHET_SOURCE_PASSWORD": "p"}
    assert expand("${RATCHET_DATA}/x", values) == "/data/x"
    assert expand("${RATCHET_DATA_SHOP}/x", values) == "/shop/x"
    assert expand("pg://${RATCHET_SOURCE_PASSWORD}@${RATCHET_DATA}", values, secret=True) == "pg://p@/data"


def test_an_address_with_a_password_in_its_value_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigurationError, match=r"the value of .*RATCHET_DATA.* has a password") as refused:
        expand("${RATCHET_DATA}/{date}", {"RATCHET_DATA": f"s3://key:{CANARY}@bucket"})
    assert CANARY not in str(refused.value)


URL = f"postgresql://shopkeeper:{CANARY}@db.internal:5432/orders"


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (URL, "${URL}"),
        ('FATAL: password authentication failed for user "shopkeeper"', 'FATAL: password authentication failed for user "${URL}"'),
        ('connection to server at "db.internal", port 5432 failed', 'connection to server at "${URL}", port 5432 failed'),
        ('database "orders" does not exist', 'database "${URL}" does not exist'),
        (f"invalid dsn: {CANARY}", "invalid dsn: ${URL}"),
        ("no such column: reordersal", "no such column: reordersal"),
    ],
)  # fmt: skip
def test_a_message_of_a_database_shows_no_part_of_a_value(message: str, shown: str) -> None:
    assert hide(message, "${URL}", {"URL": URL}) == shown


def test_what_a_url_encodes_is_hidden_as_drivers_write_it() -> None:
    assert hide("user a@b and c d", "${U}", {"U": "pg://a%40b:c%20d@h/x"}) == "user ${U} and ${U}"


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (f"sqlite:////nope/{CANARY}/x.db", Unavailable),
        (f"postgresql://me:{CANARY}@host:{CANARY}/db", ConfigurationError),
        (f"nothing-known://me:{CANARY}@host/db", ConfigurationError),
        (CANARY, ConfigurationError),
    ],
)
def test_no_error_of_a_database_shows_a_value(
    value: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RATCHET_SOURCE_URL", value)
    bounds = day_bounds(DAY, "UTC", "00:00")
    with pytest.raises(error) as failed:
        list(read_query(sql("${RATCHET_SOURCE_URL}"), DAY, bounds, {"x": "int64"}, SourceTraits()))
    assert CANARY not in str(failed.value)
    assert "${RATCHET_SOURCE_URL}" in str(failed.value)


@pytest.mark.parametrize("url", [f"pg://me:{CANARY}\u2100@host/db", f"pg://me:{CANARY}@[host/db"])
def test_a_login_that_no_url_can_have_needs_a_network_and_raises_nothing(url: str) -> None:
    assert network_for([url]) == "bridge"
