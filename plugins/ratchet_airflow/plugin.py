"""What Ratchet adds to Airflow: the entry point `airflow.plugins` of the wheel, and what `plugins/` registers."""

from airflow.plugins_manager import AirflowPlugin

from ratchet_airflow import listener, pages
from ratchet_airflow.links import ModelLink, NightsLink, PageLink
from ratchet_airflow.timetable import DayBeforeTimetable


class RatchetPlugin(AirflowPlugin):
    """The timetable, the links of tasks and the pages behind them, and the listener, which starts the watch."""

    name = "ratchet"
    listeners = [listener]
    timetables = [DayBeforeTimetable]
    fastapi_apps = [{"app": pages.app, "url_prefix": pages.PREFIX, "name": "Ratchet"}]
    operator_extra_links = [PageLink(), ModelLink(), NightsLink()]
