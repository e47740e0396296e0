"""A night of the pipeline of tests.shop from training to register; also as a program, for another state of our code."""

import json
import sys
from pathlib import Path

from ratchet.contracts.registration import Registration
from ratchet.contracts.result import PublishedResult
from ratchet.store.file import FileStore
from ratchet.store.ledger import champion
from tests.shop import Shop


def register(shop: Shop, training: PublishedResult, evaluated: PublishedResult, attempt: str = "a1") -> Registration:
    """Run the register stage."""
    finished, _ = shop.finish(shop.registration(training, evaluated, attempt))
    assert isinstance(finished.summary, Registration)
    return finished.summary


def evaluate(shop: Shop, training: PublishedResult) -> PublishedResult:
    """Evaluate against the champion, if there is one."""
    live = champion(shop.store, shop.spec.model_name)
    against = None
    if live:
        against = shop.crown(training, number=live.number, version=live.version).model_copy(
            update={"digest": live.model_digest, "manifests": live.manifests}
        )
    return shop.evaluate(training, against)[1]


def night(shop: Shop, training: PublishedResult) -> Registration:
    """Evaluate against the champion, and register."""
    return register(shop, training, evaluate(shop, training))


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    there = Shop.make(FileStore(Path(given["store"])), Path(given["scratch"]))
    trained = there.train(*given["weights"], code=given["code"], helpers=given["helpers"])
    judged = evaluate(there, trained)
    done = register(there, trained, judged)
    sys.stdout.write(json.dumps({"version": done.version, "training": trained.key, "evaluated": judged.key}))
