"""Two processes ingest the same date at once: one commits, the other finds its files there."""

import multiprocessing
from pathlib import Path

from deltalake import DeltaTable

from ratchet.contracts import summaries
from tests.world import clicks


def _ingest(folder: str, number: int, start: object, results: object) -> None:
    nights = clicks(Path(folder))
    nights.number = number
    start.wait()  # type: ignore[attr-defined] - a barrier of another process
    results.put(nights.run("ingest").result.model_dump_json())  # type: ignore[attr-defined] - a queue


def test_one_wins_and_the_other_verifies(tmp_path: Path) -> None:
    nights = clicks(tmp_path)
    nights.put_window()
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(2), context.Queue()
    writers = [context.Process(target=_ingest, args=(str(tmp_path), 100 * n, start, results)) for n in (1, 2)]
    for writer in writers:
        writer.start()
    one, two = (summaries.StageResult.model_validate_json(results.get(timeout=120)) for _ in writers)
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    assert one.content == two.content
    assert summaries.snapshot(one).days == summaries.snapshot(two).days
    table = DeltaTable(nights.store.table(summaries.snapshot(one).table)[0])
    assert table.version() == 1
    assert len(table.file_uris()) == 3
