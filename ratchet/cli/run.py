"""`ratchet run`: runs all stages on this machine, without Airflow, with the same contract and the same cache."""

import argparse
import json
import secrets
import sys
from datetime import UTC, date, datetime
from typing import Any

from ratchet.cli.display import Display
from ratchet.cli.pipelines import add_pipeline, add_store, find, overrides
from ratchet.contracts.dates import between, data_date, parse_date
from ratchet.contracts.environment import environment
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.loading import load
from ratchet.contracts.stages import STAGES
from ratchet.runners.choice import choose_image, choose_runner
from ratchet.runs.local_run import LocalRun, run_stages
from ratchet.runs.planning import make_plan

_JSON = """\
--json prints an object; with --from a list of objects, one for each date:
  date      the data date
  verdict   promote, reject or inconclusive; null if the run ended without a verdict
  reason    the verdict in one sentence with its figures; without a verdict, the cause of the error, or null
  metrics   candidate and baseline: a value for each metric; empty without a verdict
  model     name and version as registered, or null
  stages    for each stage that started: name, state (done, skipped, failed), seconds, cached
  report    the address of the report, or null
  error     null, or code (the exit code), cause, remedy
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _JSON
    add_pipeline(parser)
    add_store(parser)
    parser.add_argument(
        "--date", metavar="D", help="the data date, as YYYY-MM-DD (default: yesterday in the pipeline's time zone)"
    )
    parser.add_argument("--from", dest="first", metavar="D1", help="run every date from D1 to D2, in order; needs --to")
    parser.add_argument("--to", dest="last", metavar="D2", help="the last date; needs --from")
    parser.add_argument(
        "--runner",
        choices=("process", "docker"),
        help="how stages run (default: docker where an engine answers, else process)",
    )
    parser.add_argument(
        "--promote",
        choices=("auto", "never"),
        help="whether this run may promote; a model that would be promoted becomes a version of the registry in either "
        "case (default: register.promote of pipeline.yaml)",
    )
    parser.add_argument("--rebuild", action="store_true", help="build every stage again, even if its result is cached")
    parser.add_argument(
        "--json", action="store_true", help="print the result as JSON on standard output, and nothing else (see below)"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    folder = find(options.pipeline)
    changed = overrides(options.set)
    spec = load(folder, changed)
    zone = spec.schedule.timezone if spec.schedule else "UTC"
    days = _days(options, zone)
    runner, how = choose_runner(options.runner)
    image, named = choose_image(runner, gpu=spec.resources["train"].gpus > 0)
    runs: list[LocalRun] = []
    for day in days:
        with Display(spec.name, day, how + named) as display:
            plan = make_plan(
                folder=folder,
                spec=spec,
                data_date=day,
                run_id=f"local-{day}-{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}",
                kind="local",
                store_uri=options.store,
                tracking_uri=environment().tracking_uri,
                overrides={key: str(value) for key, value in changed.items()},
                rebuild=options.rebuild,
                promote=options.promote,
                image=image,
            )
            ended = run_stages(plan, runner, on_stage=display.stage, on_event=display.event)
            display.end(ended)
        runs.append(ended)
    if options.json:
        shown = [as_json(ended) for ended in runs]
        json.dump(shown if options.first else shown[0], sys.stdout, indent=2)
        print()
    return max((int(ended.error.code) for ended in runs if ended.error), default=0)


def _days(options: argparse.Namespace, zone: str) -> tuple[date, ...]:
    if bool(options.first) != bool(options.last) or (options.first and options.date):
        raise ConfigurationError(
            "--from and --to go together, without --date", remedy="give both, or give --date alone"
        )
    if options.first:
        return between(parse_date(options.first, "--from"), parse_date(options.last, "--to"))
    if options.date:
        return (parse_date(options.date, "--date"),)
    return (data_date(run_after=datetime.now(UTC), timezone=zone),)


def as_json(run: LocalRun) -> dict[str, Any]:
    """The result of a run, as `--json` prints it. verdict is None if the run has none."""
    judged, registered = run.judgement, run.registration
    return {
        "date": run.plan.data_date.isoformat(),
        "verdict": judged.verdict if judged else None,
        "reason": judged.explanation if judged else (run.error.cause if run.error else None),
        "metrics": {
            "candidate": judged.candidate_metrics if judged else {},
            "baseline": judged.baseline_metrics if judged else {},
        },
        "model": {"name": registered.model, "version": registered.version} if registered else None,
        "stages": [
            {"name": stage, "state": done.state, "seconds": done.seconds, "cached": done.cached}
            for stage in STAGES
            if (done := run.outcomes.get(stage))
        ],
        "report": run.report,
        "error": {"code": int(run.error.code), "cause": run.error.cause, "remedy": run.error.remedy}
        if run.error
        else None,
    }
