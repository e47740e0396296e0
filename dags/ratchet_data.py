"""The DAG that shows the days of a pipeline's data, and lets one in. plugins/ratchet_airflow/data.py builds it."""

from airflow.sdk import get_parsing_context

from ratchet_airflow import data

if get_parsing_context().dag_id in {None, data.DAG_ID}:
    dag = data.build()
