"""A model in a process of its own: what reaches it, what comes back, and how its end is told apart."""

import os
import signal
from pathlib import Path

import pandas as pd
import pytest

from ratchet.contracts.errors import ConfigurationError, DataRejected, OutOfMemory, Unavailable
from ratchet.model.files import lay_out
from ratchet.model.package import pack, unpack
from ratchet.model.process import ModelProcess, read_written, write_rows
from ratchet.model.zygote import environment
from ratchet.store.memory import MemoryStore
from tests.shop import Shop, rows

FRAME = rows(3, 0).to_pandas().drop(columns="clicked")


def process(folder: Path, code: str = "", limit_s: float = 60) -> ModelProcess:
    shop = Shop.make(MemoryStore(str(folder)), folder / "shop")
    model = lay_out(shop.store, shop.train(1.0, code=code).result, folder / "model", folder)
    return ModelProcess(unpack(pack(), folder / "package"), model, folder, limit_s=limit_s)


def derive(line: str) -> str:
    return f"import os, signal, sys, time\n\ndef derive(df):\n    {line}\n    return df\n"


def test_rows_come_over_with_the_types_that_they_have(tmp_path: Path) -> None:
    whole = pd.array([1, None], dtype="Int64")
    frame = FRAME.head(2).assign(
        whole=whole, flag=pd.array([True, None], dtype="boolean"), day=pd.Timestamp("2026-11-20")
    )
    write_rows(frame, tmp_path / "rows")
    pd.testing.assert_frame_equal(read_written(tmp_path / "rows"), frame.reset_index(drop=True))


@pytest.mark.parametrize(
    ("line", "kind", "said"),
    [
        ("os._exit(3)", ConfigurationError, "exit code 3"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", ConfigurationError, "signal 11"),
        ("os.kill(os.getpid(), signal.SIGKILL)", OutOfMemory, "killed"),
        (
            "signal.signal(signal.SIGTERM, signal.SIG_DFL); os.kill(os.getpid(), signal.SIGTERM)",
            Unavailable,
            "signal 15",
        ),
        ("raise MemoryError('all of it')", MemoryError, "all of it"),
        ("sys.exit('over')", ConfigurationError, "over"),
        ("raise KeyboardInterrupt", ConfigurationError, "KeyboardInterrupt"),
        ("while True: pass", ConfigurationError, "no answer in 3 s"),
    ],
)
def test_the_end_of_a_process_and_the_errors_of_its_code_are_told_apart(
    tmp_path: Path, line: str, kind: type[BaseException], said: str
) -> None:
    limit = {"limit_s": 3} if line.startswith("while") else {}
    with process(tmp_path, derive(line), **limit) as model, pytest.raises(kind, match=said):
        model.score(FRAME)


def test_credentials_settings_of_ours_and_our_own_code_do_not_reach_it() -> None:
    given = {
        "AWS_SECRET_ACCESS_KEY": "s",
        "RATCHET_STORE": "x",
        "PATH": "/bin",
        "PYTHONPATH": f"{Path.cwd()}{os.pathsep}/lib",
    }
    found = environment(given)
    assert set(found) == {"PATH", "PYTHONPATH", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"}
    assert "/lib" in found["PYTHONPATH"].split(os.pathsep)


def test_settings_of_arithmetic_reach_it() -> None:
    given = {"MKL_CBWR": "COMPATIBLE", "ATEN_CPU_CAPABILITY": "default"}
    assert environment(given).items() >= given.items()


def test_a_process_that_was_closed_is_gone(tmp_path: Path) -> None:
    model = process(tmp_path)
    assert model.score(FRAME).shape == (len(FRAME),)
    number = model._number
    assert number is not None
    model.close()
    model.close()
    with pytest.raises(ProcessLookupError):
        os.kill(number, signal.SIG_DFL)


def test_an_error_of_the_models_own_tree_is_that_error_here(tmp_path: Path) -> None:
    with process(tmp_path) as model, pytest.raises(DataRejected, match="column x") as found:
        model.score(FRAME.assign(x="text"))
    assert "pipeline.yaml" in found.value.remedy
