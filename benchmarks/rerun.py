"""rerun: wall time of a fully cached DAG run, relative to the first run, in a real Airflow with real containers."""

import tempfile
from pathlib import Path

from benchmarks.airflow_run import sandbox
from benchmarks.measure import Result

_ROWS = 100_000


def run(*, full: bool) -> Result:  # noqa: ARG001 - it has one size, the goal's
    """Run one night and repeat it twice; the faster repetition counts."""
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
