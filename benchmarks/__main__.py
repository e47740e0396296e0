"""`python -m benchmarks [NAME ...] [--full]`: measure, print a table, and report as JSON whether the goal holds."""

import argparse
import sys
from importlib import import_module

from benchmarks.measure import Result

NAMES = (
    "parse",
    "hop",
    "follow",
    "night200",
    "night200-team",
    "rerun",
    "logs",
    "backfill",
    "notices",
    "alerts",
    "gate",
    "evaluate",
    "quality",
    "independence",
    "embedding",
    "tables",
    "step",
    "loader",
    "memory-train",
    "train-cpu",
    "train-gpu",
    "checkpoint",
    "goodput",
    "warm",
    "serve",
    "ingest",
    "validate",
    "memory",
    "encode",
    "join",
    "night",
    "gc",
    "gc-s3",
    "upgrade",
    "two-engines",
    "corruptions",
    "suggestions",
    "pages",
)


def main() -> int:
    """Run the benchmarks; 0 if every goal holds, 1 if one does not, 2 if a benchmark could not run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one or more of: {', '.join(NAMES)} (default: all)")
    parser.add_argument("--full", action="store_true", help="use the size that the goal names, not the quick one")
    options = parser.parse_args()
    if unknown := sorted(set(options.names) - set(NAMES)):
        parser.error(f"unknown: {', '.join(unknown)}; allowed: {', '.join(NAMES)}")
    code = 0
    for name in options.names or NAMES:
        try:
            result: Result = import_module(f"benchmarks.{name.replace('-', '_')}").run(full=options.full)
        except Exception as error:  # noqa: BLE001 - any exception is a reason why the benchmark could not run
            print(f"{name}: could not run: {type(error).__name__}: {error}", file=sys.stderr)
            code = 2
            continue
        result.show()
        code = max(code, 0 if result.holds else 1)
    return code


if __name__ == "__main__":
    sys.exit(main())
