"""`ratchet reproduce MODEL@VERSION`: builds a registered version again from its record, and says how like it is."""

import argparse
import json
import sys
from contextlib import ExitStack
from typing import Any

from ratchet.cli.display import Display
from ratchet.cli.json_error import error_object
from ratchet.cli.pipelines import add_store
from ratchet.cli.user import user_at_host
from ratchet.contracts.errors import ConfigurationError, RatchetError
from ratchet.contracts.reproduction import TOLERANCE
from ratchet.contracts.request import Outcome
from ratchet.contracts.stages import Stage
from ratchet.contracts.version_record import VersionRecord
from ratchet.runners.choice import choose_image, choose_runner
from ratchet.runs.events import Event
from ratchet.runs.ingredients import computed
from ratchet.runs.reproduction import in_words, reproduce
from ratchet.store.opening import open_store
from ratchet.store.version_records import read_record

_CODES = """\
exit codes:
  0   bit-equal: weights and held-out scores have the same bits
  1   within tolerance
  3   diverged: the first step with other bits is named
  66  not rebuilt: an ingredient is gone, and named
  the others are those of a stage (64 bad configuration, 69 not available, ...)
Code, libraries or a device that differ are named in any case. On another device or processor other bits are expected.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _CODES
    parser.add_argument("version", metavar="MODEL@VERSION", help="a registered version, as search-ranking@3")
    add_store(parser)
    parser.add_argument(
        "--runner",
        choices=("process", "docker"),
        help="how stages run (default: docker where an engine is set up, else process)",
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        default=TOLERANCE,
        metavar="X",
        help="the largest relative difference of weights, scores and metric that counts as within tolerance "
        f"(default: {TOLERANCE:g})",
    )
    parser.add_argument(
        "--chain",
        action="store_true",
        help="build the versions that it began with again too (train.init: champion); without this, only those whose "
        "weights are gone",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the answer as JSON on standard output, and nothing else"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    try:
        return _reproduce(options)
    except RatchetError as error:
        if options.json:
            print(json.dumps({"error": error_object(error)}, indent=2))
        raise


def _reproduce(options: argparse.Namespace) -> int:
    model, version = parse(options.version)
    store = open_store(options.store)
    record = read_record(store, model, version)
    runner, how = choose_runner(options.runner)
    image, named = choose_image(runner, gpu=record.spec.resources["train"].gpus > 0)
    with ExitStack() as displays:
        shown: list[Display] = []

        def show(one: VersionRecord) -> None:
            displays.close()
            title = f"{one.model}@{one.version}:"
            shown.append(displays.enter_context(Display(title, one.data_date, how + named, computed(one))))

        def on_stage(stage: Stage, outcome: Outcome | None) -> None:
            shown[-1].stage(stage, outcome)

        def on_event(stage: Stage, event: Event) -> None:
            shown[-1].event(stage, event)

        said = reproduce(
            store,
            record,
            runner,
            image=image,
            started_by=user_at_host(),
            on_version=show,
            on_stage=on_stage,
            on_event=on_event,
            tolerance=options.tolerance,
            chain=options.chain,
        )
    if options.json:
        answer: dict[str, Any] = said.model_dump(mode="json")
        json.dump({**answer, "error": None}, sys.stdout, indent=2)
        print()
    else:
        print("\n".join(in_words(said)))
    return int(said.code)


def parse(given: str) -> tuple[str, str]:
    """(model, version) of `MODEL@VERSION`. Raises ConfigurationError for any other text."""
    model, separator, version = given.rpartition("@")
    if not separator or not model or not version:
        raise ConfigurationError(f"{given!r} is not MODEL@VERSION", remedy="write it like search-ranking@3")
    return model, version
