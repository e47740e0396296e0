"""What runs leave beside the store: their images in the engine here, and their trainings in MLflow.

A change here violates the promise of the project when an image goes that a run which stays whole, or a version, names.
"""

from collections import defaultdict
from collections.abc import Collection

from ratchet.collection.findings import Collected, Sum, Sums
from ratchet.contracts.errors import RatchetError
from ratchet.runners.stage_images import StageImages
from ratchet.runs.jobs import store_label
from ratchet.tracking.trainings import Trainings

_IMAGES, _TRAININGS = "images of the engine here", "trainings in MLflow"


def collect_images(unneeded: Collection[str], *, apply: bool) -> Collected:
    """unneeded: digests of images that runs of the store used, and that no run which stays whole and no version names.

    An image of which there is a container, or which a name beside that of its build names, stays.
    """
    goes, stays = _sums(), _sums()
    try:
        for image in StageImages().known():
            if image.digest not in unneeded:
                why = "a run that stays or a version names it, or no run of this store did"
            else:
                why = image.in_use or ("" if not apply else image.remove())
            into, said = (stays, why) if why else (goes, "only runs whose results are gone name it")
            into["stage images", said] = into["stage images", said].plus_one(image.bytes)
    except RatchetError as error:
        return Collected(of=_IMAGES, goes=goes, stays=stays, unchecked=str(error))
    return Collected(of=_IMAGES, goes=goes, stays=stays)


def collect_trainings(
    uri: str, store: str, pipelines: Collection[str], runs: Collection[str], before_ms: int, *, apply: bool
) -> Collected:
    """store: its URI; trainings of other stores are left alone, and those without the tag of one.

    runs: those whose records stay. before_ms: trainings that began later stay, in milliseconds since 1970.
    MLflow keeps what is deleted until `mlflow gc` drops it.
    """
    goes, stays = _sums(), _sums()
    try:
        trainings = Trainings(uri, store=store_label(store))
        for training in [one for pipeline in pipelines for one in trainings.of(pipeline)]:  # before any is deleted
            if training.run_id in runs or training.begun_ms > before_ms:
                why = "its run stays, or it is young"
                stays["trainings", why] = stays["trainings", why].plus_one(0)
                continue
            if apply:
                trainings.delete(training)
            goes["trainings", "its run is gone"] = goes["trainings", "its run is gone"].plus_one(0)
    except RatchetError as error:
        return Collected(of=_TRAININGS, goes=goes, stays=stays, unchecked=str(error))
    return Collected(of=_TRAININGS, goes=goes, stays=stays)


def _sums() -> Sums:
    return defaultdict(lambda: Sum(0, 0))
