"""What docs/operations.md says of the permissions of Airflow's own, by the Airflow that is installed."""

from importlib import import_module

import pytest

from ratchet_airflow.production import CHANGES

MANAGERS = "airflow.api_fastapi.auth.managers"


@pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`")  # Airflow imports it
@pytest.mark.parametrize(
    ("role", "sees", "triggers"),
    [("VIEWER", True, False), ("USER", True, True), ("OP", True, True), ("ADMIN", True, True), (None, False, False)],
)
def test_with_the_simple_auth_manager_the_role_decides_and_not_the_dag(
    role: str | None, *, sees: bool, triggers: bool
) -> None:
    manager = import_module(f"{MANAGERS}.simple.simple_auth_manager").SimpleAuthManager()
    person = import_module(f"{MANAGERS}.simple.user").SimpleAuthManagerUser(username="eve", role=role)
    details = import_module(f"{MANAGERS}.models.resource_details")
    assert person.get_name() == "eve"  # what a run says of who triggered it
    for name in (*(f"ratchet_{verb}" for verb in CHANGES), "search-ranking"):
        asked = {
            "user": person,
            "access_entity": details.DagAccessEntity.RUN,
            "details": details.DagDetails(id=name),
        }
        assert manager.is_authorized_dag(method="GET", **asked) is sees
        assert manager.is_authorized_dag(method="POST", **asked) is triggers
