"""`ratchet reap`: ends containers of `ratchet run` that no process follows any more. Airflow has another reaper."""

import argparse

from ratchet.cli.pipelines import add_store
from ratchet.pages.words import count
from ratchet.runners.choice import await_engine, engine_expected
from ratchet.runners.docker import DockerRunner
from ratchet.runs.history import is_local
from ratchet.runs.reaping import free_leases, orphans, reap_all
from ratchet.store.opening import open_store


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    add_store(parser)
    parser.add_argument("--dry-run", action="store_true", help="list these containers, and end none")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if not engine_expected(None):
        print("there is no Docker engine on this machine, so no container runs")
        return 0
    await_engine(0)
    store, runner = open_store(options.store), DockerRunner()
    found = orphans(store, runner, lambda pipeline, run_id, _: not is_local(store, pipeline, run_id))
    for orphan in found:
        print(f"{orphan.handle[:12]}  {orphan.stage} of {orphan.pipeline}, run {orphan.run_id}")
    if not options.dry_run:
        reap_all(runner, found)
    for freed in [] if options.dry_run else free_leases(store, runner):
        print(f"{freed}: its container has ended, and another host need not wait for it any more")
    print(f"{count(len(found), 'container')} that no run follows{'' if options.dry_run else ', ended'}")
    return 0
