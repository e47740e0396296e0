"""The store does not answer where a stage begins: it is waited for, for hours, and no try is used."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from airflow.sdk.exceptions import AirflowRescheduleException

from ratchet.contracts.environment import variable
from ratchet.contracts.errors import Unavailable
from ratchet.contracts.loading import load
from ratchet.contracts.request import RunPlan
from ratchet.contracts.stages import StageSettings
from ratchet.runs.planning import make_plan
from ratchet.samples import clicks
from ratchet_airflow import outages
from ratchet_airflow.operators import StageOperator
from tests.faults.forwarder import Forwarder, forwarded
from tests.plugins.test_operators import DAY, FOLDER, States, context
from tests.s3 import S3Server

SETTINGS = StageSettings.model_validate({"retry_delay": "1m"})


@pytest.fixture
def way(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Forwarder]:
    """The way to a real S3 server."""
    there = urlsplit(s3.endpoint)
    assert there.hostname is not None
    assert there.port is not None
    with forwarded(("127.0.0.1", 0), (there.hostname, there.port)) as made:
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://{}:{}".format(*made.here))
        yield made


@pytest.fixture
def plan(tmp_path: Path, s3: S3Server, way: Forwarder, monkeypatch: pytest.MonkeyPatch) -> RunPlan:
    store = f"s3://{s3.bucket}/{tmp_path.name}"
    monkeypatch.setenv(variable("data"), str(tmp_path))
    monkeypatch.setenv(variable("store"), store)
    monkeypatch.setenv(variable("runner"), "process")
    for _ in clicks.write(tmp_path, days=3, rows_per_day=50, end=DAY, seed=0):
        pass
    spec = load(FOLDER, {"source.window_days": 3, "stages.ingest.retry_delay": "1s"})
    return make_plan(folder=FOLDER, spec=spec, data_date=DAY, run_id="r", kind="manual", store_uri=store)


def test_a_task_is_called_again_in_the_same_try_until_its_limit(plan: RunPlan, way: Forwarder) -> None:
    states, said = States(), list[str]()
    task = StageOperator(
        pipeline="search-ranking", stage="ingest", retries=2, handling=SETTINGS,
        on_outage=lambda _, error, step: said.append(f"{error}; {step}"),
    )  # fmt: skip
    way.away()
    for waited_s in (60, 120):
        with pytest.raises(AirflowRescheduleException):
            task.execute(context(states))
        assert states.kept[outages.WAITED] == [2, waited_s]
    with pytest.raises(AirflowRescheduleException):  # as when the trigger has fired meanwhile
        task.go_on(context(states), {"why": "it has ended", "again": True}, request="{}", because="", preemptions=0)
    assert states.kept[outages.WAITED] == [2, 240]
    (outage,) = said
    assert outage.endswith("the same try looks again with growing pauses, for 4h in all")
    states.kept[outages.WAITED] = [2, SETTINGS.outage_s]  # as after hours
    with pytest.raises(Unavailable):
        task.execute(context(states))
    with pytest.raises(AirflowRescheduleException):  # a person has cleared it: it waits again from the beginning
        task.execute(context(states, try_number=3, max_tries=5))
    assert states.kept[outages.WAITED] == [5, 60]
    assert len(said) == 2
    way.back()
    value = task.execute(context(states, try_number=3, max_tries=5))
    assert task.has_waited
    assert value.startswith(f"{plan.store}/published/search-ranking/ingest/")
