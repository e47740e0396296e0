"""What our code imports of Airflow is public there, but for a list of what is not, each with why it is still here.

Public is what Airflow's documentation calls so ("Public Interface for Airflow 3.0+"): what the SDK exports, timetables,
listeners, cluster policies, plugins, and operators of providers. The rest may change in any minor release, and so each line of the
list is a debt. A line that nothing needs any more fails the test too. So it is with the members of Airflow's classes
that begin with an underscore, and that a class of ours uses or replaces; and with what no import shows: pages of its UI,
settings that it does not document, and what we conclude from a number of a task.
"""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TypeGuard

import airflow
import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("plugins", "dags", "ratchet", "tasks", "local", "team", "demo")
PUBLIC = (
    "airflow.sdk",  # and of what is below it `SDK` alone
    "airflow.timetables",
    "airflow.listeners",
    "airflow.policies",
    "airflow.plugins_manager",
    "airflow.providers.standard.operators",
)
SDK = {
    "airflow.sdk.bases.operatorlink",
    "airflow.sdk.bases.resumablejobmixin",
    "airflow.sdk.configuration",
    "airflow.sdk.definitions.retry_policy",
    "airflow.sdk.exceptions",
}
"""Modules below the SDK: its package exports what we take from them, but for the exceptions, which have no other place."""
_SETTINGS = "the deployment's settings outside of a task, where the SDK's own reader is none"
_MAPPED = "the type of what `partial().expand()` gives, which the SDK does not export; for annotations alone"
LEFT = {
    ("plugins/ratchet_airflow/public_links.py", "airflow.configuration"): _SETTINGS,
    ("plugins/ratchet_airflow/alerts/by_hand.py", "airflow.configuration"): _SETTINGS,
    ("plugins/ratchet_airflow/approval.py", "airflow.configuration"): _SETTINGS,
    ("plugins/ratchet_airflow/run_id.py", "airflow.configuration"): _SETTINGS,
    ("plugins/ratchet_airflow/dag.py", "airflow.sdk.definitions.mappedoperator"): _MAPPED,
    ("plugins/ratchet_airflow/shares.py", "airflow.sdk.definitions.mappedoperator"): _MAPPED,
    (
        "plugins/ratchet_airflow/task_states.py",
        "airflow.sdk.execution_time.task_runner",
    ): "a trigger, and a thread of a task, ask for the state of another task; the SDK exports no way without a context",
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
_TIMETABLE = "plugins/ratchet_airflow/timetable.py"
_TICKS = "the ticks of the schedule as Airflow counts them; CronPartitionTimetable has no public way to ask for one"
_GIVEN = "what the timetable was made with; CronPartitionTimetable keeps it there alone"
MEMBERS = {
    (_TIMETABLE, "_get_partition_date"): "a partition is the day before its tick; there is no other place to say so",
    (_TIMETABLE, "_get_next"): _TICKS,
    (_TIMETABLE, "_align_to_next"): _TICKS,
    (_TIMETABLE, "_align_to_prev"): _TICKS,
    (_TIMETABLE, "_expression"): _GIVEN,
    (_TIMETABLE, "_timezone"): _GIVEN,
}
"""(file, member of a class of Airflow): why."""

_OF_A_RUN = "the page of a run; the REST API names none, and `log_url` is of a task alone"
_OF_A_TASK = "in `log_url`, which is public as a whole; its parts are not"
_QUESTION = "the page of a question; HITLOperator makes its address with a query, and for an operator of its kind alone"
_RUNS, _CALLBACKS = "plugins/ratchet_airflow/watch/airflow_runs.py", "plugins/ratchet_airflow/alerts/callbacks.py"
_SITUATION = "plugins/ratchet_airflow/alerts/situation.py"
ROUTES = {
    (_RUNS, "/runs/{}"): _OF_A_RUN,
    (_RUNS, "/backfills"): "the page of a pipeline's backfills; the REST API names none",
    (_RUNS, "/tasks/"): "the watch has a task from the REST API, which gives it no `log_url`",
    (_RUNS, "?try_number="): "the watch has a task from the REST API, which gives it no `log_url`",
    (_RUNS, "/required_actions"): _QUESTION,
    (_CALLBACKS, "/tasks/"): _QUESTION,
    (_CALLBACKS, "/required_actions"): _QUESTION,
    (_SITUATION, "/tasks/"): _OF_A_TASK,
    (_SITUATION, "?try_number="): _OF_A_TASK,
}
"""(file, part of the address of a page of Airflow's UI): why. Airflow documents no address of a page."""
_MARK = "what is kept counts until a clear, which raises the number; Airflow says in no other way that there was one"
CLEARED = {
    "plugins/ratchet_airflow/waits.py": _MARK,
    "plugins/ratchet_airflow/outages.py": _MARK,
    "plugins/ratchet_airflow/approval.py": _MARK,
    "plugins/ratchet_airflow/reproduction.py": _MARK,
    "plugins/ratchet_airflow/operators.py": "after a clear a task does all of its work again; nothing else shows one",
    _CALLBACKS: "after a clear the try before has had its alert, or ended well; nothing else shows one",
}
"""Files that know a clear by `max_tries`: why. The number is public, and what a clear does to it is not."""
SETTINGS = {
    "scheduler.num_stuck_in_queued_retries": "Airflow's own comment: intentionally undocumented. Else a task that no worker takes "
    "fails for good after half an hour",
    "usage_data_collection.enabled": "Airflow 3.3 reads it no more; one that sends data again is off from its start",
}
"""Settings of Airflow that we set and that its reference does not have: why."""
NOT_HERE = {"celery", "fab"}
"""Sections of providers that only the team set-up's image has; their own documentation has them."""
_ROUTE = re.compile(r"/runs/\{\}|/tasks/|/required_actions|\?try_number=|(?<=\{\})/backfills")
_CLEARED = re.compile(r"""\["ti"\]\.max_tries|max_tries [!=]= """)


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
    assert {one for one in found if not is_public(one[1])} == set(LEFT)


def is_public(module: str) -> bool:
    """Whether Airflow's documentation calls a module public."""
    if module.startswith("airflow.sdk."):
        return module in SDK
    return any(module == name or module.startswith(f"{name}.") for name in PUBLIC)


def test_the_sdk_exports_what_is_taken_from_modules_below_it() -> None:
    exported = set(import_module("airflow.sdk").__all__)
    below = SDK - {"airflow.sdk.exceptions"}
    taken = {
        name.name
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.ImportFrom) and node.module in below
        for name in node.names
    }
    assert taken
    assert taken - exported == set()


