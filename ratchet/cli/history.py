"""`ratchet history MODEL`: every change of production, with who, why, and how long."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ratchet.cli.json_error import error_object
from ratchet.cli.model_version import split
from ratchet.cli.pipelines import add_store
from ratchet.contracts.errors import ConfigurationError, RatchetError
from ratchet.contracts.gate_keys import gate_keys
from ratchet.contracts.quantities import percent
from ratchet.production.history import Reign, history
from ratchet.store.opening import open_store

_HEADINGS = ("record", "action", "version", "in office for", "data", "gain", "who", "why")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.add_argument("model", metavar="MODEL", help="the registered model (default name: that of the pipeline)")
    add_store(parser)
    parser.add_argument(
        "--json",
        action="store_true",
        help="print JSON on standard output, and nothing else: a list of records, or an object with an error",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    try:
        model, _ = split(options.model, version=False)
        reigns = history(open_store(options.store), model)
        if not reigns:
            raise ConfigurationError(
                f"no model {model!r} was ever in production in {options.store}",
                remedy="check --store and the name: register.model of the pipeline, or the pipeline's own; `ratchet "
                f"doctor {model}` says whether its ledger is lost",
            )
    except RatchetError as error:
        if options.json:
            print(json.dumps({"error": error_object(error)}, indent=2))
        raise
    if options.json:
        json.dump([_as_json(reign) for reign in reigns], sys.stdout, indent=2)
        print()
    else:
        print("\n".join(table(reigns)))
    return 0


def _as_json(reign: Reign) -> dict[str, Any]:
    """A record with its dates in office."""
    dates = {"first": reign.first, "last": reign.last}
    shown = {name: value.isoformat() if value else None for name, value in dates.items()}
    return {**reign.record.model_dump(mode="json"), "in_office": shown}


def table(reigns: Sequence[Reign]) -> Iterator[str]:
    """The lines of the table."""
    banned = {ban.digest: ban.version for reign in reigns for ban in reign.record.bans}
    rows = [_HEADINGS, *(_cells(reign, banned) for reign in reigns)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _cells(reign: Reign, banned: Mapping[str, str]) -> tuple[str, ...]:
    """banned: the versions of the digests that were ever banned, for a release names digests."""
    record = reign.record
    released = ",".join(dict.fromkeys(banned[digest] for digest in record.released if digest in banned))
    office = f"{reign.first} to {reign.last or 'now'}" if reign.first else "-"
    names = [one.name for one in record.approvals if one.name != record.started_by]
    approved = f", approved by {', '.join(names)}" if names else ""
    changed = ", ".join(f"{key}={record.overrides[key]}" for key in gate_keys(record.overrides))
    return (
        str(record.number),
        f"{record.action} of {released}" if released else record.action,
        record.version,
        office,
        str(record.data_date),
        percent(record.gain.value) if record.gain else "",
        f"{record.started_by or 'schedule'}{approved}",
        f"with {changed} for this run: {record.reason}" if changed else record.reason,
    )
