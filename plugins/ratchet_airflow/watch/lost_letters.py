"""The documents with the newest alerts that reached nobody, for pages: the watch writes what they lack.

As after a kill between a letter and its document, after a release that writes none, and once old letters are deleted.
"""

from collections import defaultdict

from ratchet.contracts import outbox_paths
from ratchet.contracts.paths import last
from ratchet.outbox.lost_letters import renew_lost_letters
from ratchet.store.base import Store
from ratchet_airflow.run_id import installation
from ratchet_airflow.watch.guard import Guard

_PIPELINES = 8
"""At most so many are looked at in one look; the next one goes on."""
_State = tuple[str, frozenset[str]]
"""The etag of the document, and the keys of the letters."""


class LostLetterDocuments:
    """Looks at each whose letters, or which itself, are others than before. Two requests where none is."""

    def __init__(self) -> None:
        self._seen: dict[str, _State] = {}

    def look(self, store: Store) -> None:
        """Write those that are not as the letters are."""
        letters: dict[str, set[str]] = defaultdict(set)
        newest_ns: dict[str, int] = defaultdict(int)
        for entry in store.list(outbox_paths.undelivered(installation())):
            name, _ = outbox_paths.given_up_of(entry.key)
            letters[name].add(entry.key)
            newest_ns[name] = max(newest_ns[name], entry.modified_ns)
        there = store.list(outbox_paths.newest_undelivered(installation()))
        documents = {last(entry.key).removesuffix(".json"): entry for entry in there}
        names = {*letters, *documents}
        etags = {name: documents[name].etag if name in documents else "" for name in names}
        states = {name: (etags[name], frozenset(letters[name])) for name in names}
        # Those that surely lack a letter come first: a watch that is started again knows none of them.
        whole = {name for name, one in documents.items() if one.modified_ns > newest_ns[name]}
        found = (name for name in states if self._seen.get(name) != states[name])
        for name in sorted(found, key=lambda name: (name in whole, name in self._seen, name))[:_PIPELINES]:
            with Guard(f"cannot write which alerts about {name} reached nobody"):
                renew_lost_letters(store, installation(), name)
                self._seen[name] = states[name]
