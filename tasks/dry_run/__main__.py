"""The dry run of a pipeline, in a process of its own: `python -m tasks.dry_run FOLDER MEMORY SECONDS PARENT`.

FOLDER has the pipeline's spec and its files; the report goes there. MEMORY in bytes; SECONDS for the pipeline's code.
The exit code means nothing: a report without its last line is that of a process that ended too soon.

A change here violates the promise of the project when the pipeline's code runs before the limits are set.
"""

import gc
import os
import sys
from pathlib import Path

from tasks.dry_run import limits


def main(arguments: list[str]) -> None:
    """Set the limits, load the libraries, and try the pipeline's code."""
    scratch, memory, seconds, parent = Path(arguments[0]), int(arguments[1]), float(arguments[2]), int(arguments[3])
    limits.restrict(memory=memory, parent=parent)
    gc.disable()  # a tenth of the time that torch takes to load
    from tasks.dry_run.report import Report

    report = Report(scratch / "report")
    report.step("loading the libraries of the stages")
    from ratchet.contracts.pipeline import PipelineSpec
    from tasks.dry_run.features import try_features
    from tasks.dry_run.metric import try_metrics
    from tasks.dry_run.step import try_training

    spec = PipelineSpec.model_validate_json((scratch / "spec.json").read_bytes())
    with (scratch / "trace").open("w", encoding="utf-8") as trace:
        limits.end_after(seconds, trace)
        encoded = try_features(spec, scratch / "code", scratch, report)
        try_training(spec, scratch / "code", encoded, report, memory)
        try_metrics(spec, scratch / "code", encoded, report)
        report.done()
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
