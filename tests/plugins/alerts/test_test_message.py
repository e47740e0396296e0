"""A person sends a test message: what it prints of each address, and what it does not."""

import logging
from collections.abc import Iterator

import pytest

from ratchet.contracts.exits import ExitCode
from ratchet_airflow.alerts.__main__ import main
from tests.plugins.webhook import AWAY, Webhook

TOKEN = "a1b2c3d4e5f6"
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # Apprise's own import


@pytest.fixture(autouse=True)
def lines_as_before() -> Iterator[None]:
    """The program has a process of its own, in which it sets the level of this logger."""
    logger = logging.getLogger("ratchet.alerts")
    before = logger.level
    yield
    logger.setLevel(before)


def test_each_address_has_a_line_with_why_it_took_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Webhook().listening() as there, Webhook().listening() as away:
        away.status = AWAY
        monkeypatch.setenv("RATCHET_ALERTS_MLOPS", f"{there.url} {away.url}/{TOKEN} nothing://{TOKEN}")
        assert main(["mlops"]) == ExitCode.UNAVAILABLE
        assert [body["title"] for body in there.received] == ["A test message of Ratchet"]
        first, second, third = capsys.readouterr().out.splitlines()
        monkeypatch.setenv("RATCHET_ALERTS_MLOPS", there.url)
        assert main(["mlops"]) == 0
    assert first == "mlops: address 1 of 3 (json) has taken the test message"
    assert second.startswith("mlops: address 2 of 3 (json) did not take the test message: ")
    assert "503" in second
    assert third.startswith("mlops: address 3 of 3 (nothing) did not take the test message: it is no address that")
    assert TOKEN not in second + third


def test_a_receiver_without_an_address_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("RATCHET_AIRFLOW_API", raising=False)
    monkeypatch.delenv("RATCHET_ALERTS_NOBODY", raising=False)
    assert main(["nobody"]) == ExitCode.BAD_CONFIGURATION
    assert capsys.readouterr().err == (
        "alerts: nobody has no address; to do: set RATCHET_ALERTS_NOBODY, or create the Airflow connection "
        "ratchet_alerts_nobody\n"
    )


def test_what_is_no_name_of_a_receiver_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["a b"]) == ExitCode.BAD_CONFIGURATION
    assert capsys.readouterr().err == (
        "alerts: 'a b' is no name of a receiver; to do: name one of alerts.to of a pipeline\n"
    )
