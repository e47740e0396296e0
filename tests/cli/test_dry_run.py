"""`ratchet check` tries the code of a pipeline in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from ratchet.cli import dry_run as module
from ratchet.cli.check import read
from ratchet.cli.dry_run import Findings, check_own_code, dry_run
from ratchet.cli.main import main
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
MODEL = """import torch
from torch import nn

class Mine(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.layer = nn.Linear(inputs, 1)

    def forward(self, x):
        return self.layer(x)
"""
GROUPS = MODEL.replace("(self, x)", "(self, x, groups)")
LOSS = "\ndef loss(scores, labels, weights, groups):\n    return "
DERIVE = "def derive(df):\n    df['dear'] = df['price'] / 2\n    return df\n"
COLUMNS = {
    "bought_at": {"role": "time", "type": "timestamp"},
    "shop": {"role": "categorical", "type": "string"},
    "query": {"role": "group", "type": "int64"},
    "price": {"role": "numeric", "type": "float64", "min": 1, "max": 50, "max_null": "5%"},
    "dear": {"role": "numeric", "type": "float64", "derived": True},
    "trust": {"role": "weight", "type": "float64"},
    "label": {"role": "label", "type": "int64", "in": [0, 1]},
}


def pipeline(
    folder: Path,
    *,
    objective: str = "binary",
    columns: Mapping[str, object] | None = None,
    features: str = DERIVE,
    model: str = MODEL,
) -> Path:
    document = {
        "name": "own",
        "source": {"kind": "files", "uri": "x/{date}.csv", "window_days": 7},
        "columns": {**COLUMNS, **(columns or {})},
        "train": {"objective": objective, "model": {"kind": "model.py:Mine", "embedding_dim": 4}},
    }
    (folder / "pipeline.yaml").write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    (folder / "features.py").write_text(features, encoding="utf-8")
    (folder / "model.py").write_text(model, encoding="utf-8")
    return folder


def found(folder: Path, limit_s: float = 60.0) -> Findings:
    return dry_run(read(folder / "pipeline.yaml"), folder, limit_s=limit_s)


def lines(findings: Findings, folder: Path) -> list[str]:
    return [str(problem).replace(f"{folder}/", "") for problem in findings.problems]


@pytest.mark.parametrize(
    ("objective", "label"),
    [
        ("binary", {"type": "bool"}),
        ("ranking", {"type": "int64"}),
        ("regression", {"type": "float64", "min": -5}),
        ("multiclass", {"type": "int64", "in": [0, 1, 2]}),
    ],
)
def test_code_that_works_is_fine_for_each_objective(tmp_path: Path, objective: str, label: dict[str, object]) -> None:
    model = MODEL.replace("(inputs, 1)", "(inputs, 3)") if objective == "multiclass" else MODEL
    folder = pipeline(tmp_path, objective=objective, columns={"label": {"role": "label", **label}}, model=model)
    assert found(folder) == Findings()


@pytest.mark.parametrize("kind", ["set", "tabm"])
def test_one_step_of_our_own_kinds_is_fine(tmp_path: Path, kind: str) -> None:
    assert dry_run(read(pipeline(tmp_path) / "pipeline.yaml", {"train.model.kind": kind}), tmp_path) == Findings()


def test_a_set_without_groups_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = pipeline(tmp_path, columns={"query": {"role": "id", "type": "int64"}})
    assert main(["check", str(folder), "--set", "train.model.kind=set"]) == 64
    said = capsys.readouterr().err
    assert (
        "train.model.kind: set needs a column with role group, whose rows attend to each other; to do: give a" in said
    )


@pytest.mark.parametrize("loss", ["mse_loss", "huber_loss"])
def test_a_loss_of_torch_is_fine_for_a_regression(tmp_path: Path, loss: str) -> None:
    """As in training, labels are float32."""
    model = f"{MODEL}{LOSS}nn.functional.{loss}(scores, labels)\n"
    columns = {"label": {"role": "label", "type": "float64", "min": 0}}
    assert found(pipeline(tmp_path, objective="regression", columns=columns, model=model)) == Findings()


def test_mistakes_of_both_files_are_reported_at_once_with_their_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    features = DERIVE.replace("/ 2", "- df['price'].mean()")
    pipeline(tmp_path, features=features, model=MODEL.replace("(inputs, 1)", "(inputs, 2)"))
    assert main(["check", str(tmp_path)]) == 64
    first, second, last = capsys.readouterr().err.splitlines()
    assert first.startswith(f"{tmp_path}/features.py:2: derive makes dear ")
    assert "allowed: a value of its own row" in first
    assert second.startswith(
        f"{tmp_path}/model.py:9: forward returned a tensor of shape [24, 2] for 24 rows; allowed: "
    )
    assert last == "2 problems; no stage has run"


MISTAKES = {
    "import": (DERIVE, "import math\nmath.nothing\n" + MODEL, "model.py:2: AttributeError: module 'math' has no attribute 'nothing'"),
    "missing value": (DERIVE.replace("/ 2", ".astype(int) / 2"), MODEL, "features.py:2: IntCastingNaNError: "),
    "nan loss": (DERIVE, MODEL + LOSS + "(scores - scores).mean().log() * labels.mean()", "model.py:1: the loss is -inf in one step on 24 made-up rows"),
    "gradient": (DERIVE, MODEL + LOSS + "(scores * 0).abs().sqrt().mean()", "model.py:1: the gradient of "),
    "sum": (DERIVE, MODEL + LOSS + "((scores - labels) ** 2).sum()", "model.py:12: loss of 24 rows is "),
    "other groups": (DERIVE, GROUPS.replace("(x)\n", "(x) + groups[:, None]\n"), "model.py:9: forward gives a row "),
    "rates": (DERIVE, MODEL + "\n    def parameter_groups(self):\n        return [{'params': [self.layer.weight], 'lr': 1}]\n", "model.py:12: parameter_groups has a group with lr; allowed: params, "),
    "batch": (DERIVE, MODEL.replace("(x)\n", "(x - x.mean(0))\n"), "model.py:9: forward gives a row "),
    "exit": (DERIVE, "import os\nos._exit(0)\n" + MODEL, "model.py: import of model.py ended the process with exit code 0; "),
    "crash": ("import ctypes\nctypes.string_at(0)\n" + DERIVE, MODEL, "features.py: import of features.py ended the process with signal 11; to do: "),
}  # fmt: skip


@pytest.mark.parametrize(("features", "model", "said"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_that_only_running_shows_is_reported(tmp_path: Path, features: str, model: str, said: str) -> None:
    columns = {"shop": {**COLUMNS["shop"], "in": ["a", "b"]}}
    findings = found(pipeline(tmp_path, features=features, model=model, columns=columns))
    assert [line for line in lines(findings, tmp_path) if line.startswith(said)] != [], findings


HANGS = {
    "features.py:2: import of features.py": ("x = 1\nwhile x: pass\n" + DERIVE, MODEL),
    "features.py:2: derive in features.py": (DERIVE.replace("df['price'] / 2", "__import__('threading').Event().wait()"), MODEL),
    "model.py:2: import of model.py": (DERIVE, "import threading\nthreading.Event().wait()\n" + MODEL),
}  # fmt: skip


@pytest.mark.parametrize(("said", "files"), HANGS.items(), ids=HANGS)
def test_code_that_hangs_is_ended_by_the_limit_and_named_with_its_line(
    tmp_path: Path, said: str, files: tuple[str, str]
) -> None:
    findings = found(pipeline(tmp_path, features=files[0], model=files[1]), limit_s=15)
    assert lines(findings, tmp_path) == [f"{said} takes more than 15 s; to do: make it end; look for a loop or a wait"]


def test_the_code_cannot_reach_the_process_that_checks_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has another process, copies of its files, none of the caller's secrets, and a limit of memory."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    spy = f"""
import os, resource, sys
from pathlib import Path
assert os.getpid() != {os.getpid()} and os.getsid(0) != {os.getsid(0)}
assert "AWS_SECRET_ACCESS_KEY" not in os.environ, "secrets"
assert Path(__file__).parent != Path({str(tmp_path)!r})
Path(__file__).with_name("written").write_text("x")
assert resource.getrlimit(resource.RLIMIT_DATA)[1] == 4 << 30, "memory"
sys.modules["ratchet.cli.check"] = None
print("fine", flush=True)
"""
    folder = pipeline(tmp_path, features=spy + DERIVE)
    assert found(folder) == Findings()
    assert sorted(path.name for path in folder.iterdir()) == ["features.py", "model.py", "pipeline.yaml"]


def test_libraries_are_compiled_once_where_the_caller_keeps_byte_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To compile torch and pandas takes longer than all of a check."""
    compiled, folder = tmp_path / "compiled", tmp_path / "own"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(compiled))
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    assert found(pipeline(folder)) == Findings()
    assert list(compiled.rglob("torch/__init__.*.pyc")) != []


