"""`ratchet gate-check` on the scores of real nights."""

import json
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.cli.main import main
from ratchet.samples.payments import day_payments
from tests.runs.nights import DAY, CallResult, ratchet, run, sample

pytestmark = pytest.mark.xdist_group("gate-check")  # the nights are made once
SHORT = ("--set", "source.window_days=6", "--set", "train.epochs=2")
"""Any verdict will do."""
QUICK = ("--nights", "200", "--workers", "1")


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A first night of both examples, small: the data, and the store beside it."""
    folder = tmp_path_factory.mktemp("nights")
    sample(folder, days=7, rows_per_day=1000)
    for pipeline in ("search-ranking", "payments-fraud"):
        ended = run(pipeline, str(folder), str(folder / "store"), *SHORT)
        assert ended.code == 0, ended.err
    return folder


def check(nights: Path, pipeline: str, *more: str) -> CallResult:
    settings = {"RATCHET_DATA": str(nights)}
    return ratchet("gate-check", pipeline, "--store", str(nights / "store"), *QUICK, *more, environment=settings)


def test_json_has_the_figures_of_a_real_night(nights: Path) -> None:
    found = check(nights, "search-ranking", "--json")
    figures = found.json
    assert figures["pipeline"] == "search-ranking"
    assert figures["metric"] == "ndcg@10"
    assert figures["unit"] == "groups"
    assert figures["baseline_kind"] == "constant"
    assert found.code == (0 if figures["passed"] else 64)
    rates = {one["name"]: one for one in figures["rates"]}
    assert rates["exchanged"]["nights"] == 200
    assert not rates["at-margin"]["failed"]
    assert len(figures["power"]["points"]) > 20
    assert {one["column"] for one in figures["harms"]} == {"country"}
    assert found.err == ""


def test_the_table_and_the_page_say_the_same(nights: Path, tmp_path: Path) -> None:
    page = tmp_path / "gate.html"
    found = check(nights, "search-ranking", "--html", str(page))
    lines = found.out.splitlines()
    assert lines[0].startswith("search-ranking: nights like 2026-03-20 (run ")
    assert any(line.startswith("exchanged ") for line in lines)
    assert any("four nights in five promote" in line for line in lines)
    assert lines[-1] == f"page {page}"
    html = page.read_text(encoding="utf-8")
    assert "Power: the share of nights that promote" in html
    assert "False promotions against the level of the gate" in html


def test_a_gate_of_half_a_confidence_is_named(nights: Path) -> None:
    found = check(nights, "search-ranking", "--set", "gate.confidence=60%", "--json").json
    assert found["confidence"] == 0.6
    assert "confidence-misread" in {one["name"] for one in found["findings"]}


def test_a_pipeline_without_groups_is_drawn_by_rows_with_the_positives_named(nights: Path) -> None:
    found = check(nights, "payments-fraud", "--seconds", "5", "--json").json
    assert found["unit"] == "rows"
    assert "few-positives" in {one["name"] for one in found["findings"]}
    assert {one["column"] for one in found["harms"]} <= {"channel"}


COPIED = """\
name: copied-payments
description: Card payments of which the export repeats every row ten times, under the number of its card.
owner: payments-team
schedule: {cron: "0 3 * * *", timezone: UTC, finish_by: 3h}
source: {kind: files, uri: "${RATCHET_DATA}/copied/date={date}/*.parquet", window_days: 6}
columns:
  card_id:           {role: id, type: int64}
  paid_at:           {role: time, type: timestamp}
  merchant_category: {role: categorical, type: string}
  channel:           {role: categorical, type: string}
  amount:            {role: numeric, type: float64, min: 0, transform: log1p}
  fraud:             {role: label, type: int64, in: [0, 1]}
