"""The rights of each user of S3, written for the stack's own server and as IAM policies for another one.

Both are made of the same rights, so a set-up with an S3 elsewhere can be as closed as the stack's own.

A change here violates the promise of the project when a stage can write what another one has published.
"""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ratchet.contracts.stages import STAGES, Stage
from ratchet.contracts.writing_rights import writable_by
from team.settings import Settings

IDENTITIES = ("admin", "orchestrator", "reader", "mlflow", *(f"ratchet-{stage}" for stage in STAGES))
"""The users of S3: `admin` makes the buckets, the others have the rights below."""
_ARN = "arn:aws:s3:::"
_READS = ["s3:GetObject"]
_WRITES = ["s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"]
_LISTS = ["s3:ListBucket", "s3:GetBucketLocation"]
_LISTS_UPLOADS = "s3:ListBucketMultipartUploads"
"""For who writes a whole bucket: garbage collection aborts uploads that nobody has finished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What a user may do. reads: buckets. writes: buckets, or BUCKET/PATTERN; `*` is any text, with slashes too."""

    reads: tuple[str, ...]
    writes: tuple[str, ...] = ()


def rights(settings: Settings) -> dict[str, Rights]:
    """The rights of each user but the first, who may do all."""
    store, artifacts = (urlsplit(each).netloc for each in (settings.store, settings.artifacts))
    logs_place = settings.logs_place
    with_sources = tuple(dict.fromkeys((store, *settings.source_buckets)))
    logs = (urlsplit(logs_place).netloc,) if logs_place else ()

    def of(stage: Stage) -> Rights:
        writes = tuple(f"{store}/{pattern}" for pattern in writable_by(stage))
        return Rights(reads=with_sources if stage == "ingest" else (store,), writes=writes)

    return {
        "orchestrator": Rights(
            reads=tuple(dict.fromkeys((*with_sources, *logs))),
            writes=(store, *([_writes_below(logs_place)] if logs_place else [])),
        ),
        "reader": Rights(reads=tuple(dict.fromkeys((store, *logs)))),
        "mlflow": Rights(reads=(artifacts,), writes=(_writes_below(settings.artifacts),)),
        **{f"ratchet-{stage}": of(stage) for stage in STAGES},
    }


def _writes_below(place: str) -> str:
    """The bucket of a place, or the pattern of its prefix: other things may lie in the bucket, the store too."""
    parts = urlsplit(place)
    prefix = parts.path.strip("/")
    return f"{parts.netloc}/{prefix}/*" if prefix else parts.netloc


def seaweed_actions(settings: Settings) -> dict[str, list[str]]:
    """The rights in SeaweedFS's terms."""
    return {
        "admin": ["Admin", "Read", "Write", "List", "Tagging"],
        **{
            name: [
                *(f"{right}:{bucket}" for bucket in may.reads for right in ("Read", "List")),
                *(f"Write:{place}" for place in may.writes),
            ]
            for name, may in rights(settings).items()
        },
    }


def iam_policies(settings: Settings) -> dict[str, dict[str, Any]]:
    """The rights as IAM policies, and what the copies of backups need, if they go to a bucket."""
    made = {name: _policy(may) for name, may in rights(settings).items()}
    places = (settings.store, settings.data, settings.artifacts, settings.logs_place)
    buckets = dict.fromkeys(urlsplit(place).netloc for place in places if place)
    of_init = [*_LISTS, "s3:CreateBucket"]
    made["admin"] = _document([_allow("Buckets", of_init, list(buckets))])
    if (settings.backups_to or "").startswith("s3://"):
        made["backups"] = _of_copies(urlsplit(str(settings.backups_to)))
    return made


def _policy(may: Rights) -> dict[str, Any]:
    whole = [place for place in may.writes if "/" not in place]
    statements = [
        _allow("List", _LISTS, list(may.reads)),
        *([_allow("Uploads", [_LISTS_UPLOADS], whole)] if whole else []),
        _allow("Read", _READS, [f"{bucket}/*" for bucket in may.reads]),
    ]
    if may.writes:
        statements.append(_allow("Write", _WRITES, [place if "/" in place else f"{place}/*" for place in may.writes]))
    return _document(statements)


def _of_copies(parts: Any) -> dict[str, Any]:
    prefix = "/".join(each for each in (parts.netloc, parts.path.strip("/")) if each)
    return _document([_allow("List", _LISTS, [parts.netloc]), _allow("Copies", [*_READS, *_WRITES], [f"{prefix}/*"])])


def _allow(name: str, actions: list[str], places: list[str]) -> dict[str, Any]:
    resources = [f"{_ARN}{place}" for place in places]
    return {"Sid": name, "Effect": "Allow", "Action": actions, "Resource": resources}


def _document(statements: list[dict[str, Any]]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": statements}
