"""`ratchet check` and `ratchet schema`: their output."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ratchet.cli.check import read
from ratchet.cli.main import main
from ratchet.cli.pipelines import find, overrides
from ratchet.cli.schema import markdown
from ratchet.contracts.errors import ConfigurationError, PipelineInvalid

ROOT = Path(__file__).resolve().parents[2]
RANKING = ROOT / "tests" / "contracts" / "ranking.yaml"


def test_a_good_file_is_fine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(RANKING)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "search-ranking: fine (8 columns, ranking, ndcg@10)",
        "  training reads 28 of 30 days (1 held out, 1 for validation), 2 numeric columns and 2 categorical columns",
        "  an epoch has about 40 steps for 10,000 rows, 245 steps for 1,000,000 rows; at most 3 epochs and 8,000 steps",
    ]


def test_a_bad_file_lists_every_problem_and_ends_with_64(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(RANKING.read_text(encoding="utf-8").replace("epochs", "epoch").replace("gate:", "gates:"))
    assert main(["check", str(tmp_path)]) == 64
    said = capsys.readouterr()
    assert said.out == ""
    assert [line.partition(": ")[0] for line in said.err.splitlines()[:-1]] == [f"{file}:26", f"{file}:31"]
    assert said.err.splitlines()[-1] == "2 problems; no stage has run"


def pipeline(folder: Path, old: str = "", new: str = "", **code: str) -> list[str]:
    """The problems of the files of a changed pipeline with Python files, without the folder's name."""
    text = RANKING.read_text(encoding="utf-8")
    assert old in text
    (folder / "pipeline.yaml").write_text(text.replace(old, new), encoding="utf-8")
    for name, content in code.items():
        (folder / f"{name}.py").write_text(content, encoding="utf-8")
    try:
        spec = read(folder / "pipeline.yaml")
    except PipelineInvalid as error:
        return [line.replace(f"{folder}/", "") for line in error.cause.splitlines()]
    assert spec.name == "search-ranking"
    return FINE


FINE: list[str] = []
DEFINE = "to do: define Mine in model.py, or correct the name"
OWN = ("kind: dcn", 'kind: "model.py:Mine"')
DERIVED = ("{role: numeric, type: float64, min: 0, max: 5}", "{role: numeric, type: float64, derived: true}")


@pytest.mark.parametrize(
    "model",
    [
        "class Mine: ...",
        "from torch.nn import Linear as Mine",
        "Mine: type = dict",
        "try:\n    from a import Mine\nexcept ImportError:\n    pass",
        "if True:\n    class Mine: ...",
        "from elsewhere import *",
    ],
)
def test_the_pipelines_model_is_found_and_not_run(tmp_path: Path, model: str) -> None:
    assert pipeline(tmp_path, *OWN, model=f"{model}\n1 / 0\n", elsewhere="Mine = dict") == FINE


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ({}, "no model.py exists beside the pipeline file; to do: add model.py"),
        ({"model": ""}, f"model.py does not define Mine; allowed: nothing, as it is empty; {DEFINE}"),
        (
            {"model": "import torch.nn\nclass Mien:\n    Mine = 1\n"},
            f"model.py does not define Mine; allowed: Mien, torch; did you mean Mien?; {DEFINE}",
        ),
        ({"model": "x = Mine\n"}, f"model.py does not define Mine; allowed: x; {DEFINE}"),
    ],
)
def test_a_missing_model_is_reported(tmp_path: Path, code: dict[str, str], said: str) -> None:
    assert pipeline(tmp_path, *OWN, **code)[0] == f"pipeline.yaml:25: train.model.kind: {said}"


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("x = 1\nclass Mine(:\n", "model.py:2: is not Python: invalid syntax; to do: correct the syntax"),
        ("\0", "model.py:1: is not Python: source code string cannot contain null bytes; to do: correct the syntax"),
        (
            "def Mine(inputs, width): ...",
            "model.py:1: Mine(inputs, width) asks for width; allowed: inputs, numeric, categorical, classes, objective, vector_columns, lists; "
            "to do: take width out, or give it a default",
        ),
        (
            "class Mine:\n  def __init__(self): ...",
            "model.py:2: __init__(self) asks for nothing; allowed: inputs, numeric, categorical, classes, objective, vector_columns, lists; "
            "to do: ask for inputs",
        ),
        (
            "async def Mine(inputs): ...",
            "model.py:1: Mine(inputs) is async; to do: remove async",
        ),
        (
            "class Mine:\n  def forward(self, x, y): ...",
            "model.py:2: forward(self, x, y) asks for y; allowed: x, numbers, missing, vectors, places, groups, sizes, vector_columns, lists, list_weights; "
            "to do: take y out, or give it a default",
        ),
        (
            "from torch import nn\nclass Mine(nn.Module): ...",
            "model.py:2: the class Mine has no method forward; allowed: forward(self, x); to do: define it",
        ),
        (
            "class Mine: ...\ndef loss(scores, labels): ...",
            "model.py:2: loss(scores, labels) has the wrong parameters; allowed: loss(scores, labels, weights, groups); "
            "to do: define it as loss(scores, labels, weights, groups)",
        ),
    ],
)  # fmt: skip
def test_a_model_that_cannot_be_used_is_reported_with_its_line(tmp_path: Path, model: str, said: str) -> None:
    assert pipeline(tmp_path, *OWN, model=model) == [said]


