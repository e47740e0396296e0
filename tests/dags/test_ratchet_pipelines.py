"""The DAG file, as Airflow's DAG processor and its workers read it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from team.git_pipelines import CURRENT, update
from tests.dags.pipelines import write, write_text
from tests.heavy_modules import HEAVY
from tests.team.repository import Repository
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("dags")  # one imports Airflow for all
ROOT = Path(__file__).resolve().parents[2]
VERBS = ("data", "doctor", "history", "hold", "promote", "release", "reproduce", "rollback")
OF_RATCHET = tuple(f"ratchet_{verb}" for verb in VERBS)
"""The DAGs that belong to no pipeline."""
PARSER = """
import json, os, sys
from pathlib import Path
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization
dags = Path(sys.argv[1])
for line in sys.stdin:
    asked = json.loads(line)
    if os.fork():
        _, status = os.wait()
        if status:
            sys.exit("it could not be parsed")
        continue
    os.environ.update(asked["environment"])
    exec(asked["first"])
    bag = DagBag(dag_folder=dags, bundle_path=dags, bundle_name="dags-folder")
    serialised = {name: DagSerialization.to_dict(dag) for name, dag in sorted(bag.dags.items())}
    for data in serialised.values():
        DagSerialization.from_dict(data)
    found = {"dags": serialised, "errors": bag.import_errors, "modules": sorted(sys.modules)}
    Path(asked["answer"]).write_text(json.dumps(found))
    os._exit(0)
"""
"""Airflow is imported once; each time that the folder is parsed is a process of its own, as with the DAG processor."""

BUG = """
from ratchet_airflow import dag
from ratchet_airflow.timetable import DayBeforeTimetable
real = dag.build
def build(spec, folder):
    if spec.name == "odd":
        raise ZeroDivisionError("nobody thought of this")
    made = real(spec, folder)
    if spec.name == "late":
        made.timetable = DayBeforeTimetable("99 99 * * *", "UTC")
    return made
