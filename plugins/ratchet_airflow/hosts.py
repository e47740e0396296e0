"""A training that this host is too small for waits for a worker of a host that has more GPUs.

A change here violates the promise of the project when a training ends for good on a small host while a larger one takes
tasks from the same queue.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from ratchet.contracts.outages import OnAnotherHost
from ratchet.runners.devices import TooFewDevices
from ratchet.runners.runner import Runner
from ratchet.runs.known_hosts import hosts
from ratchet.store.base import Store
from ratchet_airflow.run_id import installation


@contextmanager
def larger_hosts_wanted(store: Store, runner: Runner) -> Iterator[None]:
    """Turn TooFewDevices into OnAnotherHost where another host than that of the runner has enough of them."""
    try:
        yield
    except TooFewDevices as error:
        here = runner.engine.id if runner.engine is not None else None
        others = (host for host in hosts(store, installation()) if host.engine != here)
        larger = next((host.name for host in others if host.gpus >= error.wanted), None)
        if larger is None:
            raise
        raise OnAnotherHost(
            f"{error.cause}; {larger} has enough",
            remedy=f"wait for a worker of {larger}, or let the workers of small hosts take no tasks of this queue",
        ) from error
