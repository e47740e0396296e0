"""`ratchet data purge` and `ratchet data expire`: what they take out of the store, said before and after it is done."""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any

from ratchet.cli.user import user_at_host
from ratchet.contracts.environment import variable
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.quantities import parse_duration
from ratchet.contracts.removal import LostVersion, Removal
from ratchet.pages.words import count
from ratchet.runs.data_days import newest_plan
from ratchet.store.opening import open_store

PURGE, EXPIRE = "purge", "expire"
NOTE = """\
  ratchet data purge PIPELINE --column C --values-from FILE --because WHY [--yes]    takes out every row of a key
  ratchet data expire PIPELINE --because WHY [--yes]    drops days that are older than source.keep_days

Both only say what they would do until --yes is given. A purge rewrites each version of each day without the rows,
deletes what was made of them, and leaves a record by which ingest takes the rows out of each later read of the source.
The record has a salted digest of the value. Interrupted, it is done by the same command, or by --resume if the keys are
lost. No stage of the pipeline starts until then. Models stay in production; those that were trained on the rows cannot
be reproduced any more.
Read docs/purge-and-retention.md first.
"""
_LONGEST = 36_600  # days: a hundred years
_OF_PURGE = {"--column": "column", "--value": "value", "--values-from": "values_from", "--resume": "resume"}
_OF_EXPIRE = {"--keep-days": "keep_days", "--also-archived": "also_archived"}
_OF_REMOVAL = {**_OF_PURGE, **_OF_EXPIRE, "--yes": "yes"}
_NOT_REACHED = f"""\
not reached:
  the source itself: delete the rows there; until then ingest takes them out of each read
  models, as they are in the store and in MLflow: what they learnt of the rows stays; train a new one and promote it
  ledger/ and shadow/ in the store, if a verdict names a slice by the value: a chain, which never changes; see the docs
  MLflow: descriptions of versions, tags ratchet.explanation, record.json beside a model, what people added: delete them
  what people wrote: pipeline files, which plans and bundles repeat, and reasons: name no key there
  old versions of objects in a bucket that keeps them: let its lifecycle delete them
  tables of joins that do not have the column: purge by their key (joins.NAME.on) too
  backups of the store, copies that people made: delete or replace them
  caches of other hosts ({variable("cache")}): delete their folders"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of both."""
    parser.add_argument("--column", metavar="C", help="with purge: the column of the key, as user_id")
    parser.add_argument("--value", action="append", default=[], metavar="V", help="with purge: a key; may be repeated")
    parser.add_argument("--values-from", type=Path, metavar="FILE", help="with purge: keys, one a line; - reads them")
    parser.add_argument(
        "--resume", type=int, metavar="N", help="with purge: one that was interrupted, in the place of column and keys"
    )
    parser.add_argument("--keep-days", type=int, metavar="N", help="with expire: in the place of source.keep_days")
    parser.add_argument(
        "--also-archived",
        action="store_true",
        help="with expire: also days that only versions name which neither are in production nor were before it",
    )
    parser.add_argument("--yes", action="store_true", help="with purge and expire: do it")
    parser.add_argument(
        "--wait", default="1m", metavar="T", help="with purge and expire: how long to wait for jobs (default: 1m)"
    )