dag.build = build
"""
"""Bugs of two kinds, which two pipelines meet: no DAG comes of one, and what comes of the other Airflow refuses."""


class Parser:
    """What the DAG folder gives: serialised DAGs, import errors, and every module imported."""

    def __init__(self, home: Path, **environment: str) -> None:
        self._answer = home / "answer.json"
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", PARSER, str(ROOT / "dags")],
            env={
                **os.environ,
                "PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}",
                "AIRFLOW_HOME": str(home),
                "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
                **environment,
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )

    def __call__(self, pipelines: Path, first: str = "", **environment: str) -> dict:
        """Parse the folder. first: a program to run before."""
        self._answer.unlink(missing_ok=True)
        asked = {"first": first, "environment": {"RATCHET_PIPELINES": str(pipelines), **environment}}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({**asked, "answer": str(self._answer)}) + "\n")
        self._process.stdin.flush()

        def answer() -> Any:
            with suppress(FileNotFoundError, json.JSONDecodeError):
                return json.loads(self._answer.read_text())
            assert self._process.poll() is None
            return None

        return until(answer, seconds=120)

    def end(self) -> None:
        """No more questions."""
        self._process.communicate(timeout=60)


@pytest.fixture(scope="module")
def parse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parser]:
    parser = Parser(tmp_path_factory.mktemp("airflow"), PYTHONHASHSEED="1")
    yield parser
    parser.end()


def good(folder: Path) -> Path:
    """A folder of two good pipelines and one that is none."""
    write(folder, "search-ranking")
    write(folder, "other-ranking", promote="approve")
    (folder / "notes").mkdir()
    return folder


@pytest.fixture
def pipelines(tmp_path: Path) -> Path:
    return good(tmp_path / "pipelines")


def test_every_good_folder_becomes_a_dag_and_parsing_imports_nothing_heavy(pipelines: Path, parse: Parser) -> None:
    found = parse(pipelines)
    assert list(found["dags"]) == ["other-ranking", *OF_RATCHET, "search-ranking"]
    assert found["errors"] == {}
    assert {name.partition(".")[0] for name in found["modules"]}.isdisjoint(HEAVY)


def test_a_promotion_by_hand_asks_a_second_person_first(pipelines: Path, parse: Parser) -> None:
    found = parse(pipelines)["dags"]
    tasks = {name: [task["__var"]["task_id"] for task in found[name]["dag"]["tasks"]] for name in OF_RATCHET}
    assert tasks == {
        **{f"ratchet_{verb}": [verb] for verb in VERBS},
        "ratchet_promote": ["promote", "second_person"],
    }


def test_a_worker_builds_only_the_verb_that_it_runs(pipelines: Path, parse: Parser) -> None:
    found = parse(pipelines, _AIRFLOW_PARSING_CONTEXT_DAG_ID="ratchet_rollback")
    assert list(found["dags"]) == ["ratchet_rollback"]


def test_the_store_is_collected_once_a_week_where_the_policy_says_so_by_one_task(
    pipelines: Path, parse: Parser
) -> None:
    assert "ratchet-gc" not in parse(pipelines, RATCHET_GC="results=60")["dags"]
    dag = parse(pipelines, RATCHET_GC="weekly, results=60")["dags"]["ratchet-gc"]["dag"]
    (task,) = dag["tasks"]
    assert task["__var"].get("pool", "default_pool") == "default_pool"
    assert dag["timetable"]["__var"]["expression"] == "30 12 * * 0"
    assert dag["max_active_runs"] == 1


def test_the_same_files_serialise_to_the_same_dags_so_that_no_version_is_made(
    pipelines: Path, tmp_path: Path, parse: Parser
) -> None:
    other = Parser(tmp_path, PYTHONHASHSEED="2")
    try:
        assert json.dumps(parse(pipelines)["dags"], sort_keys=True) == json.dumps(
            other(pipelines)["dags"], sort_keys=True
        )
    finally:
        other.end()


def test_broken_pipelines_are_one_error_with_every_problem_and_harm_no_other(pipelines: Path, parse: Parser) -> None:
    write_text(pipelines, "broken", "name: broken\nepochs: many\nsource: {kind: filez}\n")
    write_text(pipelines, "torn", "name: [")
    double = write(pipelines, "z") / "pipeline.yaml"
    double.write_text(double.read_text().replace("name: z", "name: search-ranking"))
    found = parse(pipelines)
    assert list(found["dags"]) == ["other-ranking", *OF_RATCHET, "search-ranking"]
    assert list(found["errors"]) == ["broken_pipelines.py"]
    text = found["errors"]["broken_pipelines.py"]
    assert "broken/pipeline.yaml:2: epochs: unknown key" in text
    assert "did you mean files?" in text
    assert "torn/pipeline.yaml" in text
    assert "search-ranking already has the name 'search-ranking'" in text


def test_a_folder_that_is_not_there_is_reported(pipelines: Path, parse: Parser) -> None:
    found = parse(pipelines / "absent")
    assert list(found["dags"]) == list(OF_RATCHET)
    assert "absent: the folder of the pipelines is not there" in found["errors"]["broken_pipelines.py"]


def test_a_commit_adds_changes_and_breaks_pipelines_without_a_restart(tmp_path: Path, parse: Parser) -> None:
    repository = Repository(tmp_path / "repository")
    source, place = repository.source(subfolder="models"), tmp_path / "place"
    place.mkdir()
    good(repository.folder / "models")
    repository.commit()
    update(source, place)
    assert list(parse(place / CURRENT)["dags"]) == ["other-ranking", *OF_RATCHET, "search-ranking"]
    write(repository.folder / "models", "third-ranking")
    write(repository.folder / "models", "search-ranking", cron="0 4 * * *")
    write_text(repository.folder / "models", "other-ranking", "name: [")
    repository.commit()
    update(source, place)
    found = parse(place / CURRENT)
    assert list(found["dags"]) == [*OF_RATCHET, "search-ranking", "third-ranking"]
    assert "0 4 * * *" in str(found["dags"]["search-ranking"]["dag"]["timetable"])
    assert "other-ranking/pipeline.yaml" in found["errors"]["broken_pipelines.py"]


def test_times_that_airflow_cannot_keep_break_no_other_pipeline(pipelines: Path, parse: Parser) -> None:
    changes = {
        "schedule.cron: '60 2 * * *': minute 60 is not allowed; allowed: 0-59": ("0 2 * * *", "60 2 * * *"),
        "schedule.cron: '99 99 * * *': minute 99 is not allowed": ("0 2 * * *", "99 99 * * *"),
        "weekday mondy is not allowed; allowed: 0-7, sun-sat, a-b, a,b and */n; did you mean mon?": (
            "0 2 * * *",
            "0 2 * * MONDY",
        ),
        "schedule.cron: 'a b c d e': minute a is not allowed": ("0 2 * * *", "a b c d e"),
        "schedule.cron: '0 2 30 2 *' never occurs": ("0 2 * * *", "0 2 30 2 *"),
        "stages.train.timeout: '999999999d' is too long; allowed: up to 365d": ("timeout: 2h", "timeout: 999999999d"),
    }
    for number, (old, new) in enumerate(changes.values()):
        bad = write(pipelines, f"bad-{number}") / "pipeline.yaml"
        bad.write_text(bad.read_text().replace(old, new))
    found = parse(pipelines)
    assert list(found["dags"]) == ["other-ranking", *OF_RATCHET, "search-ranking"]
    assert list(found["errors"]) == ["broken_pipelines.py"]
    for number, said in enumerate(changes):
        lines = [line for line in found["errors"]["broken_pipelines.py"].splitlines() if f"bad-{number}/" in line]
        assert len(lines) == 1
        assert said in lines[0]


def test_a_bug_that_one_pipeline_meets_is_an_error_of_its_own_and_harms_no_other(
    pipelines: Path, parse: Parser
) -> None:
    for name in ("odd", "late"):
        write(pipelines, name)
    found = parse(pipelines, BUG)
    assert list(found["dags"]) == ["other-ranking", *OF_RATCHET, "search-ranking"]
    assert list(found["errors"]) == ["broken_pipelines.py"]
    text = found["errors"]["broken_pipelines.py"]
    assert "odd/pipeline.yaml: cannot make a DAG of it: ZeroDivisionError: nobody thought of this" in text
    assert "late/pipeline.yaml: cannot make a DAG of it: AirflowTimetableInvalid: " in text


def test_a_worker_says_which_bug_its_pipeline_met(pipelines: Path, parse: Parser) -> None:
    write(pipelines, "odd")
    errors = parse(pipelines, BUG, _AIRFLOW_PARSING_CONTEXT_DAG_ID="odd")["errors"]
    assert "ZeroDivisionError: nobody thought of this" in errors["ratchet_pipelines.py"]


def test_a_worker_builds_only_the_dag_that_it_runs(pipelines: Path, parse: Parser) -> None:
    found = parse(pipelines, _AIRFLOW_PARSING_CONTEXT_DAG_ID="search-ranking")
    assert list(found["dags"]) == ["search-ranking"]


def test_a_worker_finds_a_pipeline_whose_folder_has_another_name(pipelines: Path, parse: Parser) -> None:
    (pipelines / "search-ranking").rename(pipelines / "elsewhere")
    found = parse(pipelines, _AIRFLOW_PARSING_CONTEXT_DAG_ID="search-ranking")
    assert list(found["dags"]) == ["search-ranking"]


def test_a_worker_whose_pipeline_broke_says_why(pipelines: Path, parse: Parser) -> None:
    write_text(pipelines, "search-ranking", "name: search-ranking\n")
    found = parse(pipelines, _AIRFLOW_PARSING_CONTEXT_DAG_ID="search-ranking")
    assert "source: is missing" in found["errors"]["ratchet_pipelines.py"]
