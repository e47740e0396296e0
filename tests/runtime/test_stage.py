"""A stage that receives a notice to stop, or whose own code asks for its end, wherever it is at that moment."""

import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ratchet.contracts.champion import Champion
from ratchet.contracts.errors import ConfigurationError, OutOfMemory, Preempted
from ratchet.contracts.request import StageRequest
from ratchet.contracts.stages import stage_module
from ratchet.runtime.code import code_parts
from ratchet.runtime.logs import StageLog
from ratchet.runtime.stage import run_stage
from ratchet.store.opening import open_store
from ratchet.store.publishing import find_result
from tests.shop import Shop

NOTICE = "import os, signal\ndef derive(df):\n    os.kill({stage}, signal.SIGTERM)\n    return df\n"
"""A model scores in a process of its own, and the notice goes to the stage, which waits for it."""
HIDES = (
    "import os, signal\ndef derive(df):\n    try:\n        os.kill({stage}, signal.SIGTERM)\n"
    "    except BaseException:\n        df['x'] = 0.0\n    return df\n"
)
EXITS = "import sys\ndef derive(df):\n    sys.exit(0)\n"
INTERRUPTS = "def derive(df):\n    raise KeyboardInterrupt\n"


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    root = list(logging.getLogger().handlers)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    logging.getLogger().handlers[:] = root


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    store = open_store((tmp_path / "store").as_uri())
    store.prepare()
    return Shop.make(store, tmp_path / "scratch", groups=30)


def evaluation(shop: Shop, candidate: str = "", champion: Champion | None = None) -> StageRequest:
    training = shop.train(1.0, code=candidate)
    inputs = {"ingest": shop.ingest, "train": training}
    return shop.against(champion).request("evaluate", inputs=inputs, parts=code_parts(stage_module("evaluate")))  # type: ignore[arg-type] # both are stages


def run(shop: Shop, request: StageRequest) -> int:
    return run_stage(request, StageLog("evaluate", shop.log))


@pytest.mark.parametrize("code", [NOTICE, HIDES])
@pytest.mark.parametrize("whose", ["candidate", "champion"])
def test_a_notice_in_the_code_of_a_pipeline_is_no_fault_of_that_code(shop: Shop, whose: str, code: str) -> None:
    code = code.format(stage=os.getpid())
    request = (
        evaluation(shop, code)
        if whose == "candidate"
        else evaluation(shop, champion=shop.crown(shop.train(0.3, code=code)))
    )
    with pytest.raises(Preempted, match=r"^evaluate received a notice to stop;"):
        run(shop, request)
    assert find_result(shop.store, request.prefix) is None


@pytest.mark.parametrize(("code", "said"), [(EXITS, "features.py:3: SystemExit: 0"), (INTERRUPTS, "py:2: Keyboard")])
def test_an_exit_in_the_code_of_a_pipeline_is_named_by_its_line(shop: Shop, code: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        run(shop, evaluation(shop, code))
    assert said in raised.value.cause


def test_a_lack_of_memory_in_the_code_of_a_pipeline_is_no_fault_of_that_code(shop: Shop) -> None:
    code = "def derive(df):\n    raise MemoryError('no more')\n"
    with pytest.raises(MemoryError, match="no more"):
        run(shop, evaluation(shop, code))
    with pytest.raises(OutOfMemory, match="while it scored the model of production: MemoryError: no more"):
        run(shop, evaluation(shop, champion=shop.crown(shop.train(0.3, code=code))))
