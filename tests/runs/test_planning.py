"""What a plan refuses to write down."""

from datetime import date
from pathlib import Path

import pytest

from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.loading import load
from ratchet.runs.planning import make_plan

FOLDER = Path(__file__).resolve().parents[2] / "dags" / "pipelines" / "search-ranking"


def test_a_password_in_the_tracking_servers_address_is_refused_and_neither_shown_nor_kept(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="RATCHET_MLFLOW_CREDENTIALS") as refused:
        make_plan(
            folder=FOLDER,
            spec=load(FOLDER),
            data_date=date(2026, 3, 20),
            run_id="r",
            kind="local",
            store_uri=str(tmp_path / "store"),
            tracking_uri="https://me:hunter2@mlflow.example",
        )
    assert "hunter2" not in str(refused.value)
    assert not (tmp_path / "store").exists()
