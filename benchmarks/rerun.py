"""rerun: wall of a fully cached DAG run over that of the first run, both through a real Airflow in real containers."""

import tempfile
from pathlib import Path

from benchmarks.airflow_run import sandbox
from benchmarks.measure import Result

_ROWS = 100_000


def run(*, full: bool) -> Result:  # noqa: ARG001 - its one size is the goal's own
    """One first night, then the same night twice again; the faster of the two counts."""
    with tempfile.TemporaryDirectory(prefix="ratchet-rerun-") as folder:
        home = Path(folder)
        home.chmod(0o755)
        with sandbox(home, rows_per_day=_ROWS) as airflow:
            first = airflow.night()
            reruns = [airflow.night() for _ in range(2)]
    ended = [outcome for night in reruns for outcome in night.outcomes.values() if outcome.state != "skipped"]
    if built := [outcome.stage for outcome in ended if not outcome.cached]:
        raise RuntimeError(f"not cached: {', '.join(built)}")
    again = min(night.seconds for night in reruns)
    return Result(
        name="rerun",
        ratio=again / first.seconds,
        goal=0.10,
        unit="of the first run",
        ours=again,
        peer=first.seconds,
        peer_name="the first run",
        rows=(("first run", f"{first.seconds:.1f} s"), ("cached run", f"{again:.1f} s")),
    )
