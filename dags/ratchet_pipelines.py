"""The DAG file of the pipelines: one DAG for each folder in `pipelines` that has a valid pipeline.yaml."""

from airflow.sdk import get_parsing_context

from ratchet_airflow import folders
from ratchet_airflow.dag import build

_root = folders.root(__file__)
_wanted = get_parsing_context().dag_id
_dags = (
    [folders.build_one(found, build) for found in folders.read_one(_root, _wanted)]
    if _wanted
    else folders.build_all(_root, build)[0]
)
globals().update({f"dag_{dag.dag_id}": dag for dag in _dags})
