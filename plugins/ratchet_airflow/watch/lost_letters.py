"""The documents with the newest alerts that reached nobody, for pages: the watch writes what they lack.

As after a kill between a letter and its document, after a release that writes none, and once old letters are deleted.
"""

from collections import defaultdict

from ratchet.contracts import outbox_paths
from ratchet.contracts.paths import last
from ratchet.outbox.lost_letters import note_lost_letters
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
        for entry in store.list(outbox_paths.undelivered(installation())):
            letters[outbox_paths.given_up_of(entry.key)[0]].add(entry.key)
        there = store.list(outbox_paths.newest_undelivered(installation()))
        documents = {last(entry.key).removesuffix(".json"): entry.etag for entry in there}
        states = {name: (documents.get(name, ""), frozenset(letters[name])) for name in {*letters, *documents}}
        others = sorted((name in self._seen, name) for name in states if self._seen.get(name) != states[name])
        for _, name in others[:_PIPELINES]:
            with Guard(f"cannot write which alerts about {name} reached nobody"):
                note_lost_letters(store, installation(), name)
                self._seen[name] = states[name]
