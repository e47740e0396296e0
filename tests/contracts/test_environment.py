"""What the environment says: each variable by its type, and what is wrong by its name."""

from pathlib import Path

import pytest

from ratchet.contracts.environment import (
    ALERTS,
    INTERNAL,
    Environment,
    alert_urls,
    alert_variable,
    environment,
    variable,
)
from ratchet.contracts.errors import ConfigurationError

OPERATIONS = Path(__file__).resolve().parents[2] / "docs" / "operations.md"
EXAMPLES = {name: field.examples[0] for name, field in Environment.model_fields.items() if field.examples}
NAMES = [variable(field) for field in Environment.model_fields]


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def test_an_environment_without_variables_has_the_defaults() -> None:
    assert environment() == Environment()
    assert (environment().store, environment().cache_limit, environment().watch_seconds) == (None, 20 << 30, 300)


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("RATCHET_STORE", "s3://b/p", "store", "s3://b/p"),
        ("MLFLOW_TRACKING_URI", "http://m", "tracking_uri", "http://m"),
        ("RATCHET_RUNNER", "process", "runner", "process"),
        ("RATCHET_PIPELINES", "/p", "pipelines", Path("/p")),
        ("RATCHET_POOL_BACKFILL_GPU", "2", "pool_backfill_gpu", 2),
        ("RATCHET_CACHE_LIMIT", "15k", "cache_limit", 15 << 10),
        ("RATCHET_WATCH_SECONDS", "0.5", "watch_seconds", 0.5),
        ("RATCHET_OPERATORS", "ada, ben,", "operators", ("ada", "ben")),
        ("RATCHET_SECRETS", "/run/ratchet/secrets", "secrets", Path("/run/ratchet/secrets")),
        ("RATCHET_GPUS", "", "gpus", ""),
    ],
)
def test_a_variable_is_read_by_its_type(
    name: str, text: str, field: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, text)
    assert variable(field) == name
    assert getattr(environment(), field) == value


@pytest.mark.parametrize("name", sorted({*NAMES} - {"RATCHET_GPUS"}))
def test_a_variable_that_is_empty_counts_as_unset(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "")
    assert environment() == Environment()


@pytest.mark.parametrize(
    ("name", "text", "field", "line"),
    [
        (
            "RATCHET_RUNNER",
            "podman",
            "runner",
            "RATCHET_RUNNER: 'podman': input should be 'docker' or 'process'; "
            "to do: set it like RATCHET_RUNNER=docker, or unset it",
        ),
        (
            "RATCHET_POOL_CPU",
            "0",
            "pool_cpu",
            "RATCHET_POOL_CPU: '0': input should be greater than 0; to do: set it like RATCHET_POOL_CPU=4, or unset it",
        ),
        (
            "RATCHET_CACHE_LIMIT",
            "much",
            "cache_limit",
            "RATCHET_CACHE_LIMIT: 'much' is not an amount of memory; write it like 512m or 4g; "
            "to do: set it like RATCHET_CACHE_LIMIT=20g, or unset it",
        ),
        (
            "RATCHET_WATCH_SECONDS",
            "nan",
            "watch_seconds",
            "RATCHET_WATCH_SECONDS: 'nan': input should be a finite number; "
            "to do: set it like RATCHET_WATCH_SECONDS=300, or unset it",
        ),
    ],
)
def test_a_wrong_value_is_one_clear_line_and_stops_only_what_reads_it(
    name: str, text: str, field: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, text)
    monkeypatch.setenv("RATCHET_STORE", "/s")
    found = environment()
    assert found.store == "/s"
    with pytest.raises(ConfigurationError) as raised:
        getattr(found, field)
    assert str(raised.value) == line


def test_each_variable_that_can_be_wrong_has_an_example(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.setenv(name, "?")
    wrong = set(vars(environment())["wrong"])
    assert {"runner", "cache_limit", "pool_cpu"} <= wrong <= set(EXAMPLES)


@pytest.mark.parametrize("field", EXAMPLES)
def test_the_example_of_a_remedy_is_right(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable(field), EXAMPLES[field])
    assert getattr(environment(), field)


def test_the_environment_is_read_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_STORE", "/a")
    assert environment().store == "/a"
    monkeypatch.setenv("RATCHET_STORE", "/b")
    assert environment().store == "/b"


def test_an_endpoint_for_s3_alone_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert environment().s3_endpoint is None
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://all")
    assert environment().s3_endpoint == "http://all"
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://s3")
    assert environment().s3_endpoint == "http://s3"


def test_a_password_in_the_tracking_address_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:canary@m")
    assert "canary" not in repr(environment())


def test_a_receiver_of_alerts_has_a_variable_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    name = alert_variable("ml-ops")
    assert name == "RATCHET_ALERTS_ML_OPS"
    monkeypatch.delenv(name, raising=False)
    assert alert_urls("ml-ops") is None
    monkeypatch.setenv(name, "")
    assert alert_urls("ml-ops") == []
    monkeypatch.setenv(name, "json://a  json://b")
    assert alert_urls("ml-ops") == ["json://a", "json://b"]


def test_every_variable_says_what_it_is() -> None:
    for name, field in Environment.model_fields.items():
        assert field.description, name
        assert INTERNAL in field.metadata or "Default: " in field.description, name


def test_the_settings_that_are_documented_are_those_that_people_set() -> None:
    """Name, meaning and default of each. The table is the model's, written out for people."""
    expected = {
        f"| `{variable(name)}` | {field.description} |"
        for name, field in Environment.model_fields.items()
        if INTERNAL not in field.metadata
    }
    text = OPERATIONS.read_text(encoding="utf-8").partition("\n## Settings\n")[2].partition("\n### ")[0]
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    alerts = [row for row in rows if row.startswith(f"| `{ALERTS}<NAME>` |")]
    assert len(alerts) == 1
    assert sorted({*rows} - {*alerts}) == sorted(expected)
    assert len(rows) == len({*rows})
