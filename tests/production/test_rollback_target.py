"""Where a rollback goes: to a champion that the registry has, so that the alias leaves the banned model."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.cli.main import main
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.fingerprint import digest
from ratchet.production.by_hand import carry_out
from ratchet.production.reconcile import reconcile
from ratchet.production.rollback import rollback
from ratchet.production.standing import standing
from ratchet.store.ledger import records
from ratchet.store.memory import MemoryStore
from ratchet.tracking.memory_registry import MemoryRegistry
from ratchet.tracking.registry import DIGEST, Version
from tests.production.registered import promote, registered
from tests.production.test_reconcile import MODEL, Place

BY = {"by": "ann", "because": "clicks fell"}


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Place:
    """Three champions, and the alias on the third."""
    store = MemoryStore(f"rollback-target-{request.node.nodeid}")
    made = Place(store, MemoryRegistry.of(store.uri))
    for name in "abc":
        made.promote(name, recipe=f"recipe of {name}")
    assert reconcile(store, None, MODEL).moved == ""
    return made


def retain(place: Place, *kept: str) -> None:
    """Delete all other versions from the registry."""
    versions = place.registry.models[MODEL].versions
    for number in set(versions) - set(kept):
        del versions[number]


def test_a_champion_that_the_registry_lacks_is_passed_over_and_the_alias_leaves_the_banned_model(place: Place) -> None:
    retain(place, "1", "3")
    done = carry_out(place.store, None, MODEL, lambda: rollback(place.store, MODEL, **BY))
    assert (done.record.version, place.alias(), done.reconciled.finding) == ("1", digest(b"a"), None)
    assert [one.ban.version for one in standing(place.store, MODEL).banned] == ["2", "3"]


def test_a_version_of_another_number_is_the_target_where_it_holds_the_model(place: Place) -> None:
    retain(place, "1", "3")
    place.registry.models[MODEL].versions["9"] = Version(number="9", tags={DIGEST: digest(b"b")})
    assert rollback(place.store, MODEL, **BY).version == "2"
    assert reconcile(place.store, None, MODEL, force=True).version == "9"


def test_where_the_registry_lacks_each_target_nothing_is_recorded_and_one_line_says_what_to_do(place: Place) -> None:
    retain(place, "3")
    before = records(place.store, MODEL)
    with pytest.raises(ConfigurationError) as refused:
        carry_out(place.store, None, MODEL, lambda: rollback(place.store, MODEL, **BY))
    b, a = (digest(name.encode())[:12] for name in "ba")
    assert refused.value.cause == (
        f"the registry at {place.store.uri} does not have the model of any of the versions 2 ({b}), 1 ({a}) of ranker; "
        "nothing was rolled back"
    )
    assert refused.value.remedy.startswith("restore MLflow's data, or correct MLFLOW_TRACKING_URI")
    assert "`ratchet promote ranker@VERSION --because WHY`" in refused.value.remedy
    assert "\n" not in str(refused.value)
    assert (records(place.store, MODEL), place.alias()) == (before, digest(b"c"))


def test_a_named_version_that_the_registry_lacks_is_refused_before_anything_is_written(place: Place) -> None:
    retain(place, "1", "3")
    before = records(place.store, MODEL)
    with pytest.raises(ConfigurationError, match=r"does not have the model of version 2 \(.*nothing was rolled back"):
        rollback(place.store, MODEL, version="2", **BY)
    assert records(place.store, MODEL) == before
    assert rollback(place.store, MODEL, version="1", **BY).version == "1"


def test_a_registry_that_does_not_answer_stops_no_rollback(place: Place) -> None:
    retain(place, "3")
    assert rollback(place.store, MODEL, tracking_uri="http://127.0.0.1:9", **BY).version == "2"


def test_the_command_asks_the_server_that_serves(
    httpd: Callable[[int, bytes], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    store = registered(tmp_path / "store")  # which has the versions
    for number, name in enumerate("ab"):
        promote(store, name, after=number)
    address = httpd(200, b"{}")  # and the server has none
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    assert main(["rollback", MODEL, "--because", "clicks fell", "--store", store.uri]) == 64
    assert f"the registry at {address} does not have the model of version 1" in capsys.readouterr().err
    assert len(records(store, MODEL)) == 2
