"""Pools: who may use how much at once. That the set-up makes them is seen in tests/airflow."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.stages import Resources
from ratchet_airflow import pools
from ratchet_airflow.pools import BACKFILL, BACKFILL_GPU, CPU, GPU, given_pools, share, yield_to_nights


@pytest.fixture(autouse=True)
def four_cores_and_two_gpus(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("RATCHET_POOL_CPU", "4")
    monkeypatch.setenv("RATCHET_POOL_BACKFILL", "1")
    monkeypatch.setenv("RATCHET_GPUS", "0,1")
    pools.pools.cache_clear()
    yield
    pools.pools.cache_clear()


def test_a_stage_takes_as_many_slots_as_cores_or_as_devices() -> None:
    assert (share(Resources(cpus=1.5))["pool"], share(Resources(cpus=1.5))["pool_slots"]) == (CPU, 2)
    assert (share(Resources(gpus=2))["pool"], share(Resources(gpus=2))["pool_slots"]) == (GPU, 2)


def test_one_that_wants_more_than_there_is_takes_all() -> None:
    assert share(Resources(cpus=64))["pool_slots"] == 4
    assert share(Resources(gpus=8))["pool_slots"] == 2


@pytest.mark.parametrize(
    ("pool", "slots", "kind", "expected"),
    [
        (CPU, 2, "backfill", (BACKFILL, 1, 3)),
        (GPU, 2, "backfill", (GPU, 2, 3)),
        ("default_pool", 1, "backfill", ("default_pool", 1, 30)),
        (CPU, 2, "scheduled", (CPU, 2, 30)),
        (CPU, 2, "manual", (CPU, 2, 30)),
    ],
)
def test_backfills_yield_to_nights(pool: str, slots: int, kind: str, expected: tuple[str, int, int]) -> None:
    task = SimpleNamespace(pool=pool, pool_slots=slots, priority_weight=30)
    yield_to_nights(task, SimpleNamespace(run_type=kind))
    assert (task.pool, task.pool_slots, task.priority_weight) == expected


def test_gpus_that_are_set_aside_are_for_backfills_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_GPUS", "0,1,2,3")
    monkeypatch.setenv("RATCHET_POOL_BACKFILL_GPU", "1")
    pools.pools.cache_clear()
    assert {name: pools.pools()[name].slots for name in (GPU, BACKFILL_GPU)} == {GPU: 3, BACKFILL_GPU: 1}
    assert share(Resources(gpus=4))["pool_slots"] == 3
    task = SimpleNamespace(pool=GPU, pool_slots=2, priority_weight=30)
    yield_to_nights(task, SimpleNamespace(run_type="backfill"))
    assert (task.pool, task.pool_slots, task.priority_weight) == (BACKFILL_GPU, 1, 3)


def test_nights_are_left_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_POOL_BACKFILL_GPU", "2")
    pools.pools.cache_clear()
    with pytest.raises(ConfigurationError, match="RATCHET_POOL_BACKFILL_GPU=2 leaves none of 2 GPUs for nightly runs"):
        pools.pools()


def test_a_task_without_a_run_is_left_alone() -> None:
    task = SimpleNamespace(pool=CPU, pool_slots=2, priority_weight=30)
    yield_to_nights(task, None)
    assert task.pool == CPU


@pytest.mark.parametrize("given", ["0", "many", "-1"])
def test_a_setting_that_is_no_number_of_slots_is_named(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_POOL_CPU", given)
    pools.pools.cache_clear()
    with pytest.raises(ConfigurationError, match="RATCHET_POOL_CPU"):
        pools.pools()


def test_only_a_stage_that_wants_gpus_names_a_queue() -> None:
    assert share(Resources(gpus=1))["queue"] == "gpu"
    assert "queue" not in share(Resources(cpus=2))


def test_the_slots_follow_from_settings_and_not_from_the_host_that_parses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RATCHET_POOL_CPU", "RATCHET_POOL_BACKFILL", "RATCHET_GPUS"):
        monkeypatch.delenv(name)
    seen = []
    for cores, devices in ((2, 0), (64, 8)):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        monkeypatch.setattr("ratchet.runners.devices._listed_by_driver", lambda devices=devices: ("0",) * devices)
        pools.pools.cache_clear()
        seen.append(
            ({name: pool.slots for name, pool in pools.pools().items()}, share(Resources(cpus=8))["pool_slots"])
        )
    assert seen == [({CPU: 4, GPU: 1, BACKFILL: 4}, 4)] * 2


def test_the_set_up_makes_what_is_missing_and_leaves_what_an_admin_edited(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {pool.name for pool in pools.to_write({})} == {CPU, GPU, BACKFILL}
    edited = {CPU: 32, GPU: 7, BACKFILL: 1, "default_pool": 128}
    assert pools.to_write(edited) == []
    monkeypatch.setenv("RATCHET_POOLS_GIVEN", given_pools({"pool_cpu": "4", "pool_gpu": None, "pool_backfill": ""}))
    assert {pool.name: pool.slots for pool in pools.to_write(edited)} == {CPU: 4}
    assert pools.to_write({**edited, CPU: 4}) == []
