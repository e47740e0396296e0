"""A pipeline file changes, and the next night still comes to a verdict about the model in production."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ratchet.contracts import bundle
from ratchet.contracts.request import Outcome
from ratchet.contracts.stages import Stage
from ratchet.model.description import Description, to_json
from ratchet.model.package import pack, unpack
from ratchet.store.file import FileStore
from tests.evaluate.nights import COLUMNS, FIRST, Nights, judgement, registration, rows, scores
from tests.mlflow_server import prepare

NEXT = FIRST + timedelta(days=1)
OFFICE = {"features.py": "from scales import BY\n\ndef derive(df):\n    return df.assign(heavy=df.weight * BY)\n", "scales.py": "BY = 2.0\n"}  # fmt: skip
HEAVY = {"heavy": {"role": "numeric", "type": "float64", "derived": True}}


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory, mlflow_database: Path) -> Nights:
    """One night, whose model is in production."""
    folder = tmp_path_factory.mktemp("office")
    nights = Nights(
        folder=folder,
        store=prepare(FileStore(folder / "store"), mlflow_database),  # type: ignore[arg-type] # it is this store
        columns={**COLUMNS, **HEAVY},
        code=OFFICE,
    )
    nights.deliver(FIRST)
    assert registration(nights.run()).promoted
    return nights


@dataclass
class Changed:
    """Production as it was, and the next night of a changed pipeline."""

    nights: Nights

    def night(
        self, change: Callable[[pa.Table], pa.Table] = lambda table: table, until: Stage = "evaluate", **more: Any
    ) -> dict[Stage, Outcome]:
        for name, value in more.items():
            setattr(self.nights, name, value)
        self.nights.deliver(NEXT, change)
        return self.nights.run(NEXT, until=until)

    def judged_as_usual(self, outcomes: dict[Stage, Outcome]) -> None:
        """A verdict of the rule, on all rows, and the scores of both models for each row."""
        judged = judgement(outcomes)
        assert judged.baseline_kind == "champion"
        assert judged.reason in {"better", "not-better", "too-small-to-tell"}, judged.explanation
        assert (judged.rows, judged.baseline_metrics.keys()) == (400, judged.candidate_metrics.keys())
        assert judged.baseline_metrics["accuracy"] > 0.6


@pytest.fixture
def changed(office: Nights, tmp_path: Path) -> Changed:
    shutil.copytree(office.store.root, tmp_path / "store", symlinks=True)
    return Changed(replace(office, folder=tmp_path, store=FileStore(tmp_path / "store"), number=10))


def as_unchanged(changed: Changed, tmp_path: Path, office: Nights) -> pa.Table:
    """The scores that the champion gives in a next night of the pipeline as it was."""
    folder = tmp_path / "same"
    shutil.copytree(office.store.root, folder / "store", symlinks=True)
    same = Changed(replace(office, folder=folder, store=FileStore(folder / "store"), number=20))
    return scores(same.nights, same.night())


def baselines(table: pa.Table) -> np.ndarray:
    return np.stack([table[name].to_numpy() for name in table.column_names if name.startswith("baseline")], axis=1)


def test_a_feature_that_is_dropped_from_the_file_still_reaches_the_champion_to_the_bit(
    changed: Changed, office: Nights, tmp_path: Path
) -> None:
    columns = {name: column for name, column in COLUMNS.items() if name != "weight"}
    done = changed.night(columns=columns, code={})
    changed.judged_as_usual(done)
    assert done["ingest"].result is not None
    assert [len(kept["days"]) for kept in done["ingest"].result.summary["kept"]] == [1]  # type: ignore[union-attr,index,call-overload,arg-type]
    np.testing.assert_array_equal(
        baselines(scores(changed.nights, done)), baselines(as_unchanged(changed, tmp_path, office))
    )


def test_a_feature_that_is_added_needs_no_other_rows(changed: Changed) -> None:
    def more(table: pa.Table) -> pa.Table:
        return table.append_column("age", [np.arange(len(table), dtype=np.float64)])

    done = changed.night(more, columns={**COLUMNS, **HEAVY, "age": {"role": "numeric", "type": "float64"}})
    changed.judged_as_usual(done)
    assert done["ingest"].result is not None
    assert done["ingest"].result.summary["kept"] == []


def test_a_champion_of_another_pipeline_is_named_and_compared_with_if_it_predicts_the_same(changed: Changed) -> None:
    done = changed.night(name="marks", sections={"register": {"model": "grades"}})
    changed.judged_as_usual(done)
    assert "production (version 1), of pipeline grades has" in judgement(done).explanation


def test_a_champion_of_another_pipeline_that_predicts_something_else_is_not_compared_with(changed: Changed) -> None:
    columns = {**COLUMNS, **HEAVY, "grade": {"role": "ignore", "type": "int64"}, "size": {"role": "label", "type": "int64", "in": [0, 1, 2, 3, 4]}}  # fmt: skip
    shared = {"register": {"model": "grades"}}
    judged = judgement(changed.night(name="sizes", columns=columns, sections=shared))
    assert (judged.verdict, judged.reason, judged.baseline_kind) == ("inconclusive", "other-target", "constant")
    assert "production (version 1), of pipeline grades predicts something else" in judged.explanation
    assert "(objective multiclass, label grade), and sizes has the objective multiclass and the label size" in (
        judged.explanation
    )
    assert "to do: give one of the two pipelines another register.model" in judged.explanation


def test_a_column_of_another_type_is_read_in_the_type_of_each(changed: Changed, office: Nights, tmp_path: Path) -> None:
    done = changed.night(columns={**COLUMNS, **HEAVY, "size": {"role": "numeric", "type": "float64"}})
    changed.judged_as_usual(done)
    np.testing.assert_array_equal(
        baselines(scores(changed.nights, done)), baselines(as_unchanged(changed, tmp_path, office))
    )


def test_a_class_that_is_added_has_no_probability_from_a_champion_that_does_not_know_it(changed: Changed) -> None:
    def more(table: pa.Table) -> pa.Table:
        grade = table["grade"].to_numpy().copy()
        grade[::50] = 3
        return table.set_column(table.column_names.index("grade"), "grade", [grade])

    done = changed.night(more, columns={**COLUMNS, **HEAVY, "grade": {**COLUMNS["grade"], "in": [0, 1, 2, 3]}})
    changed.judged_as_usual(done)
    found = baselines(scores(changed.nights, done))
    assert found.shape == (400, 4)
    assert not found[:, 3].any()
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-6)


def test_a_description_of_another_format_is_read_by_the_code_that_came_with_it(
    changed: Changed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The champion's package knows format 1; ours writes and reads 2 from tonight on, with another probe of hashing."""
    packed = _with_format_2(changed.nights.folder)
    monkeypatch.setattr("tasks.evaluate.stage.pack", lambda: packed)
    monkeypatch.setattr("ratchet.model.saving.to_json", _as_format_2)
    changed.judged_as_usual(changed.night())