@pytest.mark.parametrize(
    "model",
    [
        "class Mine:\n  def __init__(self, inputs, width=3): ...\n  def forward(self, *x): ...",
        "class Mine:\n  def __init__(self, width): ...\n  def forward(self, rows, /): ...",
        "class Mine:\n  def __init__(self, inputs, *, numeric, classes): ...\n  def forward(self, x, groups, more=1, *, sizes): ...",
        "def Mine(*sizes, depth=2): ...\ndef loss(scores, labels, *rest): ...",
        "from torch import nn\nclass Mine(nn.Sequential): ...",
        "from functools import cache\n@cache\ndef Mine(): ...",
    ],
)
def test_a_model_that_can_be_used_is_fine(tmp_path: Path, model: str) -> None:
    assert pipeline(tmp_path, *OWN, model=model) == FINE


DERIVE = "\ndef derive(df): ..."


@pytest.mark.parametrize(
    ("features", "said"),
    [
        (
            "import calendar_dayz" + DERIVE,
            "features.py:1: imports calendar_dayz, which is no file of the folder and no library of the stages; "
            "did you mean calendar_days?; to do: add calendar_dayz.py to the folder, or correct the import",
        ),
        (
            "import pandas\nfrom calendar_days import HOLYDAYS" + DERIVE,
            "features.py:2: calendar_days.py does not define HOLYDAYS; allowed: HOLIDAYS; did you mean HOLIDAYS?; "
            "to do: correct the name, or define HOLYDAYS in calendar_days.py",
        ),
        (
            "def derive(df):\n  import strange",
            "features.py:2: imports strange, which is no file of the folder and no library of the stages; "
            "to do: add strange.py to the folder, or correct the import",
        ),
        (
            "from . import strange" + DERIVE,
            "features.py:1: the folder does not define strange; to do: correct the name, or define strange in the folder",
        ),
        (
            "import calendar_days.strange" + DERIVE,
            "features.py:1: imports calendar_days.strange, which is no file of the folder and no library of the stages; "
            "did you mean calendar_days?; "
            "to do: add calendar_days/strange.py to the folder, or correct the import",
        ),
        ("from .. import x" + DERIVE, "features.py:1: imports from outside the folder; to do: move it in"),
        (
            "import deep" + DERIVE,
            "deep.py:2: imports nowhere, which is no file of the folder and no library of the stages; "
            "to do: add nowhere.py to the folder, or correct the import",
        ),
        (
            "def derive(df, x): ...",
            "features.py:1: derive(df, x) has the wrong parameters; allowed: derive(df); to do: define it as derive(df)",
        ),
        (
            "def derive(): ...",
            "features.py:1: derive() has the wrong parameters; allowed: derive(df); to do: define it as derive(df)",
        ),
        ("async def derive(df): ...", "features.py:1: derive(df) is async; allowed: derive(df); to do: remove async"),
    ],
)  # fmt: skip
def test_features_that_cannot_be_loaded_or_called_are_reported_once(tmp_path: Path, features: str, said: str) -> None:
    helpers = {"calendar_days": "HOLIDAYS = {}", "deep": "import json\nimport nowhere"}
    text = RANKING.read_text(encoding="utf-8")
    again = "  again: {role: numeric, type: float64, derived: true}\n  position:"
    assert pipeline(
        tmp_path, text, text.replace(*DERIVED).replace("  position:", again), features=features, **helpers
    ) == [said]


