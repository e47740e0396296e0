"""The page about using a model says what is true: its programs run, and what it promises of rows and scores holds."""

import json
import shutil
from collections.abc import Iterator

import pytest

from tests.docs.blocks import Done, commands, python, run, shows
from tests.docs.conftest import Tutorial

pytestmark = [pytest.mark.heavy, pytest.mark.xdist_group("docs"), pytest.mark.timeout(1200)]
COMMANDS = commands("use-a-model.md")
SERVED = """
import json, threading
import mlflow, numpy, pandas

mlflow.set_tracking_uri("sqlite:///.ratchet/store/mlflow/mlflow.db")
model = mlflow.pyfunc.load_model("models:/late-orders@champion")
rows = pandas.DataFrame({"shop": ["harbour", "market"], "distance_km": [4.0, 1.0], "items": [3, 1]})
scores = model.predict(rows)
assert (scores.dtype, scores.shape) == (numpy.float64, (2,))

def same(other):
    return numpy.array_equal(model.predict(other), scores)

def refusal(other):
    try:
        model.predict(other)
    except Exception as error:
        return str(error)

(path,) = __import__("pathlib").Path(".ratchet/store/runs/late-orders").glob("local-2026-11-20-*")
judged = json.loads((path / "evaluate.json").read_text())["result"]["outputs"]["scores"]["key"]
judged = pandas.read_parquet(f".ratchet/store/{judged}")["candidate"].to_numpy()
held = pandas.read_csv("orders/2026-11-20.csv")
whole = model.predict(held)
alone = numpy.concatenate([model.predict(held[place : place + 1]) for place in range(100)])
threads, found = [], []
for _ in range(4):
    threads.append(threading.Thread(target=lambda: found.extend(model.predict(held) for _ in range(10))))
[thread.start() for thread in threads]
[thread.join() for thread in threads]
with open(mlflow.pyfunc.get_model_dependencies("models:/late-orders@champion")) as file:
    needed = [line.partition("==")[0] for line in file]
print(json.dumps({
    "six packages": sorted(needed) == ["mlflow", "numpy", "pandas", "pydantic", "safetensors", "torch"],
    "equal to evaluation": numpy.array_equal(whole, judged),
    "alone as in a batch": bool(abs(alone - whole[:100]).max() < 1e-6),
    "the same from threads": len(found) == 40 and all(numpy.array_equal(one, whole) for one in found),
    "dictionaries": same(rows.to_dict("records")),
    "order and index": same(rows[["items", "distance_km", "shop"]].set_index(pandas.Index([7, 7]))),
    "label and strangers": same(rows.assign(late=1, stranger="x")),
    "time": same(rows.assign(ordered_at=pandas.Timestamp("2026-11-20"))),
    "floats for integers": same(rows.assign(items=[3.0, 1.0])),
    "no rows": model.predict(rows[:0]).shape == (0,),
    "missing": bool(numpy.isfinite(model.predict(rows.assign(shop=None, distance_km=numpy.nan, items=None))).all()),
    "infinite is missing": all(
        numpy.array_equal(model.predict(rows.assign(distance_km=far)), model.predict(rows.assign(distance_km=numpy.nan)))
        for far in (numpy.inf, -numpy.inf, 1e39)
    ),
    "unknown": bool(
        (model.predict(rows.assign(shop="new")) == model.predict(rows.assign(shop="newer"))).all()
    ),
    "refused: no column": "items" in refusal(rows.drop(columns="items")),
    "refused: no numbers": "items" in refusal(rows.assign(items="many")),
    "refused: category": "shop" in refusal(rows.assign(shop=rows["shop"].astype("category"))),
    "whole numbers for floats": same(rows.assign(distance_km=[4, 1])),
}))
"""


@pytest.fixture(scope="module")
def answers(tutorial: Tutorial) -> dict[str, bool]:
    """What a fresh process found of the model in production, before anything is moved."""
    done = python(SERVED, tutorial.folder)
    assert done.code == 0, done.printed
    answers: dict[str, bool] = json.loads(done.printed.splitlines()[-1])
    return answers


@pytest.fixture(scope="module")
def done(tutorial: Tutorial, answers: dict[str, bool]) -> Iterator[tuple[Done, ...]]:
    """How each program and command of the page ended, in order. They move the store; afterwards it is where it was."""
    kept = tutorial.folder / "kept"
    shutil.copytree(tutorial.store, kept)
    yield tuple(run(command, tutorial.folder) for command in COMMANDS)
    shutil.rmtree(tutorial.folder / "archive")
    kept.rename(tutorial.store)


@pytest.mark.parametrize(
    "place", range(len(COMMANDS)), ids=[f"{place} {command.heading}" for place, command in enumerate(COMMANDS)]
)
def test_a_program_of_the_page_succeeds_and_prints_what_is_shown(done: tuple[Done, ...], place: int) -> None:
    assert done[place].code == 0, done[place].printed
    shown, printed = COMMANDS[place].shown, done[place].printed
    assert shows(shown, printed), f"shown:\n{shown}\nprinted:\n{printed}"


@pytest.mark.parametrize(
    "claim",
    [
        "equal to evaluation", "alone as in a batch", "the same from threads", "dictionaries", "order and index",
        "label and strangers", "time", "floats for integers", "no rows", "missing", "infinite is missing", "unknown",
        "refused: no column", "refused: no numbers", "refused: category", "whole numbers for floats", "six packages",
    ],
)  # fmt: skip
def test_what_the_page_says_of_rows_and_scores_holds(answers: dict[str, bool], claim: str) -> None:
    assert answers[claim]


def test_without_the_repair_mlflow_does_not_find_the_model(tutorial: Tutorial, done: tuple[Done, ...]) -> None:
    """The copy that was kept aside has the addresses of a folder that is gone by now."""
    program = COMMANDS[0].text.replace(".ratchet/store", "kept")
    assert "No such artifact: ''" in python(program, tutorial.folder).printed
