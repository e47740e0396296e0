"""parse: time per pipeline to build DAGs of 200 pipelines, without the import of Airflow."""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import Result
from ratchet.checkout import PIPELINES, ROOT
from ratchet.contracts.environment import variable

_PROGRAM = """
import runpy, sys, time
import airflow.sdk, airflow.timetables.trigger, airflow.providers.standard.operators.hitl
runpy.run_path(sys.argv[1])
import os
os.environ[sys.argv[3]] = sys.argv[2]
start = time.perf_counter()
found = runpy.run_path(sys.argv[1])
seconds = time.perf_counter() - start
dags = [value for value in found.values() if type(value).__name__ == "DAG"]
print(len(dags), seconds)
"""


def run(*, full: bool) -> Result:
    """The median of five parses of 200 pipelines (three without --full), each in a separate process."""
    count = 200
    text = (PIPELINES / "search-ranking" / "pipeline.yaml").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as empty:
        for number in range(count):
            pipeline = Path(folder) / f"p{number:03d}"
            pipeline.mkdir()
            named = text.replace("name: search-ranking", f"name: p{number:03d}")
            (pipeline / "pipeline.yaml").write_text(named, encoding="utf-8")
        environment = {
            **os.environ,
            "AIRFLOW_HOME": empty,
            variable("pipelines"): empty,
            "PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}",
        }
        dag_file = str(ROOT / "dags" / "ratchet_pipelines.py")
        command = (sys.executable, "-W", "ignore", "-c", _PROGRAM, dag_file, folder, variable("pipelines"))
        times = []
        for _ in range(5 if full else 3):
            done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
            made, seconds = done.stdout.split()[-2:]
            if int(made) != count:
                raise RuntimeError(f"{made} DAGs instead of {count}: {done.stderr[-500:]}")
            times.append(float(seconds))
    each = statistics.median(times) / count * 1000
    return Result(
        name="parse",
        ratio=each,
        goal=5.0,
        unit="ms per pipeline",
        ours=each,
        peer=5.0,
        peer_name="the goal itself",
        rows=(
            ("pipelines", str(count)),
            ("whole parse, median", f"{statistics.median(times):.3f} s"),
            ("per pipeline", f"{each:.2f} ms"),
        ),
    )
