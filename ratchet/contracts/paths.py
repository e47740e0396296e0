"""Where everything is in the store. Every key is made here, from checked names."""

import re
from datetime import date

from ratchet.contracts.errors import ConfigurationError

_SEGMENT = re.compile(r"^[A-Za-z0-9](?:[A-Za-z0-9._=+-]*[A-Za-z0-9_=+-])?$")
MAX_SEGMENT = 200


def segment(name: str) -> str:
    """A name as one step of a key. Raises ConfigurationError for anything that could lead elsewhere."""
    if len(name) > MAX_SEGMENT or not _SEGMENT.match(name) or ".." in name:
        raise ConfigurationError(
            f"{name[:80]!r} cannot be part of a path",
            remedy="use letters, digits, and . _ = + - inside; at most 200 characters",
        )
    return name


def join(*names: str) -> str:
    """Checked names as a key."""
    return "/".join(map(segment, names))


def bundle(sha256: str) -> str:
    """The packed folder of a pipeline."""
    return join("bundles", f"{sha256}.tar")


def published(pipeline: str, part: str, fingerprint: str) -> str:
    """The prefix under which a stage, or a day's part of it, is published."""
    return join("published", pipeline, part, fingerprint)


def manifest(prefix: str) -> str:
    """The manifest below a published prefix."""
    return f"{prefix}/manifest.json"


def table(pipeline: str, schema: str) -> str:
    """The Delta table of a pipeline's rows; another schema is another table. `schema` is a digest."""
    return join("tables", pipeline, schema[:16])


def run(pipeline: str, run_id: str) -> str:
    """The prefix of a run's own records."""
    return join("runs", pipeline, run_id)


def plan(pipeline: str, run_id: str) -> str:
    """What a run set out to do."""
    return f"{run(pipeline, run_id)}/plan.json"


def outcome(pipeline: str, run_id: str, stage: str) -> str:
    """How a stage of a run ended."""
    return f"{run(pipeline, run_id)}/{segment(stage)}.json"


def kept(pipeline: str, run_id: str, stage: str, name: str) -> str:
    """A file that a stage keeps with the run, even if the stage fails: the validation page, the report."""
    return f"{run(pipeline, run_id)}/{segment(stage)}-{segment(name)}"


def nights(pipeline: str, date_of_data: date | None = None) -> str:
    """The prefix of the marks that say which runs a pipeline, or a date of it, had."""
    return join("nights", pipeline, *([day(date_of_data)] if date_of_data else []))


def night(pipeline: str, date_of_data: date, run_id: str) -> str:
    """The mark of one run."""
    return f"{nights(pipeline, date_of_data)}/{segment(run_id)}"


def alerts(pipeline: str, run_id: str) -> str:
    """The prefix of what people were told about a run."""
    return join("alerts", pipeline, run_id)


def alert(pipeline: str, run_id: str, event: str) -> str:
    """One event of a run that people were told of. Whoever creates it tells them."""
    return f"{alerts(pipeline, run_id)}/{segment(event)}.json"


def builds(pipeline: str, stage: str) -> str:
    """The prefix of the marks that say which fingerprints of a stage were built, and so what came before."""
    return join("builds", pipeline, stage)


def built(pipeline: str, stage: str, fingerprint: str) -> str:
    """The mark of one build."""
    return f"{builds(pipeline, stage)}/{segment(fingerprint)}"


def checkpoints(pipeline: str, fingerprint: str) -> str:
    """The prefix of a training's checkpoints."""
    return join("checkpoints", pipeline, fingerprint)


def lease(pipeline: str, stage: str, fingerprint: str) -> str:
    """Who computes a fingerprint now."""
    return join("leases", pipeline, stage, f"{fingerprint}.json")


def accumulation(pipeline: str, key: str) -> str:
    """In how many micro-batches a training fits into memory. `key`: a digest of what its memory depends on."""
    return join("accumulation", pipeline, f"{key}.json")


def ledger(model: str) -> str:
    """The prefix of a model's ledger."""
    return join("ledger", model)


def ledger_record(model: str, number: int) -> str:
    """One record of a model's ledger; numbers start at 1 and have no gap."""
    return f"{ledger(model)}/{number:08d}.json"


def tracking() -> str:
    """The prefix of the MLflow data that live in the store where there is no MLflow server."""
    return "mlflow"


def day(value: date) -> str:
    """A date as it stands in keys and source URIs."""
    return value.isoformat()
