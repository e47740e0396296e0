"""What the scheduler loads for its tasks, and what the watch looks at."""

import ast
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from ratchet_airflow import listener, operators


def test_what_a_task_imports_late_is_loaded_before_the_scheduler_forks() -> None:
    tree = ast.parse(Path(operators.__file__).read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    late = {str(node.module) for made in functions for node in ast.walk(made) if isinstance(node, ast.ImportFrom)}
    program = "import sys; from ratchet_airflow.listener import load_for_tasks; load_for_tasks(); print(*sys.modules)"
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, env=found)
    assert late
    assert late <= {*done.stdout.split()}


@pytest.mark.parametrize(("dag_id", "noted"), [("search-ranking", True), (listener.REAPER, False)])
def test_a_pipelines_run_is_watched_and_the_reapers_is_not(dag_id: str, *, noted: bool) -> None:
    listener._active.clear()
    listener.on_dag_run_running(SimpleNamespace(dag_id=dag_id), "")
    assert listener._active.is_set() is noted