def private_members(path: Path) -> Iterator[str]:
    """The members with an underscore that the classes of a module have from Airflow, and use or replace."""
    module = import_module(".".join(path.relative_to(ROOT / "plugins").with_suffix("").parts))
    for node in ast.walk(ast.parse(path.read_bytes())):
        if not isinstance(node, ast.ClassDef):
            continue
        made = getattr(module, node.name, None)
        theirs = [base for base in getattr(made, "__mro__", ()) if base.__module__.partition(".")[0] == "airflow"]
        if made is None or not theirs:
            continue
        defined = {one.name for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
        defined |= {one.id for part in node.body for one in ast.walk(part) if _is_written(one, part)}
        on_self = [one for one in ast.walk(node) if isinstance(one, ast.Attribute) and _is_self(one.value)]
        ours = defined | {one.attr for one in on_self if isinstance(one.ctx, ast.Store)}
        named = {name for name in ours | {one.attr for one in on_self} if name[:1] == "_" != name[1:2]}
        yield from (name for name in named if name not in ours or any(hasattr(base, name) for base in theirs))


def _is_written(one: ast.AST, part: ast.stmt) -> TypeGuard[ast.Name]:
    """Whether a name is one that a class sets in its body."""
    sets = isinstance(part, ast.Assign | ast.AnnAssign)
    return sets and isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)


def _is_self(node: ast.expr) -> bool:
    is_super = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"
    return is_super or (isinstance(node, ast.Name) and node.id in {"self", "cls"})


def test_what_is_private_of_airflows_classes_is_listed_with_why() -> None:
    files = sorted((ROOT / "plugins" / "ratchet_airflow").rglob("*.py"))
    found = {(file.relative_to(ROOT).as_posix(), name) for file in files for name in private_members(file)}
    assert found == set(MEMBERS)


def routes(path: Path) -> Iterator[str]:
    """The parts of addresses of Airflow's pages in a file's strings; `{}` is what an f-string puts in."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.JoinedStr):
            yield from _ROUTE.findall("".join(_word(part) for part in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _ROUTE.findall(node.value)


def _word(part: ast.expr) -> str:
    return str(part.value) if isinstance(part, ast.Constant) else "{}"


def test_the_pages_of_airflows_ui_that_we_link_to_are_listed_with_why() -> None:
    files = sorted((ROOT / "plugins").rglob("*.py"))
    found = {(file.relative_to(ROOT).as_posix(), route) for file in files for route in routes(file)}
    assert found == set(ROUTES)


def test_airflows_ui_has_the_pages_that_we_link_to() -> None:
    """Whether such a page opens is seen in tests/airflow/test_browser.py; this one fails first, at an upgrade."""
    assets = Path(airflow.__file__).parent / "ui" / "dist" / "assets"
    text = "\n".join(file.read_text(encoding="utf-8") for file in assets.glob("*.js"))
    for part in ("dags/:dagId/runs/:runId/tasks/:taskId", "required_actions", "backfills", "try_number"):
        assert f"`{part}`" in text or f'"{part}"' in text, part


def test_where_a_clear_is_known_by_a_number_of_the_task_is_listed_with_why() -> None:
    files = sorted((ROOT / "plugins").rglob("*.py"))
    found = {file.relative_to(ROOT).as_posix() for file in files if _CLEARED.search(file.read_text(encoding="utf-8"))}
    assert found == set(CLEARED)


def test_settings_that_airflow_does_not_document_are_listed_with_why() -> None:
    reference = yaml.safe_load((Path(airflow.__file__).parent / "config_templates" / "config.yml").read_bytes())
    known = {f"{section}.{name}" for section, content in reference.items() for name in content["options"]}
    folders = ("docker", "local", "team", "plugins", "demo")
    files = [ROOT / "docker-compose.yaml", *(file for folder in folders for file in (ROOT / folder).rglob("*"))]
    texts = [file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file()]
    given = {
        f"{section}.{name}".lower()
        for text in texts
        for section, name in re.findall(r"AIRFLOW__([A-Z]+(?:_[A-Z]+)*)__([A-Z]+(?:_[A-Z]+)*)", text)
    }
    assert len(given & known) > len(SETTINGS)
    assert {name for name in given - known if name.partition(".")[0] not in NOT_HERE} == set(SETTINGS)


def test_an_address_of_a_page_is_seen_in_an_f_string_and_in_a_plain_one(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text("a = f'{url}/dags/{dag}/runs/{run}'\nb = '?try_number=1'\nc = '/dags/~/dagRuns/list'\n")
    assert sorted(routes(file)) == ["/runs/{}", "?try_number="]


def test_an_import_is_seen_wherever_it_is(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        "import airflow.models\ndef f():\n    from airflow import settings\n    from airflow.sdk import DAG\n"
    )
    assert [*imported(file)] == ["airflow.models", "airflow.settings", "airflow.sdk"]