def test_a_network_larger_than_its_memory_is_reported(tmp_path: Path) -> None:
    model = MODEL.replace("inputs, 1)", "inputs, 1)\n        self.big = nn.Parameter(torch.empty(2_000_000_000))")
    findings = found(pipeline(tmp_path, model=model))
    assert [problem.message for problem in findings.problems] == [
        "resources.train.memory: one step of training on a few rows needs more than 4g"
    ]


def test_a_folder_that_cannot_be_packed_is_a_problem(tmp_path: Path) -> None:
    folder = pipeline(tmp_path)
    (folder / "link.py").symlink_to(folder / "model.py")
    findings = check_own_code(read(folder / "pipeline.yaml"), folder)
    assert [problem.message for problem in findings.problems] == [f"{folder}/link.py: is not a plain file"]


def test_text_that_derive_cannot_read_may_be_the_made_up_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No rule says what form a text has: what fails for made-up text is not checked, and does not pass."""
    features = "import json\n" + DERIVE.replace("df['price'] / 2", "df['shop'].map(json.loads)")
    pipeline(tmp_path, features=features)
    assert main(["check", str(tmp_path)]) == 69
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "own: no mistake found, but not all was checked (7 columns, binary, auc)"
    assert said[-1].startswith("  not checked: derive, which fails for made-up rows: features.py:3: JSONDecodeError: ")
    folder = pipeline(tmp_path, features=features, columns={"shop": {**COLUMNS["shop"], "in": ["1", "2"]}})
    assert found(folder) == Findings()


@pytest.mark.parametrize("refusal", ["assert df['shop'].str.isdigit().all()", "raise Form"])
def test_text_that_derive_refuses_may_be_the_made_up_text(tmp_path: Path, refusal: str) -> None:
    features = f"class Form(Exception): pass\n{DERIVE.replace('    return', f'    {refusal}{chr(10)}    return')}"
    findings = found(pipeline(tmp_path, features=features))
    assert findings.problems == ()
    assert findings.unchecked[0].startswith("derive, which fails for made-up rows: features.py:4: ")


@pytest.mark.parametrize("own", [True, False])
def test_what_cannot_be_checked_is_said_and_does_not_pass(
    tmp_path: Path, own: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the library's wheel is installed alone; tests/packaging installs it."""
    monkeypatch.setattr(module, "_LIBRARIES", ("numpy", "a_library_that_nobody_has"))
    folder = pipeline(tmp_path) if own else ROOT / "dags" / "pipelines" / "search-ranking"
    assert main(["check", str(folder)]) == (69 if own else 0)
    first, *_, last = capsys.readouterr().out.splitlines()
    assert ": fine (" not in first
    what = "features.py and model.py, and one step of training" if own else "one step of training"
    assert last == (
        f"  not checked: {what}: a_library_that_nobody_has is not installed; "
        "to do: install the wheel ratchet-stages (make wheels)"
    )


