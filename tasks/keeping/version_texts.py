"""The texts of version records without a purged value: the verdict names slices, and people give reasons.

No other document has the digest of a record, and no rebuild reads these texts. The ledger repeats them as its reason;
it is a chain, so it stays as it is.

A change here violates the promise of the project when it changes what a rebuild reads, or which version a record is of.
"""

import json
from functools import partial

from ratchet.contracts import paths
from ratchet.contracts.stored import read_stored
from ratchet.contracts.summaries import Judgement
from ratchet.contracts.version_record import VersionRecord
from ratchet.store.base import Store
from ratchet.store.sealed import replace_sealed, unseal
from tasks.keeping.texts import Masking, masked


def mask_versions(store: Store, pipeline: str, mask: Masking, *, do: bool) -> int:
    """Mask the values in the records of all models of a pipeline; without `do`, only count. How many have one.

    Raises CorruptArtifact for a damaged record.
    """
    number = 0
    for entry in list(store.list(paths.version_records())):
        where = f"{store.uri}/{entry.key}"
        record = unseal(store.read(entry.key), VersionRecord, where=where, remedy="restore it from a backup")
        if record.pipeline != pipeline:
            continue
        judged = json.dumps(masked(record.judgement.model_dump(mode="json", by_alias=True), mask))
        change = {
            "judgement": read_stored(Judgement, judged.encode(), where=where),
            "let_in": tuple(one.model_copy(update={"reason": mask(one.reason)}) for one in record.let_in),
        }
        if (after := record.model_copy(update=change)) != record:
            number += 1
            if do:
                replace_sealed(store, entry.key, after, expected=entry.etag, unknown=partial(masked, mask=mask))
    return number
