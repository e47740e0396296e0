"""The store and MLflow's database of one moment, while production goes on.

What `ratchet.production.reconcile` compares must fit together in a backup: each record of the ledger names a model that
the registry has, and the tag of a version names no record that the ledger lacks. Either one stops production after a
restore (`registry-behind`, `ledger-behind`), whichever of the two is saved first. So the ledger is looked at before and
after MLflow's dump, and both are taken again if it has changed meanwhile.

What may still differ is harmless. A version that no record names was never in production, and `compare` asks for none.
An alias that lags behind the ledger is moved by `follow`, before the next decision.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ratchet.contracts import paths
from ratchet.contracts.errors import Unavailable
from team.bucket_files import Listed, Read, get_whole, listed, new_tar, save

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

_TRIES = 5


@dataclass(frozen=True, kw_only=True)
class _Moment:
    """The store's objects, and the heads of its ledgers as they were then."""

    objects: list[Listed]
    heads: dict[str, Read]


def save_store(
    client: "S3Client", bucket: str, file: Path, dump: Callable[[], None], *, beside: Callable[[str], bool]
) -> None:
    """Save the store's bucket, and have MLflow's database dumped, so that ledger and registry fit together.

    dump: dumps it, over an earlier dump. beside: keys of the bucket that are not the store's: the artifacts of MLflow,
    or data. Raises Unavailable if production moves during each of a few tries.
    """
    moment = _moment(client, bucket, dump)
    with new_tar(file) as tar:
        gone = save(client, bucket, moment.objects, tar, known=moment.heads)
        if lost := [key for key in gone if _in_ledger(key)]:
            raise Unavailable(f"{lost[0]} was removed while it was saved", remedy="run `make backup` again")
        # An index or a mark that was read last may name a file that was not there when the objects were listed.
        seen = {each.key for each in moment.objects}
        late = [each for each in listed(client, bucket) if each.key not in seen]
        save(client, bucket, [each for each in late if _is_result(each.key) or beside(each.key)], tar)


def _moment(client: "S3Client", bucket: str, dump: Callable[[], None]) -> _Moment:
    for _ in range(_TRIES):
        before = _ledgers(client, bucket)
        heads = {key: get_whole(client, bucket, key) for key in before if key == paths.head_below(_folder(key))}
        objects = listed(client, bucket)
        dump()
        read = {key: head for key, head in heads.items() if head is not None}
        if _ledgers(client, bucket) == before and len(read) == len(heads):
            return _Moment(objects=objects, heads=read)
    raise Unavailable(
        f"production has moved during each of {_TRIES} dumps of MLflow's database",
        remedy="run `make backup` at a time when fewer nights end",
    )


def _ledgers(client: "S3Client", bucket: str) -> dict[str, str]:
    return {each.key: each.etag for each in listed(client, bucket, f"{paths.ledger()}/")}


def _in_ledger(key: str) -> bool:
    return _first(key) == paths.ledger()


def _is_result(key: str) -> bool:
    """Whether an object is a file that documents name, or a shadow of production, which no registry follows.

    A result of register is none: it says what is in production, and the ledger was saved before.
    """
    return _first(key) in _RESULTS and key.split("/")[2:3] != ["register"]


def _first(key: str) -> str:
    return key.partition("/")[0]


def _folder(key: str) -> str:
    return key.rpartition("/")[0]


_RESULTS = frozenset(
    map(_first, (paths.published("p"), paths.table("p"), paths.bundle("b"), paths.release(), paths.shadow()))
)
