"""Hostile YAML, Jinja and parameters are refused, or do nothing.

Hostile YAML as such (tags, anchors, sizes) is in tests/contracts/test_loading.py.
"""

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import ParamValidationError

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError, PipelineInvalid
from ratchet.contracts.loading import load, loads
from ratchet_airflow import form
from ratchet_airflow.dag import build
from ratchet_airflow.run_id import store_run_id
from tests.dags.pipelines import write

pytestmark = pytest.mark.filterwarnings("ignore:GitWildMatchPattern")  # Airflow's own, when it looks for plugins

JINJA = "{{ ''.__class__.__mro__[1].__subclasses__() }}{% for x in range(10**9) %}{% endfor %}"
TEXT = """
name: small
description: {description}
source: {{kind: files, uri: {uri}}}
columns:
  x: {{role: numeric, type: float64}}
  y: {{role: label, type: int64}}
train: {{objective: binary}}
"""


def test_jinja_in_a_pipeline_file_is_text_that_nobody_renders(tmp_path: Path) -> None:
    folder = write(tmp_path, "search-ranking")
    file = folder / "pipeline.yaml"
    text = file.read_text(encoding="utf-8")
    lines = [f"description: {JINJA!r}" if line.startswith("description:") else line for line in text.splitlines()]
    file.write_text("\n".join(lines), encoding="utf-8")
    dag = build(load(folder), folder)
    assert JINJA in dag.doc_md
    for task in dag.tasks:
        assert not [field for field in task.template_fields if JINJA in str(getattr(task, field))], task.task_id


@pytest.mark.parametrize(
    "given",
    [
        {"date": JINJA},
        {"date": "2026-11-20; rm -rf /"},
        {"date": "../../etc/passwd"},
        {"date": ["2026-11-20"]},
        {"promote": "auto # approve"},
        {"promote": True},
        {"epochs": "1e9"},
        {"epochs": 10**12},
        {"epochs": -1},
        {"learning_rate": float("nan")},
        {"learning_rate": 0},
        {"seed": -1},
        {"rebuild": "yes"},
        {"window_days": {"$gt": 0}},
    ],
)
def test_a_hostile_value_in_the_form_is_refused_or_never_reaches_a_stage(given: dict[str, Any], tmp_path: Path) -> None:
    folder = write(tmp_path, "search-ranking")
    fields = ParamsDict(form.params(load(folder)))
    with pytest.raises((ParamValidationError, PipelineInvalid)):
        _filled(fields, given, folder)


def _filled(fields: ParamsDict, given: dict[str, Any], folder: Path) -> None:
    fields.update(given)
    load(folder, form.overrides(fields.validate()))


@pytest.mark.parametrize("run_id", ["../../x", "a/b", "x\0y", JINJA, "$(id)", "-rf", "." * 300, "", "ü" * 90])
def test_a_hostile_run_id_becomes_one_plain_name(run_id: str) -> None:
    name = store_run_id(run_id)
    assert paths.segment(name) == name
    assert paths.plan("p", name).count("/") == 3


@pytest.mark.parametrize(
    "uri",
    ["'/data/{date}/../../etc/*'", "'/data/{date.__class__}/*'", "'s3://user:secret@bucket/{date}'", "'/data/*'"],
)
def test_a_hostile_source_is_refused_before_anything_is_read(uri: str, tmp_path: Path) -> None:
    from ratchet.contracts.dates import parse_date
    from ratchet.runtime.sources import list_days

    with pytest.raises(ConfigurationError):
        list_days(loads(TEXT.format(description="x", uri=uri)).source, (parse_date("2026-11-20"),))
