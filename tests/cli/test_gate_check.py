"""`ratchet gate-check` on the scores of real nights."""

import json
from pathlib import Path

import pytest

from ratchet.cli.main import main
from tests.runs.nights import CallResult, ratchet, run, sample

QUICK = ("--nights", "200", "--workers", "1")


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A first night of both examples, small: the data, and the store beside it."""
    folder = tmp_path_factory.mktemp("nights")
    sample(folder, days=7, rows_per_day=1000)
    for pipeline in ("search-ranking", "payments-fraud"):
        ended = run(pipeline, str(folder), str(folder / "store"))
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
    found = check(nights, "payments-fraud", "--json").json
    assert found["unit"] == "rows"
    assert "few-positives" in {one["name"] for one in found["findings"]}
    assert {one["column"] for one in found["harms"]} <= {"channel"}


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


@pytest.mark.parametrize("flags", [("--nights", "10"), ("--seed", "-1"), ("--workers", "-2")])
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
