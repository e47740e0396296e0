"""The DAG that ends what no run follows any more. Built in plugins/ratchet_airflow/reaper.py."""

from airflow.sdk import get_parsing_context

from ratchet_airflow import reaper

if get_parsing_context().dag_id in {None, reaper.DAG_ID}:
    dag = reaper.build()
