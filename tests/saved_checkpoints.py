"""The checkpoints that a store holds."""

import re

from ratchet.store.base import Store

_DOCUMENT = re.compile(r"/step-\d+\.json$")


def saved_checkpoints(store: Store, prefix: str) -> set[str]:
    """Return the keys of their documents. A document is written last: tensors without one are no checkpoint yet."""
    return {entry.key for entry in store.list(prefix) if _DOCUMENT.search(entry.key)}
