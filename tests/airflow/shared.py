"""One Airflow that most tests of one share, with a small search-ranking pipeline, its data, and a webhook for its alerts."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.airflow.installation import EXPECTATIONS, JUST_NOW, NIGHTLY, ROOT, YESTERDAY, Installation
from tests.plugins.webhook import Webhook
from tests.real.flights import FLIGHTS

PIPELINE = "search-ranking"
ROWS = 3000
CANARY = "canary-7f3a9c51e2"
"""A secret that must be found nowhere: $SHOP_PASSWORD of its stages."""
_DAYS = 12
_SMALLER = {
    NIGHTLY: JUST_NOW,
    "item_id:  {role: categorical,": "item_id:  {role: ignore,",  # few days of it say less than their mean
    "window_days: 30": "window_days: 4",
    "model: {kind: dcn}": "model: {kind: dcn, hidden: [32]}\n  epochs: 3\n  batch_size: 100",
    EXPECTATIONS: "",
}
_ENGINE = "unix:///var/run/docker.sock"


@pytest.fixture(scope="session")
def webhook() -> Iterator[Webhook]:
    """Where alerts to `mlops` go."""
    with Webhook().listening() as listening:
        yield listening


@pytest.fixture(scope="session")
def airflow(tmp_path_factory: pytest.TempPathFactory, stage_image: str, webhook: Webhook) -> Iterator[Installation]:
    """A running Airflow that knows the pipeline, still switched off."""
    from ratchet.samples.clicks import write

    if str(ROOT / "plugins") not in sys.path:
        sys.path.append(str(ROOT / "plugins"))
    home = tmp_path_factory.mktemp("airflow")
    made = Installation(
        home,
        {
            "DOCKER_HOST": engine_of(home),
            "RATCHET_RUNNER": "docker",
            "RATCHET_STAGE_IMAGE": stage_image,
            "RATCHET_ALERTS_MLOPS": webhook.url,
            "RATCHET_DATA_FLIGHTS": str(FLIGHTS),
            "RATCHET_SOURCE_VARIABLES": "SHOP_*",
            "SHOP_PASSWORD": CANARY,
        },
    )
    for _ in write(made.services.data, days=_DAYS, rows_per_day=ROWS, end=YESTERDAY, seed=0):
        pass
    text = (ROOT / "dags" / "pipelines" / PIPELINE / "pipeline.yaml").read_text(encoding="utf-8")
    for usual, smaller in _SMALLER.items():
        assert usual in text
        text = text.replace(usual, smaller)
    folder = made.pipelines / PIPELINE
    folder.mkdir()
    (folder / "pipeline.yaml").write_text(text, encoding="utf-8")
    try:
        made.start()
        made.api.wait_for_dag(PIPELINE)
        yield made
    finally:
        made.stop()


def engine_of(home: Path, address: str | None = None) -> str:
    """Let an installation's stages run in the engine at this address, or in that of the tests; the address it knows.

    It knows a link, which can be replaced while it runs. An engine that is not behind a socket is known by its own.
    """
    engine = address or os.environ.get("DOCKER_HOST") or _ENGINE
    if not engine.startswith("unix://"):
        return engine
    link = home / "engine"
    link.unlink(missing_ok=True)
    link.symlink_to(engine.removeprefix("unix://"))
    return f"unix://{link}"
