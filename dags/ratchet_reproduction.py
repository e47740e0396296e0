"""The DAG that builds a registered version again. plugins/ratchet_airflow/reproduction.py builds it."""

from airflow.sdk import get_parsing_context

from ratchet_airflow import reproduction

if get_parsing_context().dag_id in {None, reproduction.DAG_ID}:
    dag = reproduction.build()