@pytest.mark.parametrize(
    "features",
    [
        "import numpy as np, pandas.api.types\nfrom torch.nn import functional",
        "try:\n  import strange\nexcept ImportError:\n  strange = None",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n  import strange",
        "from calendar_days import HOLIDAYS\nfrom .calendar_days import HOLIDAYS as days\nfrom . import calendar_days",
        "from package.inner import value\nfrom package import inner",
        "from lazy import anything",
    ],
)
def test_imports_that_work_are_fine(tmp_path: Path, features: str) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "inner.py").write_text("value = 1\n", encoding="utf-8")
    helpers = {"calendar_days": "HOLIDAYS = {}", "lazy": "def __getattr__(name): ..."}
    assert pipeline(tmp_path, *DERIVED, features=features + DERIVE, **helpers) == FINE


def test_a_derived_column_needs_code_that_makes_it(tmp_path: Path) -> None:
    where = "pipeline.yaml:15: columns.rating.derived"
    assert pipeline(tmp_path, *DERIVED)[0] == (
        f"{where}: no features.py exists beside the pipeline file; to do: add features.py"
    )
    error = pipeline(tmp_path, *DERIVED, features="def drive(df): ...")[0]
    assert error == (
        f"{where}: features.py does not define derive; allowed: drive; did you mean drive?; "
        "to do: define derive in features.py"
    )
    assert pipeline(tmp_path, *DERIVED, features="def derive(df): ...") == FINE


def test_code_without_a_derived_column_is_reported(tmp_path: Path) -> None:
    assert pipeline(tmp_path, features="x = 1")[0] == (
        "pipeline.yaml:1: features.py does not define derive; allowed: x; to do: define derive in features.py"
    )


def test_check_reports_keys_expectations_and_code_at_once(tmp_path: Path) -> None:
    text = RANKING.read_text(encoding="utf-8")
    for old, new in (
        ("epochs: 3", "epoch: 3"),
        OWN,
        DERIVED,
        ("_median_", "_medain_"),
        ("column: price,", "column: prize,"),
    ):
        text = text.replace(old, new)
    keys = [line.split(": ")[1] for line in pipeline(tmp_path, RANKING.read_text(encoding="utf-8"), text)]
    assert keys == [
        "columns.rating.derived", "validate.expectations.0.type", "validate.expectations.0.column", "train.model.kind",
        "train.epoch",
    ]  # fmt: skip


def test_check_does_without_the_libraries_of_the_stages(tmp_path: Path) -> None:
    program = f"import sys; from ratchet.cli.main import main; main(['check', {str(RANKING)!r}]); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    said, modules = done.stdout.partition("\n")[0], done.stdout.splitlines()[-1]
    assert said == "search-ranking: fine (8 columns, ranking, ndcg@10)"
    assert {"great_expectations", "pandas", "torch", "numpy"}.isdisjoint(modules.split())


def test_explain_fills_in_every_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(RANKING), "--explain", "--set", "train.epochs=7"]) == 0
    filled = yaml.safe_load(capsys.readouterr().out)
    assert filled["train"]["epochs"] == 7
    assert filled["train"]["patience"] == 10
    assert filled["stages"]["register"]["retries"] == 5


