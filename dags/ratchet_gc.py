"""The DAG that deletes what nothing in the store needs any more. plugins/ratchet_airflow/collection.py builds it."""

from airflow.sdk import get_parsing_context

from ratchet_airflow import collection
from ratchet_airflow.collection_time import COLLECTION

if get_parsing_context().dag_id in {None, COLLECTION}:
    dag = collection.build()
