"""`ratchet check` and `ratchet schema`: what a person sees."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from tasks.cli.main import main
from tasks.cli.pipelines import find, overrides
from tasks.cli.schema import markdown
from tasks.contracts.errors import ConfigurationError

ROOT = Path(__file__).resolve().parents[2]
RANKING = ROOT / "tests" / "contracts" / "ranking.yaml"


def test_a_good_file_is_fine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(RANKING)]) == 0
    assert capsys.readouterr().out == "search-ranking: fine (8 columns, ranking, ndcg@10)\n"


def test_a_bad_file_lists_every_problem_and_ends_with_64(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(RANKING.read_text(encoding="utf-8").replace("epochs", "epoch").replace("gate:", "gates:"))
    assert main(["check", str(tmp_path)]) == 64
    said = capsys.readouterr()
    assert said.out == ""
    assert [line.partition(": ")[0] for line in said.err.splitlines()[:-1]] == [f"{file}:26", f"{file}:31"]
    assert said.err.splitlines()[-1] == "2 problems; nothing was run"


def test_explain_fills_in_every_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(RANKING), "--explain", "--set", "train.epochs=7"]) == 0
    filled = yaml.safe_load(capsys.readouterr().out)
    assert filled["train"]["epochs"] == 7
    assert filled["train"]["patience"] == 2
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


@pytest.mark.parametrize("pair", ["train.epochs", "=3", "a=["])
def test_a_flag_that_is_no_key_and_value_is_refused(pair: str) -> None:
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
    from tasks.contracts.loading import loads  # noqa: PLC0415

    assert loads(example).name == "late-flights"
