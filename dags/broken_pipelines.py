"""Makes Airflow show, as the import error of this file, what is wrong with pipelines that have no DAG.

There is no DAG here. An error in the DAG file itself would take every DAG down, see docs/adr.
"""

from ratchet_airflow import folders
from ratchet_airflow.dag import build

_broken = folders.build_all(folders.root(__file__), build)[1]
if _broken:
    raise folders.merge_errors(_broken)
