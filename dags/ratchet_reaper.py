"""The DAG that ends containers that no run follows any more. plugins/ratchet_airflow/reaper.py builds it."""

from airflow.sdk import get_parsing_context

from ratchet_airflow import reaper
from ratchet_airflow.listener import REAPER

if get_parsing_context().dag_id in {None, REAPER}:
    dag = reaper.build()
