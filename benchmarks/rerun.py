"""rerun: wall of a fully cached DAG run over that of the first run, both through a real Airflow in real containers."""

import tempfile
from pathlib import Path

from benchmarks.airflow_run import sandbox
from benchmarks.measure import Result


def run(*, full: bool) -> Result:
    """One first night, then the same night twice again; the faster of the two counts."""
    with tempfile.TemporaryDirectory(prefix="ratchet-rerun-") as folder:
        home = Path(folder)
        home.chmod(0o755)
        with sandbox(home, rows_per_day=100_000 if full else 20_000) as airflow:
            first = airflow.night()
            again = min(airflow.night() for _ in range(2))
    return Result(
        name="rerun",
        ratio=again / first,
        goal=0.10,
        unit="of the first run",
        ours=again,
        peer=first,
        peer_name="the first run",
        rows=(("first run", f"{first:.1f} s"), ("cached run", f"{again:.1f} s")),
    )