train: {objective: binary, model: {kind: linear}, epochs: 1}
evaluate: {metric: logloss, holdout_days: 1, slices: [{column: amount, bins: 2}, {where: 'channel == "online" and amount > 5'}]}
gate: {min_gain: 0%, confidence: 95%, max_slice_loss: 10%}
register: {model: copied-payments, promote: never}
"""
COPIES = 10


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A night of a pipeline whose rows are copies of each other, and whose file does not say so."""
    folder = tmp_path_factory.mktemp("copied")
    (folder / "pipeline.yaml").write_text(COPIED, encoding="utf-8")
    for back in range(7):
        day = DAY - timedelta(days=back)
        rows = day_payments(day, seed=0, rows_per_day=400)
        rows = rows.append_column("card_id", pa.array(1000 * back + np.arange(len(rows))))
        there = folder / "copied" / f"date={day}"
        there.mkdir(parents=True)
        pq.write_table(rows.take(np.repeat(np.arange(len(rows)), COPIES)), there / "part-0.parquet")
    ended = run(str(folder), str(folder), str(folder / "store"), *SHORT)
    assert ended.code == 0, ended.err
    return folder


def test_a_gate_that_takes_copies_for_independent_rows_fails_and_passes_with_the_cluster_that_it_names(
    copied: Path,
) -> None:
    found = check(copied, str(copied))
    assert found.code == 64
    assert "FAILED: the gate promotes a candidate that is no better than the margin on " in found.out
    assert " by card_id), and says 5 % at most" in " ".join(found.out.split())
    assert "warning clusters: " in found.out
    assert "set evaluate.cluster to card_id" in " ".join(found.out.split())
    named = check(copied, str(copied), "--set", "evaluate.cluster=card_id", "--json")
    assert named.code == 0, named.json["answer"]
    assert named.json["unit"] == "clusters"
    assert "clusters" not in {one["name"] for one in named.json["findings"]}


def test_slices_by_bins_and_by_expression_are_harmed_like_others(copied: Path) -> None:
    found = check(copied, str(copied), "--set", "evaluate.cluster=card_id", "--json").json
    harmed = {(one["column"], one["times"]) for one in found["harms"]}
    tried = {column for column, _ in harmed} | {
        text.partition(" at ")[0] for text in (*found["untried"], *found["cut"])
    }
    assert any(one.startswith("amount") for one in tried)
    assert 'channel == "online" and amount > 5' in tried
    assert "slice-not-tried" not in {one["name"] for one in found["findings"]}


def test_a_run_that_is_named_by_its_id_or_its_date_is_taken(nights: Path) -> None:
    newest = check(nights, "search-ranking", "--json").json["run_id"]
    assert check(nights, "search-ranking", "--run", newest, "--date", "2026-03-20", "--json").json["run_id"] == newest
    unknown = check(nights, "search-ranking", "--run", "nosuchrun")
    assert unknown.code == 64
    assert unknown.err.startswith("ratchet gate-check: run nosuchrun of search-ranking has no verdict; to do: run `rat")


def test_without_a_run_it_says_what_to_run_first(tmp_path: Path) -> None:
    found = check(tmp_path, "search-ranking", "--json")
    assert found.code == 64
    assert found.err == (
        "ratchet gate-check: no run of search-ranking has a verdict yet; to do: run `ratchet run search-ranking "
        "--date DATE` first, and name its store with --store\n"
    )
    assert json.loads(found.out)["error"]["code"] == 64


@pytest.mark.parametrize("flags", [("--nights", "10"), ("--seed", "-1"), ("--workers", "-2"), ("--seconds", "-1")])
def test_numbers_that_make_no_check_are_refused(flags: tuple[str, str], tmp_path: Path) -> None:
    found = check(tmp_path, "search-ranking", *flags)
    assert found.code == 64
    assert f"{flags[0]} {flags[1]}: allowed: " in found.err


def test_help_says_what_each_scenario_means(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["gate-check", "--help"])
    shown = capsys.readouterr().out
    for name in ("exchanged", "at-margin", "by COLUMN", "repeated", "power", "slices"):
        assert f"\n  {name} " in shown
