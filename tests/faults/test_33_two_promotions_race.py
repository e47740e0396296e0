"""Two processes promote at once, again and again: one record wins each round, and the alias follows the ledger."""

import subprocess
import sys
from pathlib import Path

from ratchet.production.reconcile import reconcile
from ratchet.store.ledger import records
from ratchet.tracking.use_registry import use_registry
from tests.production.registered import MODEL, registered

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 12
WRITER = """
import sys
from pathlib import Path
from ratchet.production.reconcile import reconcile
from ratchet.store.file import FileStore
from ratchet.store.ledger import LedgerConflict
from tests.production.registered import MODEL, promote
store, name = FileStore(Path(sys.argv[1])), sys.argv[2]
print("ready", flush=True)
for line in sys.stdin:
    try:
        promote(store, name, after=int(line))
        said = "won"
    except LedgerConflict as lost:
        said = f"lost to {lost.winner.version}"
    found = reconcile(store, None, MODEL)
    print(said if found.agrees else found, flush=True)
"""


def test_of_two_promotions_at_once_one_record_wins_and_the_alias_follows_it(tmp_path: Path) -> None:
    store = registered(tmp_path / "store")
    command = [sys.executable, "-W", "ignore", "-c", WRITER, str(store.root)]
    pipe = subprocess.PIPE
    writers = [subprocess.Popen([*command, name], cwd=ROOT, stdin=pipe, stdout=pipe, text=True) for name in "ab"]
    try:
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        for number in range(ROUNDS):
            said = _round(writers, number)
            history = records(store, MODEL)
            assert len(history) == number + 1
            assert sorted(said) == sorted(["won", f"lost to {history[-1].version}"])
            alias = use_registry(store, None, tmp_path, lambda registry: registry.champion(MODEL))
            assert alias is not None
            assert alias.digest == history[-1].model_digest
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()
    assert reconcile(store, None, MODEL).agrees


def _round(writers: "list[subprocess.Popen[str]]", number: int) -> list[str]:
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(f"{number}\n")
        writer.stdin.flush()
    return [writer.stdout.readline().strip() for writer in writers if writer.stdout]
