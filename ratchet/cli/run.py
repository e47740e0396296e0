"""`ratchet run`: all stages on this machine, without Airflow. Same contract, same cache."""

import argparse
import json
import os
import secrets
import sys
from datetime import UTC, date, datetime
from typing import Any

from ratchet.cli.display import Display
from ratchet.cli.pipelines import add_pipeline, add_store, find, overrides
from ratchet.contracts.dates import between, data_date, parse_date
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.loading import load
from ratchet.contracts.stages import STAGES
from ratchet.runners.choice import choose_image, choose_runner
from ratchet.runs.local_run import Night, run_night
from ratchet.runs.planning import make_plan

_JSON = """\
--json prints an object, with --from a list of them, a night each:
  date      the data date
  verdict   promote, reject or inconclusive; null where the run did not come to one
  reason    in one sentence with its figures, why the verdict is what it is; without a verdict, why there is none: the
            cause of the error, or null
  metrics   candidate and baseline, each a value by metric; empty without a verdict
  model     name and version as registered, or null
  stages    for each that was come to: name, state (done, skipped, failed), seconds, cached
  report    the address of the report, or null
  error     null, or code (the exit code), cause, remedy
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _JSON
    add_pipeline(parser)
    add_store(parser)
    parser.add_argument("--date", metavar="D", help="the data date (default: yesterday in the pipeline's time zone)")
    parser.add_argument("--from", dest="first", metavar="D1", help="with --to: every night from D1 to D2, in order")
    parser.add_argument("--to", dest="last", metavar="D2", help="the last of several nights")
    parser.add_argument(
        "--runner", choices=("process", "docker"), help="how stages run (default: docker where there is an engine)"
    )
    parser.add_argument(
        "--promote", choices=("auto", "never"), help="may this run move production? (default: as the file says)"
    )
    parser.add_argument("--rebuild", action="store_true", help="build every stage, whatever is cached")
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
    nights: list[Night] = []
    for day in days:
        with Display(spec.name, day, how + named) as display:
            plan = make_plan(
                folder=folder,
                spec=spec,
                data_date=day,
                run_id=f"local-{day}-{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}",
                kind="local",
                store_uri=options.store,
                tracking_uri=os.environ.get("MLFLOW_TRACKING_URI"),
                overrides={key: str(value) for key, value in changed.items()},
                rebuild=options.rebuild,
                promote=options.promote,
                image=image,
            )
            night = run_night(plan, runner, on_stage=display.stage, on_event=display.event)
            display.end(night)
        nights.append(night)
    if options.json:
        shown = [as_json(night) for night in nights]
        json.dump(shown if options.first else shown[0], sys.stdout, indent=2)
        print()
    return max((int(night.error.code) for night in nights if night.error), default=0)


def _days(options: argparse.Namespace, zone: str) -> tuple[date, ...]:
    if bool(options.first) != bool(options.last) or (options.first and options.date):
        raise ConfigurationError("--from and --to go together, without --date", remedy="give both, or --date alone")
    if options.first:
        return between(parse_date(options.first, "--from"), parse_date(options.last, "--to"))
    if options.date:
        return (parse_date(options.date, "--date"),)
    return (data_date(run_after=datetime.now(UTC), timezone=zone),)


def as_json(night: Night) -> dict[str, Any]:
    """The result of a night, as `--json` prints it. verdict is None where the run did not come to one."""
    judged, registered = night.judgement, night.registration
    return {
        "date": night.plan.data_date.isoformat(),
        "verdict": judged.verdict if judged else None,
        "reason": judged.explanation if judged else (night.error.cause if night.error else None),
        "metrics": {
            "candidate": judged.candidate_metrics if judged else {},
            "baseline": judged.baseline_metrics if judged else {},
        },
        "model": {"name": registered.model, "version": registered.version} if registered else None,
        "stages": [
            {"name": stage, "state": done.state, "seconds": done.seconds, "cached": done.cached}
            for stage in STAGES
            if (done := night.outcomes.get(stage))
        ],
        "report": night.report,
        "error": {"code": int(night.error.code), "cause": night.error.cause, "remedy": night.error.remedy}
        if night.error
        else None,
    }
