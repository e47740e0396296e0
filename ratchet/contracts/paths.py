"""Where everything is in the store. Every key is made here, from checked names, and read here."""

import re
from datetime import date
from typing import NamedTuple

from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.stages import Stage

_SEGMENT = re.compile(r"^[A-Za-z0-9](?:[A-Za-z0-9._=+-]*[A-Za-z0-9_=+-])?$")
MAX_SEGMENT = 200
TRACKING = "mlflow"  # the prefix of the MLflow data that live in the store where there is no MLflow server
_PLAN = "plan.json"
REPRODUCTION = "reproduction"  # what a rebuild of a version keeps with its run begins with it
CHECKS = "validation.json"  # the file of checks that a stage keeps with the run
FIRST = ("bundles", "runs", "nights")  # made by the first plan; a folder that has all of them is a store


def segment(name: str) -> str:
    """A name as one step of a key. Raises ConfigurationError for anything that could lead elsewhere."""
    if len(name) > MAX_SEGMENT or not _SEGMENT.match(name) or ".." in name:
        remedy = "use letters, digits, and . _ = + - inside; at most 200 characters"
        raise ConfigurationError(f"{name[:80]!r} cannot be part of a path", remedy=remedy)
    return name


def join(*names: str) -> str:
    """Checked names as a key."""
    return "/".join(map(segment, names))


def bundle(sha256: str) -> str:
    """The packed folder of a pipeline."""
    return join("bundles", f"{sha256}.tar")


def release(*sha256: str) -> str:
    """The digests of the modules of each stage, as plans of one release name them; without it, the prefix."""
    return join("releases", *(f"{one}.json" for one in sha256))


def published(pipeline: str, *part: str) -> str:
    """The prefix of a stage, or a day's part of it, and of a fingerprint of it; without these, of all of them."""
    return join("published", pipeline, *part)


def manifest(prefix: str) -> str:
    """The manifest below a published prefix."""
    return f"{prefix}/manifest.json"


def published_prefix(key: str) -> str:
    """The prefix of the result that a published file belongs to."""
    return "/".join(key.split("/")[:4])


def parts_index(pipeline: str, part: str) -> str:
    """The document that says which parts of a kind were used last."""
    return f"{published(pipeline, part, 'index')}/parts.tsv"


def day_part(stage: Stage) -> str:
    """The part under which a stage publishes each day by itself."""
    return f"{stage}.day"


def damaged(prefix: str) -> str:
    """The prefix of the damaged manifests of a result: they are moved there, so that the result can be made again."""
    return f"{prefix}/damaged"


def superseded(prefix: str) -> str:
    """The prefix of the manifests that a rebuild has replaced: runs that were made before still read what they name."""
    return f"{prefix}/superseded"


def manifest_aside(place: str, digest: str) -> str:
    """A manifest that is kept in such a place. `digest`: of its bytes."""
    return f"{place}/{segment(digest[:16])}.json"


def table(pipeline: str, *schema: str) -> str:
    """The Delta table of a pipeline's rows; another schema, a digest, is another table. Without it, all of them."""
    return join("tables", pipeline, *map(short, schema))


def snapshot_index(table: str) -> str:
    """The document that says what a snapshot table holds of each day."""
    return f"{table}.json"


def runs(pipeline: str) -> str:
    """The prefix of the records of all runs of a pipeline."""
    return join("runs", pipeline)


def run(pipeline: str, run_id: str) -> str:
    """The prefix of a run's own records."""
    return f"{runs(pipeline)}/{segment(run_id)}"


def plan(pipeline: str, run_id: str) -> str:
    """What a run set out to do."""
    return f"{run(pipeline, run_id)}/{_PLAN}"


def run_of_plan(key: str) -> str | None:
    """The run whose plan this key is; None for any other key below `runs`."""
    _, _, run_id, *rest = key.split("/")
    return run_id if rest == [_PLAN] else None


def outcome(pipeline: str, run_id: str, stage: str) -> str:
    """How a stage of a run ended."""
    return f"{run(pipeline, run_id)}/{segment(stage)}.json"


def kept(pipeline: str, run_id: str, stage: str, name: str) -> str:
    """A file that a stage keeps with the run, even if the stage fails: the validation page, the report."""
    return f"{run(pipeline, run_id)}/{segment(stage)}-{segment(name)}"


def log(pipeline: str, run_id: str, stage: str, number: int) -> str:
    """The log of one try of a stage of a run, counted from 1 for whoever started them.

    A change here violates the promise of the project when a stage may write it: its follower writes what it has read.
    """
    return f"{run(pipeline, run_id)}/{segment(f'{stage}.{number}.log')}"


def answer(pipeline: str, run_id: str, number: int) -> str:
    """A person's answer whether the candidate of a run goes into production. No stage may write it."""
    return f"{run(pipeline, run_id)}/{segment(f'approval-{number}.json')}"


def nights(pipeline: str, date_of_data: date | None = None) -> str:
    """The prefix of the marks that say which runs a pipeline, or a date of it, had."""
    return join("nights", pipeline, *([day(date_of_data)] if date_of_data else []))


def night(pipeline: str, date_of_data: date, run_id: str) -> str:
    """The mark of one run."""
    return f"{nights(pipeline, date_of_data)}/{segment(run_id)}"


