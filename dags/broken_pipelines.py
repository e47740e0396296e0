"""Raise the problems of all broken pipelines, so that Airflow shows them as the import error of this file.

This file has no DAG. The same error in `ratchet_pipelines.py` would stop every pipeline: see docs/adr/004.
"""

from ratchet_airflow import folders
from ratchet_airflow.dag import build

_broken = folders.build_all(folders.root(__file__), build)[1]
if _broken:
    raise folders.merge_errors(_broken)