def remove(options: argparse.Namespace) -> int:
    """Run either. Raises ConfigurationError for what is missing, or does not go with it."""
    what = options.words[0]
    match options.words[1:]:
        case [pipeline]:
            pass
        case _:
            raise ConfigurationError(f"{what} needs one pipeline", remedy=f"ratchet data {what} PIPELINE ...")
    others = given(options, _OF_EXPIRE if what == PURGE else _OF_PURGE)
    if others:
        raise ConfigurationError(f"{' and '.join(others)}: not with {what}", remedy="leave it out")
    if not (options.because or "").strip():
        raise ConfigurationError("--because is missing or empty", remedy="name the reason, without the key")
    who = " ".join((options.by or user_at_host()).split())
    said: dict[str, Any] = {"by": who, "because": " ".join(options.because.split()), "do": options.yes}
    try:
        said["wait_s"] = parse_duration(options.wait)
    except ValueError as error:
        raise ConfigurationError(f"--wait: {error}", remedy="give it as 30s or 10m") from None
    _check_texts({"--by": [said["by"]], "--because": [said["because"]], "--value": options.value})
    store = open_store(options.store)
    if what == PURGE:
        if options.column is None and options.resume is None:
            raise ConfigurationError("--column is missing", remedy="name the column of the key")
        keys = _values(options) if options.resume is None else []
        _check_words(keys, {"--by": said["by"], "--because": said["because"]})
        done = import_module("tasks.keeping.purge").purge(
            store, pipeline, options.column or "", keys, resume=options.resume, **said
        )
        lines, plain = [*_purged(done, pipeline)], _purged_json(done)
    else:
        days = _keep_days(options, store, pipeline)
        done = import_module("tasks.keeping.expire").expire(
            store, pipeline, days, archived=options.also_archived, **said
        )
        lines, plain = [*_expired(done, pipeline)], _expired_json(done)
    print(json.dumps(plain, indent=2) if options.json else "\n".join(lines))
    return 0


def given(options: argparse.Namespace, flags: Mapping[str, str] = _OF_REMOVAL) -> list[str]:
    """The flags that a person gave, of those of both."""
    values = {flag: getattr(options, name) for flag, name in flags.items()}
    return [flag for flag, value in values.items() if value is not None and value is not False and value != []]


def removed(removal: Removal) -> str:
    """A removal in a line: what, who, why, and which models it made impossible to build again."""
    days = {one.day for one in removal.days}
    what = f"rows of {count(len(days), 'day')}" if removal.kind == "purge" else count(len(days), "day")
    open_end = (
        "" if removal.ended is not None else f"; not ended, type the same command again, or --resume {removal.number}"
    )
    names = ", ".join(f"{one.model} version {one.version}" for one in removal.versions)
    return f"{what} {removal.line}{open_end}" + (f"; no longer reproducible: {names}" if names else "")


def _check_texts(texts: Mapping[str, Sequence[str]]) -> None:
    for flag, given_texts in texts.items():
        try:
            "".join(given_texts).encode()
        except UnicodeEncodeError:
            raise ConfigurationError(f"{flag} has bytes that are no UTF-8", remedy="give it as UTF-8") from None


def _check_words(values: Sequence[str], words: Mapping[str, str]) -> None:
    """The record of a purge repeats these words."""
    mask = import_module("tasks.keeping.texts").masking(values)
    for flag, text in words.items():
        if mask(text) != text:
            raise ConfigurationError(
                f"{flag} names a key, and the record of the purge would keep it", remedy=f"give {flag} without it"
            )


def _values(options: argparse.Namespace) -> list[str]:
    """The keys; a line of a file is one, with its blanks."""
    values: list[str] = list(options.value)
    if options.values_from is not None:
        is_input = str(options.values_from) == "-"
        try:
            data: bytes = sys.stdin.buffer.read() if is_input else options.values_from.read_bytes()
            text = data.decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            cause = error if isinstance(error, OSError) else f"byte {error.start} is no UTF-8"
            raise ConfigurationError(
                f"--values-from {options.values_from}: {cause}", remedy="name a text file with a key in each line"
            ) from None
        values += filter(None, (line.removesuffix("\r") for line in text.split("\n")))
    if not values:
        raise ConfigurationError("no key is given", remedy="name a file with --values-from, or a key with --value")
    if blanks := sum(value != value.strip() for value in values):
        print(f"warning: {count(blanks, 'key')} with a blank at an end, which is a part of the key", file=sys.stderr)
    return values


