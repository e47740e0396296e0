"""One of two writers of the same results: `python -m tests.faults.writer STORE ATTEMPT CONTENT ROUNDS`.

Waits for a line on standard input, then publishes round after round; prints published, reused or refused for each.
"""

import sys

from tasks.contracts import paths
from tasks.contracts.errors import PublishConflict
from tasks.contracts.fingerprint import digest
from tasks.runtime.publishing import Transaction
from tasks.runtime.store.opening import open_store


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
