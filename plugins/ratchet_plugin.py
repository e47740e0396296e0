"""Ratchet's plugin. Airflow's plugin loader runs this file alone; the code is in `ratchet_airflow`."""

from airflow.plugins_manager import AirflowPlugin

from ratchet_airflow import listener, pages
from ratchet_airflow.links import ModelLink, NightsLink, PageLink
from ratchet_airflow.timetable import DayBeforeTimetable


class RatchetPlugin(AirflowPlugin):
    """The timetable, the links of tasks and the pages behind them, and the listener, which starts the watch."""

    name = "ratchet"
    listeners = [listener]  # noqa: RUF012 - Airflow reads class attributes
    timetables = [DayBeforeTimetable]  # noqa: RUF012 - as above
    fastapi_apps = [{"app": pages.app, "url_prefix": pages.PREFIX, "name": "Ratchet"}]  # noqa: RUF012 - as above
    operator_extra_links = [PageLink(), ModelLink(), NightsLink()]  # noqa: RUF012 - as above