def test_the_schema_accepts_the_documented_file_and_knows_every_key(capsys: pytest.CaptureFixture[str]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    assert main(["schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    document = yaml.safe_load(RANKING.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(document)
    document["trian"] = {}
    assert not jsonschema.Draft202012Validator(schema).is_valid(document)


def test_the_documentation_of_the_keys_is_that_of_the_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "--markdown"]) == 0
    assert capsys.readouterr().out == markdown()
    documented = (ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8")
    assert documented == markdown(), "run: ratchet schema --markdown > docs/pipeline.md"


def test_a_pipeline_is_found_by_folder_file_and_name(tmp_path: Path) -> None:
    shutil.copy(RANKING, tmp_path / "pipeline.yaml")
    assert find(str(tmp_path)) == tmp_path
    assert find(str(tmp_path / "pipeline.yaml")) == tmp_path
    assert find("search-ranking") == ROOT / "dags" / "pipelines" / "search-ranking"
    with pytest.raises(ConfigurationError, match=r"one of: (.*, )?search-ranking"):
        find("serach-ranking")


def test_a_pipeline_is_found_by_its_name_where_airflow_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a worker's container of the team set-up, which has no checkout."""
    (tmp_path / "late-orders").mkdir()
    shutil.copy(RANKING, tmp_path / "late-orders" / "pipeline.yaml")
    monkeypatch.setenv("RATCHET_PIPELINES", str(tmp_path))
    assert find("late-orders") == tmp_path / "late-orders"
    with pytest.raises(ConfigurationError, match=r"one of: late-orders, (.*, )?search-ranking"):
        find("late-order")


@pytest.mark.parametrize("pair", ["train.epochs", "=3", "a=["])
def test_a_flag_that_is_not_key_and_value_is_refused(pair: str) -> None:
    with pytest.raises(ConfigurationError, match="--set"):
        overrides([pair])


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert all(verb in shown for verb in ("check", "plan", "run", "stage", "why", "sample", "schema"))


@pytest.mark.parametrize("verb", ["check", "plan", "run", "stage", "why", "sample", "schema"])
def test_each_verb_explains_itself(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([verb, "--help"])
    assert ended.value.code == 0
    assert f"usage: ratchet {verb}" in capsys.readouterr().out


def test_the_example_in_the_readme_loads() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    example = text.partition("```yaml\n")[2].partition("```")[0]
    from ratchet.contracts.loading import loads

    assert loads(example).name == "late-flights"


METRIC = ("metric: ndcg@10", 'metric: "metric.py:revenue"')


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ({}, "pipeline.yaml:30: evaluate.metric: no metric.py exists beside the pipeline file; to do: add metric.py"),
        (
            {"metric": "def revenues(y, score, group): ...\n"},
            "pipeline.yaml:30: evaluate.metric: metric.py does not define revenue; allowed: revenues; did you mean "
            "revenues?; to do: define revenue in metric.py, or correct the name",
        ),
        (
            {"metric": "\ndef revenue(y, score): ...\n"},
            "metric.py:2: revenue(y, score) has the wrong parameters; allowed: revenue(y, score, group); "
            "to do: define it as revenue(y, score, group)",
        ),
        (
            {"metric": "import no_such_package\ndef revenue(y, score, group): ...\n"},
            "metric.py:1: imports no_such_package",
        ),
    ],
)
def test_a_missing_metric_is_reported(tmp_path: Path, code: dict[str, str], said: str) -> None:
    assert pipeline(tmp_path, *METRIC, **code)[0].startswith(said)


def test_the_pipelines_metric_is_found_and_not_run_in_guards_too(tmp_path: Path) -> None:
    good = "def revenue(y, score, group): ...\n1 / 0\n"
    assert pipeline(tmp_path, *METRIC, metric=good) == FINE
    gate = "gate: {min_gain: 0.5%", 'gate: {guards: {"metric.py:cost:lower": 1%}'
    found = pipeline(tmp_path, *gate, metric=good)
    assert "metric.py does not define cost" in found[0]


@pytest.mark.parametrize("metric", ["metric.py:", "other.py:revenue", "metric.py:revenue:higher", "metric.py:a b"])
def test_another_form_of_a_metric_is_refused(tmp_path: Path, metric: str) -> None:
    found = pipeline(tmp_path, "metric: ndcg@10", f'metric: "{metric}"', metric="def revenue(y, score, group): ...")
    assert "is not a metric" in found[0]
    assert "metric.py:revenue" in found[0]