def _as_format_2(description: Description) -> bytes:
    return to_json(replace(description, format=2, ids="another probe"))


def _with_format_2(folder: Path) -> bytes:
    package = unpack(pack(), folder / "package")
    for name, before, after in (
        ("description.py", "FORMAT = 1\n", "FORMAT = 2\n"),
        (
            "hashing.py",
            "def probe() -> str:\n",
            'def probe() -> str:\n    return "another probe"\n\n\ndef _() -> str:\n',
        ),
    ):
        file = package / "model" / name
        file.chmod(0o644)
        assert before in file.read_text()
        file.write_text(file.read_text().replace(before, after))
    return bundle.pack(package)


def test_a_column_that_the_source_has_lost_is_named_with_what_to_do(changed: Changed) -> None:
    columns = {name: column for name, column in COLUMNS.items() if name != "weight"}
    done = changed.night(lambda table: table.drop_columns(["weight"]), columns=columns, code={})
    judged = judgement(done)
    assert (judged.verdict, judged.reason) == ("inconclusive", "baseline-unreadable")
    assert "weight" in judged.explanation
    assert "to do: " in judged.explanation


def test_a_column_that_the_champion_need_not_have_may_be_lost(changed: Changed) -> None:
    columns = {name: column for name, column in COLUMNS.items() if name != "seller"}
    done = changed.night(lambda table: table.drop_columns(["seller"]), columns={**columns, **HEAVY})
    changed.judged_as_usual(done)


def test_a_rerun_of_the_night_of_the_change_meets_the_model_that_it_has_beaten(changed: Changed) -> None:
    columns = {name: column for name, column in COLUMNS.items() if name != "weight"}
    columns |= {"hint": {"role": "numeric", "type": "float64"}}
    first = changed.night(
        lambda table: table.append_column("hint", [table["grade"].to_numpy().astype(float)]),
        columns=columns,
        code={},
        until="register",
    )
    assert registration(first).promoted, judgement(first).explanation
    again = changed.nights.run(NEXT, until="evaluate")
    assert judgement(again).reason == "better"
    assert judgement(again).baseline == judgement(first).baseline


def test_rows_of_a_query_are_kept_in_the_order_of_the_days_own_file(tmp_path: Path, mlflow_database: Path) -> None:
    """A database returns rows in any order, so what is kept is sorted as the day's rows are."""
    database = tmp_path / "shop.db"

    def fill(day: date, order: str) -> None:
        with closing(sqlite3.connect(database)) as open_, open_:
            rows(day).to_pandas().sample(frac=1, random_state=1).assign(day=f"{day}").to_sql(
                "t", open_, if_exists="append"
            )
            open_.execute(f"create table u as select * from t order by {order}")
            open_.execute("drop table t")
            open_.execute("alter table u rename to t")

    source = {
        "kind": "sql",
        "uri": f"sqlite:///{database}",
        "query": "select * from t where day = :date",
        "window_days": 4,
    }
    nights = Nights(
        folder=tmp_path,
        store=prepare(FileStore(tmp_path / "store"), mlflow_database),  # type: ignore[arg-type] # it is this store
        sections={"source": source},
    )
    for back in range(4):
        fill(FIRST - timedelta(days=back), "price")
    assert registration(nights.run()).promoted
    fill(NEXT, "weight desc")
    kept, whole = (shutil.copytree(nights.store.root, tmp_path / name, symlinks=True) for name in ("kept", "whole"))
    usual = replace(nights, store=FileStore(whole), number=5)
    fewer = replace(
        nights,
        store=FileStore(kept),
        number=9,
        columns={name: one for name, one in COLUMNS.items() if name != "weight"},
    )
    expected, found = (scores(one, one.run(NEXT, until="evaluate")) for one in (usual, fewer))
    both = [np.column_stack([baselines(table), table["label"].to_numpy()]) for table in (expected, found)]
    assert both[0].shape == (400, 4)
    np.testing.assert_array_equal(*(one[np.lexsort(one.T)] for one in both))
