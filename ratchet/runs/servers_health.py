"""Whether the watch and the reapers of one Airflow are there, and silence alarms: as their marks in the store say."""

from collections.abc import Iterator

from ratchet.contracts import outbox_paths
from ratchet.contracts.diagnosis import Diagnosis
from ratchet.contracts.environment import environment, variable
from ratchet.contracts.presence import AWAY_S, Presence
from ratchet.contracts.quantities import show_duration
from ratchet.contracts.stored import read_stored
from ratchet.runs.known_hosts import hosts
from ratchet.store.base import Entry, Store

_SILENT_S = 900
"""The watch sends a heartbeat each minute while all is well, and a service outside alarms about now."""


def diagnose_servers(store: Store) -> Iterator[Diagnosis]:
    """A line for the watch, one for each host with a reaper, and one for what alarms if all of them are dead.

    Where no installation is named here, as in a shell beside an Airflow of one's own, only the last.
    """
    installation = environment().installation
    if installation is None:
        yield _silence(None)
        return
    mark = outbox_paths.presence(installation, "watch")
    there = store.head(mark)
    start = "start the service `watch`, or python -m ratchet_airflow.watch, and read its log"
    yield _presence("watch", "the watch", store, there, start)
    yield from _reapers(store, installation)
    yield _silence(read_stored(Presence, store.read(mark), where=f"{store.uri}/{mark}") if there else None)


def _reapers(store: Store, installation: str) -> Iterator[Diagnosis]:
    found = sorted(hosts(store, installation))
    if not found:
        start = "start the service `reaper`, or python -m ratchet_airflow.reaper beside each engine"
        yield _presence("hosts", "the reaper", store, store.head(outbox_paths.presence(installation, "reaper")), start)
    names = [host.name for host in found]
    for host in found:
        gpus = f" ({host.gpus} GPUs)" if host.gpus else ""
        # An engine that was installed again is another one, on a host of the same name.
        one, engine = (
            (host.name, "") if names.count(host.name) == 1 else (host.engine, f" with the engine {host.engine}")
        )
        start = f"start the host, or its service `reaper`; if it is gone: `ratchet host-gone {one} --because WHY`"
        yield _presence("hosts", f"the reaper of {host.name}{engine}{gpus}", store, host.entry, start)


def _presence(name: str, who: str, store: Store, mark: Entry | None, start: str) -> Diagnosis:
    if mark is None:
        return Diagnosis(name=name, well=False, text=f"{who} has never been there; {start}")
    seconds = max(0, (store.now_ns() - mark.modified_ns) // 10**9)
    ago = show_duration(seconds)
    if seconds > max(AWAY_S, 2 * environment().watch_seconds):
        return Diagnosis(name=name, well=False, text=f"{who} has not been there for {ago}; {start}")
    return Diagnosis(name=name, well=True, text=f"{who} was there {ago} ago")


def _silence(watch: Presence | None) -> Diagnosis:
    """Whether somebody hears of it if all here is dead. The watch may be the only one that has the address."""
    well, text = True, f"if the watch's host dies, nobody hears of it; {variable('heartbeat_url')} alarms then"
    if watch is not None and watch.heartbeat is not None:
        silent = int((watch.at - watch.heartbeat).total_seconds())
        well, text = silent <= _SILENT_S, "silence alarms outside"
        text = text if well else f"{text}: no heartbeat has gone out for {show_duration(silent)}; the watch logs why"
    elif environment().heartbeat_url:
        well, text = watch is None, "silence alarms outside"
        text = text if well else f"{variable('heartbeat_url')} is set here, and the watch sends none; start it with it"
    return Diagnosis(name="silence", well=well, text=text)
