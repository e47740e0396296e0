"""The schedule of a pipeline: at each tick of the cron expression, a run with the data of the day before.

Airflow's own CronPartitionTimetable names a partition after a tick of the cron expression, so that a weekly run would
have the data of a week ago, and a backfill up to the 12th would leave out the 12th, whose tick is at 02:00.
Here the partition of a run is the day before it, from midnight to midnight in the pipeline's time zone.
"""

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pendulum
from airflow.timetables.base import DagRunInfo
from airflow.timetables.trigger import CronPartitionTimetable

_KEY = "%Y-%m-%d"


class DayBeforeTimetable(CronPartitionTimetable):
    """cron: five fields. timezone: an IANA name. Partition keys are days, as in 2026-11-20.

    A DAG that is unpaused for the first time gets the newest run at once, not only the next one.
    """

    def __init__(self, cron: str, timezone: str) -> None:
        super().__init__(cron, timezone=timezone, run_immediately=True, key_format=_KEY)
        self._zone = timezone

    def serialize(self) -> dict[str, Any]:
        """The arguments of `deserialize`."""
        return {"cron": self._expression, "timezone": self._zone}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "DayBeforeTimetable":
        """The timetable that `serialize` saved."""
        return cls(data["cron"], data["timezone"])

    def next_after(self, moment: datetime) -> datetime:
        """The first tick after a moment, in UTC."""
        # A plain datetime: Airflow's supervisor cannot take differences of pendulum's own type.
        return datetime.fromtimestamp(self._get_next(pendulum.instance(moment)).timestamp(), UTC)

    def last_before(self, moment: datetime) -> datetime:
        """The newest tick up to a moment, in UTC."""
        return datetime.fromtimestamp(self._align_to_prev(pendulum.instance(moment)).timestamp(), UTC)

    def data_date(self, tick: datetime) -> date:
        """The data date of the run of a tick."""
        return self._day(tick) - timedelta(days=1)

    def _get_partition_date(self, *, run_date: datetime) -> pendulum.DateTime:
        return self._midnight(self.data_date(run_date))

    def iter_partition_dagrun_infos(self, *, earliest: datetime, latest: datetime) -> Iterable[DagRunInfo]:
        """One run for each day in the range, both ends included, for which the schedule has a tick.

        A run may start when its day is over.
        """
        first, last = self.localize_partition_datetime(earliest), self.localize_partition_datetime(latest)
        day = self._day(first)
        while (start := self._midnight(day)) <= last:
            over = self._midnight(day + timedelta(days=1))
            if start >= first and self._align_to_next(over) < self._midnight(day + timedelta(days=2)):
                yield DagRunInfo(
                    run_after=over, data_interval=None, partition_date=start, partition_key=day.strftime(_KEY)
                )
            day += timedelta(days=1)

    def count_days(self, first: datetime, last: datetime) -> int:
        """The number of runs that a backfill of this range has."""
        return sum(1 for _ in self.iter_partition_dagrun_infos(earliest=first, latest=last))

    def _day(self, moment: datetime) -> date:
        return pendulum.instance(moment).in_timezone(self._timezone).date()

    def _midnight(self, day: date) -> pendulum.DateTime:
        """The start of a day in the pipeline's time zone, as a moment in UTC."""
        return pendulum.datetime(day.year, day.month, day.day, tz=self._timezone).in_timezone("UTC")