def test_a_dry_run_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    """A killed check leaves no process: the code writes its number, and waits for ever."""
    folder = tmp_path / "own"
    folder.mkdir()
    pid = tmp_path / "pid"
    spy = f"import os, threading\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\nthreading.Event().wait()\n"
    pipeline(folder, features=spy + DERIVE)
    check = subprocess.Popen(
        [sys.executable, "-m", "ratchet.cli.main", "check", str(folder)], cwd=ROOT, stdout=subprocess.DEVNULL
    )
    try:
        until(lambda: pid.is_file() and pid.read_text() != "", seconds=120)
    finally:
        check.kill()
        check.wait()
    until(lambda: not Path(f"/proc/{pid.read_text()}").exists(), seconds=20)


def test_the_metric_is_tried_on_made_up_rows(tmp_path: Path) -> None:
    folder = pipeline(tmp_path)
    document = yaml.safe_load((folder / "pipeline.yaml").read_text(encoding="utf-8"))
    document["evaluate"] = {"metric": "metric.py:cost:lower"}
    (folder / "pipeline.yaml").write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    fine = "def cost(y, score, group, weight):\n    assert len(y) == len(score) == len(group) == len(weight)\n"
    (folder / "metric.py").write_text(f"{fine}    return abs(y - score).mean()\n", encoding="utf-8")
    assert lines(found(folder), folder) == []
    (folder / "metric.py").write_text(f"{fine}    return y['price']\n", encoding="utf-8")
    assert lines(found(folder), folder)[0].startswith("metric.py:3: IndexError")
