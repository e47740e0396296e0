"""What our code imports of Airflow is public there, but for a list of what is not, each with why it is still here.

Public is what Airflow's documentation calls so ("Public Interface for Airflow 3.0+"): the SDK, timetables, listeners,
cluster policies, plugins, and operators of providers. The rest may change in any minor release, and so each line of the
list is a debt. A line that nothing needs any more fails the test too.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("plugins", "dags", "ratchet", "tasks", "local", "team", "demo")
PUBLIC = (
    "airflow.sdk",
    "airflow.timetables",
    "airflow.listeners",
    "airflow.policies",
    "airflow.plugins_manager",
    "airflow.providers.standard.operators",
)
_SETTINGS = "the deployment's settings outside of a task, where the SDK's own reader is none"
LEFT = {
    ("plugins/ratchet_airflow/public_links.py", "airflow.configuration"): _SETTINGS,
    ("plugins/ratchet_airflow/alerts/by_hand.py", "airflow.configuration"): _SETTINGS,
    ("plugins/ratchet_airflow/approval.py", "airflow.configuration"): _SETTINGS,
    ("plugins/ratchet_airflow/run_id.py", "airflow.configuration"): _SETTINGS,
    (
        "plugins/ratchet_airflow/container_trigger.py",
        "airflow.triggers.base",
    ): "the base of all triggers, also of those of providers; the SDK of Airflow 3.3 has none",
    (
        "plugins/ratchet_airflow/policy.py",
        "airflow.settings",
    ): "the scheduler calls a policy of an entry point only where this hook is no no-op (Airflow 3.3)",
    (
        "plugins/ratchet_airflow/pages.py",
        "airflow.api_fastapi.core_api.security",
    ): "who may read a DAG may read its pages; the auth manager's own interface needs the request's user from here too",
    (
        "team/initialise.py",
        "airflow.providers.fab.auth_manager.cli_commands.utils",
    ): "the first user of an empty installation; `airflow users create` shows the password in the list of processes",
    (
        "team/task_logs.py",
        "airflow.config_templates.airflow_local_settings",
    ): "`[logging] logging_config_class` names a whole configuration, and Airflow's documentation says to begin with this",
}
"""(file, module of Airflow): why."""


def imported(path: Path) -> Iterator[str]:
    """The modules of Airflow that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "airflow":
            plain = node.module == "airflow"
            yield from (f"airflow.{one.name}" for one in node.names) if plain else (node.module,)
        elif isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name.split(".")[0] == "airflow")


def test_what_is_not_public_in_airflow_is_listed_with_why() -> None:
    found = {
        (path.relative_to(ROOT).as_posix(), module)
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        for module in imported(path)
    }
    assert len(found) > len(LEFT)
    private = {one for one in found if not any(one[1] == name or one[1].startswith(f"{name}.") for name in PUBLIC)}
    assert private == set(LEFT)


def test_an_import_is_seen_wherever_it_is(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        "import airflow.models\ndef f():\n    from airflow import settings\n    from airflow.sdk import DAG\n"
    )
    assert [*imported(file)] == ["airflow.models", "airflow.settings", "airflow.sdk"]
