"""Who goes on although a document needs another release: only what shows, and what leaves all as it is.

OtherRelease is no CorruptArtifact, so what mends damage lets it pass. A place that catches it by name is listed here
with the reason why it deletes, replaces and decides nothing.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from ratchet.contracts.errors import CorruptArtifact, OtherRelease, Unavailable

ROOT = Path(__file__).resolve().parents[2]
WHY = {
    "plugins/ratchet_airflow/watch/digest.py": "the digest has a line for that pipeline, or begins a day before",
    "plugins/ratchet_airflow/watch/watched.py": "an older plan says whom to alert",
    "plugins/ratchet_airflow/reaper.py": "the container of the run stays",
    "ratchet/cli/stage.py": "says so as the end of the stage",
    "ratchet/outbox/incidents.py": "the incident is left",
    "ratchet/outbox/lost_letters.py": "a list of letters for pages is written again from the letters",
    "ratchet/outbox/outbox.py": "the letter is left",
    "ratchet/outbox/spool.py": "what is kept is left",
    "ratchet/runs/compared.py": "`ratchet verify` says that a result was not compared",
    "ratchet/runs/digest_runs.py": "the digest says that it cannot read the answer",
    "ratchet/runs/history.py": "whether a run is local: no, so its containers are not reaped; its place among the runs of a date",
    "ratchet/runs/index_document.py": "it is read as if it were lost; where it has to be written it is deleted, to be made again",
    "ratchet/runs/index_mending.py": "the index is left: that release reads it",
    "ratchet/runs/indexed_ledger.py": "what the ledger says is not known, so no model is shown as in production",
    "ratchet/runs/left_elsewhere.py": "the container is followed by nobody, and goes on until its lease is silent",
    "ratchet/runs/outcomes.py": "why a stage is built is said by an older result; the build itself reads its own",
    "ratchet/runs/run_index.py": "pages show the line; of a run of another release none is written for good",
    "ratchet/runs/run_lines.py": "the same",
    "ratchet/runs/unmeasured.py": "a number for people: the verdict is passed over",
    "ratchet/runtime/blocks.py": "the sum is computed for this night, and not written",
    "ratchet/runtime/parts_index.py": "the part itself is read, which says whether this release can",
    "ratchet/store/checkpoint_folder.py": "whose checkpoints these are is not known, so they stay",
    "ratchet/store/lease.py": "the lease is another's while its etag changes",
    "ratchet/store/publishing.py": "what the manifest names is not known, so all stays",
    "tasks/ingest/kept_rows.py": "raises it, where another Unavailable is a reason",
}


def caught(file: Path) -> Iterator[int]:
    """The lines of a file that catch OtherRelease by name."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ExceptHandler) and node.type is not None:
            named: list[ast.expr] = [node.type]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "suppress":
            named = node.args
        else:
            continue
        if any(getattr(name, "id", "") == "OtherRelease" for each in named for name in ast.walk(each)):
            yield node.lineno


def test_what_mends_damage_does_not_catch_it() -> None:
    assert issubclass(OtherRelease, Unavailable)
    assert not issubclass(OtherRelease, CorruptArtifact)


def test_each_place_that_goes_on_without_the_document_is_listed_with_its_reason() -> None:
    files = [
        file for place in ("ratchet", "tasks", "plugins", "team", "local") for file in (ROOT / place).rglob("*.py")
    ]
    found = {file.relative_to(ROOT).as_posix() for file in files if next(caught(file), None) is not None}
    found -= {"tasks/train/checkpoint.py"}  # its error is one of its own: train's loop imports no pydantic
    assert found == {*WHY}
