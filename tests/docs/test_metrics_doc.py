"""docs/metrics.md names every metric that the code has, and its worked example is what the code computes."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from ratchet.contracts.gate import DECISIVE, DEFAULT_METRIC, METRICS, family
from ratchet.metrics.metrics import Floats, Rows, measure

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
KNOWN = {name for names in METRICS.values() for name in names}
Table = list[list[str]]


def tables(text: str) -> list[Table]:
    """Each Markdown table's cells, its heading first and without the line below that."""
    found: list[Table] = []
    for is_table, lines in itertools.groupby(text.splitlines(), key=lambda line: line.startswith("|")):
        if is_table:
            cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
            found.append([cells[0], *cells[2:]])
    return found


def examples() -> list[tuple[Rows, Floats, dict[str, str]]]:
    """(rows, scores, values as written) of each pair of tables in the worked example."""
    found = []
    written = tables(TEXT.partition("## A worked example")[2])
    for data, results in zip(written[::2], written[1::2], strict=True):
        heading, *lines = data
        offsets = None
        if heading[0] == "query":
            sizes = [len(list(rows)) for _, rows in itertools.groupby(lines, key=lambda line: line[0])]
            offsets = np.cumsum([0, *sizes])
        numbers = np.array([line[heading.index("label") :] for line in lines], float)
        scores = numbers[:, 1] if heading[-1] == "score" else numbers[:, 1:]
        values = {name.strip("`"): value for name, value in results[1:]}
        found.append((Rows(label=numbers[:, 0], offsets=offsets), scores, values))
    return found


def test_every_metric_has_a_section_and_every_section_is_a_metric() -> None:
    assert set(re.findall(r"^## `(.+)`$", TEXT, re.MULTILINE)) == KNOWN


def test_the_table_of_objectives_is_that_of_the_code() -> None:
    for objective, default, others in tables(TEXT)[0][1:]:
        kind, decisive = objective.strip("`"), default.strip("`")
        assert decisive == DEFAULT_METRIC[kind]
        assert {family(decisive), *re.findall(r"`([^`]+)`", others)} == set(DECISIVE[kind])


@pytest.mark.parametrize(
    ("rows", "scores", "name", "written"),
    [(rows, scores, name, value) for rows, scores, values in examples() for name, value in values.items()],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_worked_example_is_what_the_code_computes(rows: Rows, scores: Floats, name: str, written: str) -> None:
    found = measure(name, rows, scores)
    assert found is not None
    assert f"{found.value:.4f}" == written


def test_the_worked_example_has_every_metric() -> None:
    shown = {family(name) for _, _, values in examples() for name in values}
    assert shown == KNOWN