def _keep_days(options: argparse.Namespace, store: Any, pipeline: str) -> int:
    source = newest_plan(store, pipeline).spec.source
    days: int | None = source.keep_days if options.keep_days is None else options.keep_days
    if days is None:
        raise ConfigurationError(
            f"source.keep_days of {pipeline} is not set in the file of its newest run: days are kept for ever",
            remedy="set it in pipeline.yaml and run a night, or give --keep-days",
        )
    if days < source.window_days:
        raise ConfigurationError(
            f"--keep-days {days} is less than source.window_days, {source.window_days}",
            remedy=f"keep {source.window_days} days or more",
        )
    if days > _LONGEST:
        raise ConfigurationError(f"--keep-days {days} is more than {_LONGEST:,}", remedy="leave days as they are")
    return days


def _purged(done: Any, pipeline: str) -> Iterator[str]:
    days = Counter(one.file.day for one in done.found)
    rows = sum(one.rows for one in done.found)
    sizes = sum(one.file.entry.bytes for one in done.found)
    verb = "purged from" if done.done else "would be purged from"
    yield f"{pipeline}: {count(rows, 'row')} {verb} {count(len(days), 'day')} in {count(len(done.found), 'version')}"
    for one in done.found:
        left = "" if one.rows < one.total else "; no row is left"
        yield f"  {one.file.day}  version {one.file.sha256[:12]}  {one.rows:,} of {one.total:,} rows{left}"
    yield f"{count(done.unmatched, 'key')} of {done.keys:,} without any row in the files of days"
    yield f"files of days that are written again: {sizes:,} bytes"
    yield "what was made of these rows, deleted or written again:"
    for kind, number in sorted(done.counts.items()):
        yield f"  {kind}: {number:,} ({done.sizes.get(kind, 0):,} bytes)"
    yield from _versions(done.versions)
    if done.without:
        number = count(len(done.without), "file")
        yield f"{number} of days without this column, or with lists in it, cannot be searched: {_spans(done.without)}"
    yield _NOT_REACHED
    if not done.done:
        yield "nothing was changed; --yes does it"


def _spans(files: Sequence[Any]) -> str:
    days: list[date] = sorted({file.day for file in files})
    return f"{days[0]} to {days[-1]}"


def _versions(versions: Sequence[LostVersion]) -> Iterator[str]:
    if not versions:
        yield "no registered model was made from these rows"
        return
    yield "models that cannot be reproduced any more (they stay where they are):"
    for one in versions:
        how = "trained on" if one.trained else "measured on"
        yield f"  {one.model} version {one.version}: {how} rows of {count(len(one.days), 'of these days')[:-1]}"


def _expired(done: Any, pipeline: str) -> Iterator[str]:
    verb = "dropped" if done.done else "would be dropped"
    number = count(len(done.gone), "version")
    yield f"{pipeline}: days before {done.before}: {number} {verb}, {done.bytes:,} bytes freed"
    for file in done.gone:
        yield f"  {file.day}  version {file.sha256[:12]}  {verb}"
    for one in done.kept:
        yield f"  {one.file.day}  version {one.file.sha256[:12]}  stays: {one.why} names it"
    if not done.done:
        yield "nothing was changed; --yes does it"


def _purged_json(done: Any) -> dict[str, Any]:
    return {
        "done": done.done,
        "keys": done.keys,
        "keys_without_rows": done.unmatched,
        "days": [
            {"day": f"{one.file.day}", "version": one.file.sha256, "rows": one.rows, "of": one.total}
            for one in done.found
        ],
        "bytes": sum(one.file.entry.bytes for one in done.found),
        "copies": done.counts,
        "without_column": sorted({f"{file.day}" for file in done.without}),
        "versions": [one.model_dump(mode="json") for one in done.versions],
    }


def _expired_json(done: Any) -> dict[str, Any]:
    return {
        "done": done.done,
        "before": f"{done.before}",
        "gone": [{"day": f"{file.day}", "version": file.sha256, "bytes": file.entry.bytes} for file in done.gone],
        "kept": [{"day": f"{one.file.day}", "version": one.file.sha256, "why": one.why} for one in done.kept],
        "bytes": done.bytes,
    }
