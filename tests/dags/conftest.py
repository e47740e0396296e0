"""Airflow as a library: a home of its own, and the plugins folder, as every Airflow component has it."""

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

if "AIRFLOW_HOME" not in os.environ:  # read once, when airflow is first imported
    os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="ratchet-airflow-")
    atexit.register(shutil.rmtree, os.environ["AIRFLOW_HOME"], ignore_errors=True)
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
os.environ["AIRFLOW__CORE__PLUGINS_FOLDER"] = str(ROOT / "plugins")
os.environ["AIRFLOW__CORE__DAGS_FOLDER"] = str(ROOT / "dags")
if str(ROOT / "plugins") not in sys.path:
    sys.path.insert(0, str(ROOT / "plugins"))