def night_date(key: str) -> date:
    """The data date of a key below `nights`."""
    return date.fromisoformat(key.split("/")[2])


def run_index(*pipeline: str) -> str:
    """The document with the newest run of each date in one line, made from the runs; without a name, the prefix."""
    return join("index", *(f"{name}.json" for name in pipeline))


def checks(pipeline: str, run_id: str, stage: Stage) -> str:
    """The checks of a stage of a run, also of one that refused its data."""
    return kept(pipeline, run_id, stage, CHECKS)


def day_records(pipeline: str, date_of_data: date | None = None) -> str:
    """The prefix of the records that say what became of a pipeline's days, or of one of them."""
    return join("days", pipeline, *([day(date_of_data)] if date_of_data else []))


def day_record(pipeline: str, date_of_data: date, number: int, action: str, source: str) -> str:
    """One of them. Its name says the most of it, so that a list of names is enough. `source` is a digest."""
    return f"{day_records(pipeline, date_of_data)}/{segment(f'{number:08d}-{action}-{short(source)}')}.json"


class DayRecordKey(NamedTuple):
    """What the key of a day's record says. source: how the digest begins."""

    key: str
    day: date
    number: int
    action: str
    source: str


def day_record_key(key: str) -> DayRecordKey:
    """Read the key of a day's record."""
    _, _, text, name = key.split("/")
    number, action, source = name.removesuffix(".json").split("-")
    return DayRecordKey(key, date.fromisoformat(text), int(number), action, source)


def short(digest: str) -> str:
    """The beginning of a digest, enough to tell a few from each other."""
    return digest[:16]


def alerts(pipeline: str, *run_id: str) -> str:
    """The prefix of the alerts that were sent about a run, or about all."""
    return join("alerts", pipeline, *run_id)


def alert(pipeline: str, run_id: str, event: str) -> str:
    """One event of a run that people are alerted to. The process that creates it sends the alert."""
    return f"{alerts(pipeline, run_id)}/{segment(event)}.json"


def builds(pipeline: str, stage: str) -> str:
    """The prefix of the marks that say which fingerprints of a stage were built, and so what came before."""
    return join("builds", pipeline, stage)


def built(pipeline: str, stage: str, fingerprint: str) -> str:
    """The mark of one build."""
    return f"{builds(pipeline, stage)}/{segment(fingerprint)}"


def checkpoints(pipeline: str, stage: str, *training: str) -> str:
    """The prefix of the checkpoints of a stage's trainings. training: first its resume key, then its fingerprint."""
    return join("checkpoints", pipeline, stage, *training)


def leases(*stage: str) -> str:
    """The prefix of all leases; of those of a pipeline; or of a stage of it."""
    return join("leases", *stage)


def lease(pipeline: str, stage: str, fingerprint: str) -> str:
    """Who computes a fingerprint now."""
    return f"{leases(pipeline, stage)}/{segment(f'{fingerprint}.json')}"


def removals(pipeline: str) -> str:
    """The prefix of the records of rows that were purged, and of days that expired."""
    return join("removals", pipeline)


def accumulation(pipeline: str, key: str) -> str:
    """In how many micro-batches a training fits into memory. `key`: a digest of what its memory depends on."""
    return join("accumulation", pipeline, f"{key}.json")


def ledger(*model: str) -> str:
    """The prefix of a model's ledger; without it, of those of all models."""
    return join("ledger", *model)


def record_below(place: str, number: int) -> str:
    """One record of the ledger whose prefix is `place`; numbers start at 1 and have no gap."""
    return f"{place}/{number:08d}.json"


def head_below(place: str) -> str:
    """The document that names the newest record of the ledger whose prefix is `place`."""
    return f"{place}/head.json"


def lost_below(place: str) -> str:
    """Where files are kept that a person has taken out of the ledger whose prefix is `place`."""
    return f"{place}/lost"


def shadow(*chain: str) -> str:
    """The prefix of the ledger of what a backfill would have promoted: model and chain; without these, of all."""
    return join("shadow", *chain)


def version_records(*model: str) -> str:
    """The prefix of the records of a model's versions; without it, of those of all models."""
    return join("versions", *model)


def version_record(model: str, version: str, digest: str) -> str:
    """The record of a version. `digest`: of the model, as a registry that was restored may give a number again."""
    return f"{version_records(model)}/{segment(f'{version}-{short(digest)}')}.json"


def recorded_version(key: str) -> str:
    """The version that a key below `version_records` is of."""
    return last(key).rpartition("-")[0]


def holdout_attempts(model: str, date_of_data: date) -> str:
    """The prefix of the attempts that candidates of a model have made at a held-out day."""
    return join("attempts", model, day(date_of_data))


def holdout_attempt(model: str, date_of_data: date, number: int) -> str:
    """One of them; numbers start at 1 and have no gap."""
    return f"{holdout_attempts(model, date_of_data)}/{number:06d}.json"


def tracking_database() -> str:
    """MLflow's SQLite file, where there is no server."""
    return f"{TRACKING}/mlflow.db"


def last(key: str) -> str:
    """The last name of a key."""
    return key.rpartition("/")[2]


def day(value: date) -> str:
    """A date as it is written in keys and source URIs."""
    return value.isoformat()
