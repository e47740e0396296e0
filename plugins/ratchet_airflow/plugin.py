"""What Ratchet adds to Airflow: the entry point `airflow.plugins` of the wheel, and what `plugins/` registers."""

from airflow.plugins_manager import AirflowPlugin

from ratchet_airflow import listener, pages
from ratchet_airflow.links import ModelLink, NightsLink, PageLink
from ratchet_airflow.timetable import DayBeforeTimetable


class RatchetPlugin(AirflowPlugin):
    """The timetable that DAGs are serialised with, the links of their tasks, the pages behind them, and the watch."""

    name = "ratchet"
    listeners = [listener]  # noqa: RUF012 - Airflow's own way
    timetables = [DayBeforeTimetable]  # noqa: RUF012 - the same
    fastapi_apps = [{"app": pages.app, "url_prefix": pages.PREFIX, "name": "Ratchet"}]  # noqa: RUF012 - the same
    operator_extra_links = [PageLink(), ModelLink(), NightsLink()]  # noqa: RUF012 - the same
