"""The DAGs that change production by hand, or look at it. plugins/ratchet_airflow/production.py builds them."""

from airflow.sdk import get_parsing_context

from ratchet_airflow import production
from ratchet_airflow.alerts.by_hand import callbacks

_wanted = get_parsing_context().dag_id
for _verb in production.VERBS:
    if _wanted in {None, _verb.dag_id}:
        globals()[_verb.dag_id] = production.build(_verb, callbacks())
