"""`python -m local.make_pools HOME`: the step of `make serve` that makes Airflow's pools, once its server answers."""

import sys
from pathlib import Path

from local.airflow_api import AirflowApi
from local.services import Services
from ratchet.checkout import ROOT
from ratchet.contracts.errors import RatchetError
from ratchet_airflow import pools

_MANY = 1000


def main(arguments: list[str]) -> int:
    """Make what is missing, and set the slots that a person has set by a setting."""
    (home,) = map(Path, arguments)
    services = Services(ROOT, home)
    try:
        make(AirflowApi(services.airflow_url, services.user, services.password))
    except RatchetError as error:
        sys.stderr.write(f"pools: {error}\n")
        return int(error.code)
    return 0


def make(api: AirflowApi) -> None:
    """The same with a client."""
    there = {each["name"]: int(each["slots"]) for each in api.call("GET", f"/pools?limit={_MANY}")["pools"]}
    for pool in pools.to_write(there):
        wanted = {"slots": pool.slots, "description": pool.description, "include_deferred": True}
        if pool.name in there:
            api.call("PATCH", f"/pools/{pool.name}?update_mask=slots", {"pool": pool.name, **wanted})
        else:
            api.call("POST", "/pools", {"name": pool.name, **wanted})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
