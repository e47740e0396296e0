"""Airflow's DAG file: one DAG for each folder in `pipelines` that has a good pipeline.yaml."""

from airflow.sdk import get_parsing_context

from ratchet_airflow import folders
from ratchet_airflow.dag import build

_root = folders.root(__file__)
_wanted = get_parsing_context().dag_id
_found = folders.read_one(_root, _wanted) if _wanted else folders.read(_root)[0]
for _pipeline in _found:
    globals()[f"dag_{_pipeline.spec.name}"] = build(_pipeline.spec, _pipeline.folder)
