"""Makes Airflow show, as the import error of this file, what is wrong with pipelines that are not good.

There is no DAG here. An error in the DAG file itself would take every DAG down, see docs/adr.
"""

from ratchet_airflow import folders

_broken = folders.read(folders.root(__file__))[1]
if _broken:
    raise folders.together(_broken)
