"""`ratchet data`: a refused day is out of the next night, and in once a person let it in, with who and why."""

from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ratchet.store.ledger import records
from ratchet.store.opening import open_store
from tests.runs.nights import DAY, ratchet, run, sample

BEFORE = DAY - timedelta(days=1)
WHO = ("--by", "Ada", "--because", "half of the shop was closed")

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(1200)]


def test_a_refused_day_is_out_until_a_person_lets_it_in(tmp_path: Path) -> None:
    data, store = sample(tmp_path / "data"), str(tmp_path / "store")
    for path in (data / "clicks" / f"date={BEFORE}").iterdir():
        table = pq.read_table(path)
        pq.write_table(table.slice(0, table.num_rows // 2), path)
    night = ("search-ranking", str(data), store)
    days = ("--set", "validate.volume.against=similar_days")
    assert run(*night, *days, "--from", f"{BEFORE}", "--to", f"{BEFORE}").code == 65
    nobody = ratchet("data", "accept", "search-ranking", f"{DAY}", "--store", store, *WHO)
    assert (nobody.code, f"neither a run of {DAY} nor a person has refused it" in nobody.err) == (64, True)

    without = run(*night, *days)
    assert without.code == 0, without.err
    page = Path(without.json["report"]).read_text(encoding="utf-8")
    assert f"excluded: {BEFORE}" in page
    assert "refused it: volume of all rows" in page

    shown = {day["day"]: day for day in ratchet("data", "search-ranking", "--store", store, "--json").json}
    newest = [f"{DAY - timedelta(days=back)}" for back in range(4)]
    assert [shown[day]["state"] for day in newest] == ["accepted", "refused", "arrived", "arrived"]
    assert [shown[day]["models"] for day in newest] == [[], [], ["1"], ["1"]]
    assert "volume of all rows" in shown[newest[1]]["why"]

    admitted = ratchet("data", "accept", "search-ranking", f"{BEFORE}", "--store", store, *WHO)
    assert (admitted.code, "let in by Ada" in admitted.out) == (0, True)
    with_it = run(*night, *days, "--promote", "auto")
    assert with_it.code == 0, with_it.err
    page = Path(with_it.json["report"]).read_text(encoding="utf-8")
    assert f"excluded: {BEFORE}" not in page
    assert f"{BEFORE} was let in" in page
    assert "by Ada: half of the shop was closed" in page
    lines = ratchet("data", "search-ranking", "--store", store, "--from", f"{BEFORE}").out.splitlines()
    assert [line.split()[:2] for line in lines[1:3]] == [[f"{BEFORE}", "let"], [f"{DAY}", "accepted"]]
    assert "by Ada: half of the shop was closed" in lines[1]
    assert lines[3] == "2 days; 1 let in, 1 accepted"
    ledger = records(open_store(store), "search-ranking")
    assert ledger[0].let_in == ()
    assert all(one.let_in[0].by == "Ada" for one in ledger[1:])


def test_each_word_that_data_does_not_know_is_one_clear_line(tmp_path: Path) -> None:
    store = ("--store", str(tmp_path))
    for words, said in (
        (("nobody",), "no run of 'nobody'"),
        (("nobody", "2026-03-20"), "'2026-03-20' is not known here"),
        (("refuse", "nobody"), "refuse needs a pipeline and a day"),
        (("refuse", "nobody", "2026-03-20", *WHO), "no run of 'nobody'"),
        (("accept", "nobody"), "accept needs a pipeline and a day"),
        (("accept", "nobody", "yesterday"), "DAY: 'yesterday' is not a date"),
        (("accept", "nobody", "2026-03-20", "--by", "Ada", "--because", " "), "--because is missing or empty"),
    ):
        ended = ratchet("data", *words, *store)
        assert (ended.code, said in ended.err) == (64, True), ended.err
