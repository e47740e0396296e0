"""`ratchet run` with own code that crashes: the message leads to what it printed, and no secret is in any file."""

import shutil
from pathlib import Path

import pytest

from tests.runs.nights import DAY, ROOT, ratchet, run, sample

pytestmark = [pytest.mark.heavy, pytest.mark.xdist_group("runs")]
CANARY = "canary-51c7e"
CRASH = """
import os, sys
import pandas as pd

def derive(df: pd.DataFrame) -> pd.DataFrame:
    print("about to crash with", os.environ["SHOP_PASSWORD"], flush=True)
    print("on stderr with", dict(os.environ), file=sys.stderr, flush=True)
    os._exit(3)
"""


def test_the_log_of_the_crash_is_named_linked_and_without_secrets(tmp_path: Path) -> None:
    folder, store = tmp_path / "payments-fraud", tmp_path / "store"
    shutil.copytree(ROOT / "dags" / "pipelines" / "payments-fraud", folder)
    (folder / "features.py").write_text(CRASH, encoding="utf-8")
    data = str(sample(tmp_path / "data", rows_per_day=200))
    failed = run(str(folder), data, str(store), environment={"SHOP_PASSWORD": CANARY})
    assert failed.code == 70, failed.err
    (log,) = store.glob("runs/payments-fraud/*/features.1.log")
    assert failed.json["error"]["remedy"] == f"read the traceback in the log {log}"
    assert f"{log}" in failed.err
    text = log.read_text(encoding="utf-8")
    assert "about to crash with ***\n" in text
    assert "on stderr with {" in text
    assert f'/{log.parent.name}/features.1.log">log</a>' in Path(failed.json["report"]).read_text(encoding="utf-8")
    shown = ratchet("why", f"payments-fraud/{log.parent.name}", "--store", str(store))
    assert f"log {log}" in shown.out
    assert CANARY not in failed.out + failed.err + shown.out
    leaks = [file for file in store.rglob("*") if file.is_file() and CANARY.encode() in file.read_bytes()]
    assert leaks == []
    assert DAY.isoformat() in log.parent.name
