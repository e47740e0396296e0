"""How much of the code the tests ran, lines and branches: `covered.py FILE...`, of SlipCover's JSON.

Ends with 1 if that is less than FLOORS ask for. What was not run is named by file.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slipcover import merge_coverage
from slipcover.slipcover import format_missing

FLOORS = {"ratchet/contracts/": 100.0, "": 90.0}
"""Percent, by how a file's path begins; the first that fits counts."""


def main(files: list[str]) -> int:
    """Print what is missing, and the share of each group."""
    whole, *more = (json.loads(Path(file).read_text(encoding="utf-8")) for file in files)
    for each in more:
        merge_coverage(whole, each)
    run = dict.fromkeys(FLOORS, 0)
    all_of = dict.fromkeys(FLOORS, 0)
    for path, found in sorted(whole["files"].items()):
        group = next(start for start in FLOORS if path.startswith(start))
        done, missing = (_count(found, which) for which in ("executed", "missing"))
        run[group] += done
        all_of[group] += done + missing
        if missing:
            branches = [tuple(branch) for branch in found["missing_branches"]]
            print(f"{path}: {format_missing(found['missing_lines'], found['executed_lines'], branches)}")
    good = True
    for group, floor in FLOORS.items():
        share = 100 * run[group] / max(all_of[group], 1)
        good = good and share >= floor
        name = group or "the rest"
        print(f"covered: {name}: {share:.1f} % of {all_of[group]} lines and branches; at least {floor:.0f} %")
    return 0 if good else 1


def _count(found: Mapping[str, list[Any]], which: str) -> int:
    return len(found[f"{which}_lines"]) + len(found[f"{which}_branches"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
