"""Registers Ratchet where this folder is Airflow's plugins folder; the code is in `ratchet_airflow`.

Where the wheel is installed Airflow finds the plugin by its entry point, and refuses a second one of its name.
"""

from importlib.metadata import entry_points

if not entry_points(group="airflow.plugins", name="ratchet"):
    from ratchet_airflow.plugin import RatchetPlugin

    __all__ = ["RatchetPlugin"]
