"""`ratchet run`: runs all stages on this machine, without Airflow, with the same contract and the same cache."""

import argparse
import json
import secrets
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from ratchet.cli.display import Display
from ratchet.cli.json_error import error_object
from ratchet.cli.pipelines import add_pipeline, add_store, as_text, find, overrides
from ratchet.cli.user import user_at_host
from ratchet.contracts.dates import between, data_date, parse_date
from ratchet.contracts.environment import environment
from ratchet.contracts.errors import ConfigurationError, RatchetError
from ratchet.contracts.gate_keys import refuse_promotion
from ratchet.contracts.loading import load
from ratchet.contracts.stages import STAGES
from ratchet.runners.choice import choose_image, choose_runner
from ratchet.runners.devices import require_devices
from ratchet.runs.local_run import LocalRun, run_stages
from ratchet.runs.planning import make_plan

_JSON = """\
--json prints an object; with --from a list of objects, one for each date. What is wrong before the first stage is an
object with an error, too:
  date      the data date; null if none is known yet
  verdict   promote, reject or inconclusive; null if the run ended without a verdict
  reason    the verdict in one sentence with its figures; without a verdict, the cause of the error, or null
  metrics   candidate and baseline: a value for each metric; empty without a verdict
  model     name and version as registered, or null
  production  what the ledger names at the end: version, record, live (whether it is this run's model); finding and
            unchecked say where ledger and registry do not agree or could not be compared
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
        help="how stages run (default: docker where an engine is set up, else process)",
    )
    parser.add_argument(
        "--promote",
        choices=("auto", "never", "latest"),
        help="whether this run may promote, at most what register.promote of the file allows; a model that would be "
        "promoted becomes a version of the registry in either case; latest, with --from and --to: only the last date "
        "may, judged against production, and the others are judged along their own winners (default: register.promote "
        "of pipeline.yaml; never with --from and --to)",
    )
    parser.add_argument(
        "--as-of",
        choices=("then", "now"),
        default="now",
        help="then: the data as the first run of the date that came to a verdict saw them, from the snapshot, even if "
        "the source has changed or is gone; now: the data as they are, with later changes (default: now)",
    )
    parser.add_argument("--rebuild", action="store_true", help="build every stage again, even if its result is cached")
    parser.add_argument(
        "--json", action="store_true", help="print the result as JSON on standard output, and nothing else (see below)"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    shown: list[dict[str, Any]] = []
    code = 0
    try:
        for ended in _runs(options):
            shown.append(as_json(ended))
            code = max(code, int(ended.error.code) if ended.error else 0)
    except RatchetError as error:
        if options.json:
            _print(options, [*shown, before_stages(error)])
        raise
    if options.json:
        _print(options, shown)
    return code


def _print(options: argparse.Namespace, shown: list[dict[str, Any]]) -> None:
    json.dump(shown if options.first is not None else shown[0], sys.stdout, indent=2)
    print()


def _runs(options: argparse.Namespace) -> Iterator[LocalRun]:
    """Run every date, and yield how each run ended. Raises what is wrong before the first stage of one."""
    folder = find(options.pipeline)
    changed = overrides(options.set)
    spec = load(folder, changed)
    zone = spec.schedule.timezone if spec.schedule else "UTC"
    days = _days(options, zone)
    require_devices(spec.resources["train"].gpus, "resources.train")
    runner, how = choose_runner(options.runner)
    image, named = choose_image(runner, gpu=spec.resources["train"].gpus > 0)
    chain = f"local-{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}" if options.first is not None else ""
    _refuse_latest(options, folder, spec.name)
    for day in days:
        last = options.promote == "latest" and day == days[-1]
        with Display(spec.name, day, how + named, spec.sequence) as display:
            plan = make_plan(
                folder=folder,
                spec=spec,
                data_date=day,
                run_id=f"local-{day}-{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}",
                kind="local",
                store_uri=options.store,
                tracking_uri=environment().tracking_uri,
                overrides=as_text(changed),
                started_by=user_at_host(),
                rebuild=options.rebuild,
                promote=options.promote if options.promote != "latest" else "auto" if last else "never",
                image=image,
                as_of=options.as_of,
                chain=chain,
                latest=last,
            )
            ended = run_stages(plan, runner, on_stage=display.stage, on_event=display.event)
            display.end(ended)
        yield ended


def _refuse_latest(options: argparse.Namespace, folder: Path, pipeline: str) -> None:
    """Refuse what the last date of many would refuse, before the first one runs."""
    if options.promote != "latest":
        return
    if options.first is None:
        raise ConfigurationError(
            "--promote latest is for a range of dates", remedy="give --from and --to, or --promote auto for one date"
        )
    refuse_promotion("auto", load(folder).register_.promote, pipeline)


def _days(options: argparse.Namespace, zone: str) -> tuple[date, ...]:
    ranged = options.first is not None
    if ranged != (options.last is not None) or (ranged and options.date is not None):
        raise ConfigurationError(
            "--from and --to go together, without --date", remedy="give both, or give --date alone"
        )
    if ranged:
        return between(parse_date(options.first, "--from"), parse_date(options.last, "--to"))
    if options.date is not None:  # an empty text is no date, and not yesterday
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
        "production": production(run),
        "stages": [
            {"name": stage, "state": done.state, "seconds": done.seconds, "cached": done.cached}
            for stage in STAGES
            if (done := run.outcomes.get(stage))
        ],
        "report": run.report,
        "error": error_object(run.error) if run.error else None,
    }


def production(run: LocalRun) -> dict[str, Any]:
    """What is in production at the end of a run. version is None if nothing is."""
    found = run.production
    return {
        "version": found.live.version if found.live else None,
        "record": found.live.number if found.live else None,
        "live": run.in_production == "in production",
        "finding": found.finding.model_dump() if found.finding else None,
        "unchecked": found.unchecked or None,
    }


def before_stages(error: RatchetError) -> dict[str, Any]:
    """The same keys for a run that no stage of has started."""
    return {
        "date": None,
        "verdict": None,
        "reason": error.cause,
        "metrics": {"candidate": {}, "baseline": {}},
        "model": None,
        "production": None,
        "stages": [],
        "report": None,
        "error": error_object(error),
    }
