"""What the scheduler loads for its tasks."""

import ast
import os
import subprocess
import sys
from pathlib import Path

from ratchet_airflow import deferring, leaving, operators


def test_what_a_task_imports_late_is_loaded_before_the_scheduler_forks() -> None:
    modules = (operators, leaving, deferring)
    trees = [ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8")) for module in modules]
    functions = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    late = {str(node.module) for made in functions for node in ast.walk(made) if isinstance(node, ast.ImportFrom)}
    program = "import sys; from ratchet_airflow.listener import load_for_tasks; load_for_tasks(); print(*sys.modules)"
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, env=found)
    assert late
    assert late <= {*done.stdout.split()}
