"""`ratchet new-model` writes a model.py that passes the check and trains, and overwrites nothing."""

from pathlib import Path

import numpy as np
import pytest

from ratchet.cli.main import main
from ratchet.cli.new_model import write
from ratchet.contracts import summaries
from tests.cli.test_dry_run import pipeline
from tests.train.test_stage import LABELS, ROWS, prepare

LABEL = {"role": "label", "type": "int64", "in": [0, 1, 2]}


def test_it_writes_a_model_that_passes_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = pipeline(tmp_path, objective="multiclass", columns={"label": LABEL})
    (folder / "model.py").unlink()
    assert main(["new-model", str(folder)]) == 0
    said = capsys.readouterr().out
    assert f"{folder}/model.py is written" in said
    assert 'train: {model: {kind: "model.py:MyModule"}}' in said
    assert main(["check", str(folder), "--set", "train.model.kind=model.py:MyModule"]) == 0
    assert "own: fine" in capsys.readouterr().out


def test_it_names_the_keys_that_only_trees_have(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = pipeline(tmp_path)
    (folder / "model.py").unlink()
    file = folder / "pipeline.yaml"
    trees = file.read_text(encoding="utf-8").replace("model.py:Mine", "lightgbm").replace("embedding_dim", "leaves")
    file.write_text(trees, encoding="utf-8")
    assert main(["new-model", str(folder)]) == 0
    assert (
        "first remove from train.model in pipeline.yaml, as only lightgbm has them: leaves" in capsys.readouterr().out
    )


def test_it_overwrites_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = pipeline(tmp_path)
    before = (folder / "model.py").read_text(encoding="utf-8")
    assert main(["new-model", str(folder / "pipeline.yaml")]) == 64
    assert "model.py is there already; to do: edit it, or move it away first" in capsys.readouterr().err
    assert (folder / "model.py").read_text(encoding="utf-8") == before
    assert main(["new-model", str(tmp_path / "nowhere")]) == 64


@pytest.mark.parametrize("objective", LABELS)
def test_what_it_writes_trains_and_scores(tmp_path: Path, objective: str) -> None:
    template = write(tmp_path).read_text(encoding="utf-8")
    trainings = prepare(tmp_path / "nights", objective, model=template)
    trainings.settings(model={"kind": "model.py:MyModule", "embedding_dim": 4})
    published = trainings.train()
    evaluations = summaries.trained(published.result).evaluations
    assert evaluations[-1].loss < evaluations[0].loss
    df, scores = trainings.scores(published, tmp_path / "model")
    assert scores.shape[0] == ROWS
    assert np.isfinite(scores).all()
    if objective == "regression":
        assert np.corrcoef(scores, df["clicked"])[0, 1] > 0.5
