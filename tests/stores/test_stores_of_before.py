"""Stores that earlier releases made are still read, and gone on with: documents, ledgers, registered models."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.stores.corpus import HERE, Corpus, unpack

KEPT = sorted(path.parent for path in HERE.glob("*/expected.json"))


@dataclass(frozen=True, kw_only=True)
class Before:
    corpus: Corpus
    expected: dict[str, Any]

    @property
    def pipeline(self) -> str:
        return str(self.expected["pipeline"])


@pytest.fixture(params=KEPT, ids=lambda folder: folder.name)
def before(request: pytest.FixtureRequest, tmp_path: Path) -> Before:
    expected = json.loads((request.param / "expected.json").read_bytes())
    corpus = unpack(request.param / "store.tar.xz", tmp_path, made_at=expected["made_at"])
    return Before(corpus=corpus, expected=expected)


def test_stores_of_before_are_kept() -> None:
    assert "ff9b446" in [folder.name for folder in KEPT]


def test_nights_of_before_read_as_they_did(before: Before) -> None:
    assert covers(before.corpus.nights(before.pipeline), before.expected["nights"])
    for run_id, verdict in before.expected["verdicts"].items():
        assert verdict is None or covers(before.corpus.summary(before.pipeline, run_id, "evaluate"), verdict)


def test_why_runs_of_before_were_built_reads_as_it_did(before: Before) -> None:
    assert before.corpus.why(before.pipeline) == before.expected["runs"]
    for run_id, lines in before.expected["why"].items():
        assert before.corpus.why(f"{before.pipeline}/{run_id}") == lines


@pytest.mark.heavy
def test_models_registered_before_score_to_the_bit(before: Before) -> None:
    rows, scores = before.expected["rows"], before.expected["scores"]
    for version, wanted in scores.items():
        assert np.array_equal(before.corpus.score(f"models:/{before.pipeline}/{version}", rows), wanted)
    champion = before.expected["ledger"][-1]["version"]
    assert np.array_equal(before.corpus.score(f"models:/{before.pipeline}@champion", rows), scores[champion])


@pytest.mark.heavy
def test_the_next_night_is_measured_against_the_champion_of_before(before: Before) -> None:
    ledger, wanted = before.corpus.ledger(before.pipeline), before.expected["next"]
    done = before.corpus.run(wanted["date"])
    assert done.returncode == 0, done.stderr
    newest = before.corpus.nights(before.pipeline)[-1]
    judged = before.corpus.summary(before.pipeline, newest["run_id"], "evaluate")
    champion = before.expected["ledger"][-1]
    assert judged["baseline_kind"] == "champion"
    assert (judged["baseline"]["version"], judged["baseline"]["digest"]) == (
        champion["version"],
        champion["model_digest"],
    )
    assert covers(judged, wanted["judged"])
    after = before.corpus.ledger(before.pipeline)
    assert covers(after, ledger)
    assert json.loads(done.stdout)["model"] == {"name": before.pipeline, "version": str(len(ledger) + 1)}
    assert len(after) == len(ledger) + 1


def covers(said: object, wanted: object) -> bool:
    """Whether everything wanted is said; a later release may add fields."""
    if isinstance(wanted, dict) and isinstance(said, dict):
        return all(name in said and covers(said[name], value) for name, value in wanted.items())
    if isinstance(wanted, list) and isinstance(said, list):
        return len(said) == len(wanted) and all(map(covers, said, wanted))
    return said == wanted
