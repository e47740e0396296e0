"""One of two writers of the same results: `python -m tests.faults.writer STORE ATTEMPT CONTENT ROUNDS`.

Waits for a line on standard input, then publishes round after round; prints published, reused or refused for each.
"""

import sys

from ratchet.contracts import paths
from ratchet.contracts.errors import PublishConflict
from ratchet.contracts.fingerprint import digest
from ratchet.store.opening import open_store
from ratchet.store.publishing import Transaction


def main() -> None:
    uri, attempt, content, rounds = sys.argv[1:]
    store = open_store(uri)
    _say("ready")
    sys.stdin.readline()
    for number in range(int(rounds)):
        fingerprint = digest(str(number).encode())
        transaction = Transaction(store, paths.published("example", "ingest", fingerprint), attempt)
        transaction.add_bytes("rows", content.encode())
        try:
            done = transaction.commit(
                stage="ingest", fingerprint=fingerprint, parts={}, content=digest(content.encode())
            )
        except PublishConflict:
            _say("refused")
        else:
            _say("reused" if done.reused else "published")


def _say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
