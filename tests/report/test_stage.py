import io
import posixpath
import re
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from ratchet.contracts import paths
from ratchet.contracts.request import Outcome
from ratchet.contracts.result import PublishedResult
from ratchet.contracts.stages import Stage
from ratchet.store.file import FileStore
from ratchet.store.ledger import Change, append
from ratchet.tracking.mlflow import local_uri
from tests.mlflow_server import prepare
from tests.register.night import night
from tests.shop import Shop


@pytest.fixture
def shop(tmp_path: Path, mlflow_database: Path) -> Shop:
    return Shop.make(prepare(FileStore(tmp_path / "store"), mlflow_database), tmp_path / "scratch")


def report(shop: Shop, inputs: dict[Stage, PublishedResult]) -> tuple[str, str]:
    """(page, log) of a report on these results."""
    shop = replace(shop, log=io.StringIO())
    _, published = shop.finish(shop.request("report", inputs=inputs, attempt="a1"))
    page = shop.store.read(published.result.outputs["page.html"].key).decode()
    assert shop.store.read("runs/shop/run-1/report-report.html").decode() == page
    return page, shop.log.getvalue()


def test_a_rejected_candidate_has_a_page_and_an_mlflow_run(shop: Shop) -> None:
    training = shop.train(0.3, 1.0)
    _, evaluated = shop.evaluate(training, shop.crown(shop.train(1.0)))
    for _ in range(2):  # again, and there is still one run
        page, _ = report(shop, {"ingest": shop.ingest, "train": training, "evaluate": evaluated})
    assert "Rejected" in page
    assert isinstance(shop.store, FileStore)
    client = MlflowClient(local_uri(shop.store), local_uri(shop.store))
    (run,) = client.search_runs(["1"])
    assert run.data.tags["ratchet.verdict"] == "reject"
    assert run.data.metrics["baseline.ndcg_at_10"] > run.data.metrics["candidate.ndcg_at_10"]
    assert client.search_model_versions("name = 'shop'") == []


def test_without_mlflow_a_warning_is_logged_and_the_page_published(shop: Shop) -> None:
    training = shop.train(0.3, 1.0)
    _, evaluated = shop.evaluate(training, shop.crown(shop.train(1.0)))
    down = replace(shop, tracking_uri="http://127.0.0.1:9")
    page, log = report(down, {"ingest": shop.ingest, "train": training, "evaluate": evaluated})
    assert "Rejected" in page
    assert "this candidate is not in MLflow: MLflow at http://127.0.0.1:9 does not answer" in log


def test_a_damaged_result_is_left_out_and_logged(shop: Shop) -> None:
    training = shop.train(1.0)
    _, evaluated = shop.evaluate(training)
    data, entry = bytearray(shop.store.read(training.key)), shop.store.head(training.key)
    data[len(data) // 2] ^= 1
    assert entry
    assert shop.store.replace(training.key, bytes(data), expected=entry.etag)
    page, log = report(shop, {"ingest": shop.ingest, "train": training, "evaluate": evaluated})
    assert "the page leaves out train" in log
    assert "Is it better?" in page


def test_a_run_that_has_only_begun_has_a_page(shop: Shop) -> None:
    page, _ = report(shop, {"ingest": shop.ingest})
    assert "Not judged" in page
    assert "3,000 rows in 1 day." in page


REFUSED = "2026-03-21: 2 of 20 checks failed\n- 2026-03-21 column price: min: least -1; allowed: at least 0 (columns.price.min)\n- 2026-03-21 all rows: volume: 3 rows; allowed: 10"


def refused(shop: Shop) -> tuple[str, str]:
    """(published page, kept page) of a run whose data validate refused."""
    for stage, because in (("ingest", ""), ("validate", REFUSED)):
        state = "failed" if because else "done"
        outcome = Outcome.model_validate({"stage": stage, "state": state, "because": because})
        shop.store.create(f"runs/shop/run-1/{stage}.json", outcome.model_dump_json(by_alias=True).encode())
    shop.store.create("runs/shop/run-1/validate-validation.html", b"<p>every check</p>")
    _, published = shop.finish(shop.request("report", inputs={"ingest": shop.ingest}, attempt="a1"))
    key = published.result.outputs["page.html"].key
    kept = "runs/shop/run-1/report-report.html"
    for place in (key, kept):
        link = re.search(r'<a href="([^"]+)">All checks of the data</a>', shop.store.read(place).decode())
        assert link
        target = shop.store.local(place).parent / link[1]  # type: ignore[union-attr]  # a FileStore has a folder
        assert target.resolve().read_bytes() == b"<p>every check</p>"
    return shop.store.read(key).decode(), shop.store.read(kept).decode()


def test_a_refused_run_names_its_checks_links_to_all_and_says_what_stays_in_production(shop: Shop) -> None:
    crowned = Change(
        model="shop", action="promote", version="7", fingerprint="f" * 64, model_digest="d" * 64, manifests={},
        data_date=date(2026, 3, 20), window_start=date(2026, 3, 1), pipeline="shop", run_id="r", reason="better",
        baseline=None, recorded=datetime(2026, 3, 21, tzinfo=UTC),
    )  # fmt: skip
    append(shop.store, crowned, after=0)
    for page in refused(shop):
        assert "<h1>Refused: 2 of 20 checks failed</h1>" in page
        assert '<span class="verdict bad">refused: column price: min, and 1 more</span>' in page
        assert "Production stays at version 7." in page
        assert "- 2026-03-21 all rows: volume: 3 rows; allowed: 10" in page


def test_a_refused_run_before_the_first_model_says_that_there_is_none(shop: Shop) -> None:
    assert all("No model is in production." in page for page in refused(shop))


def test_a_damaged_ledger_is_logged_and_the_page_published(shop: Shop) -> None:
    shop.store.create("ledger/shop/00000001.json", b"damaged")
    page, log = report(shop, {"ingest": shop.ingest})
    assert "Production stays" not in page
    assert "the page leaves out the model in production" in log


def rejected(shop: Shop, x: float = 0.3) -> dict[Stage, PublishedResult]:
    """A night whose candidate was rejected, after one whose model is in production."""
    training = shop.train(x, 1.0)
    champion = shop.crown(shop.train(1.0))
    return {"ingest": shop.ingest, "train": training, "evaluate": shop.evaluate(training, champion)[1]}


def test_a_lost_last_record_of_the_ledger_is_seen_by_the_alias(shop: Shop) -> None:
    night(shop, shop.train(0.3, 1.0))
    night(shop, shop.train(1.0))
    assert "production" not in report(shop, rejected(shop))[1]
    assert shop.store.delete(paths.record_below(paths.ledger("shop"), 2))
    _, log = report(shop, rejected(shop, 0.31))
    assert "ledger-damaged: " in log
    assert f"{paths.record_below(paths.ledger('shop'), 2)} is missing: the ledger ends with record 2" in log


@pytest.mark.parametrize("damage", ["flipped", "gone"])
def test_a_damaged_copy_of_the_champion_in_mlflow_is_reported_and_mended(shop: Shop, damage: str) -> None:
    night(shop, shop.train(1.0))
    (key,) = (entry.key for entry in shop.store.list("mlflow/artifacts") if entry.key.endswith("weights.safetensors"))
    path = shop.store.local(key)
    assert path is not None
    whole = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert "MLflow's copy of shop version 1 was damaged" in report(shop, rejected(shop))[1]
    assert path.read_bytes() == whole
    assert "production" not in report(shop, rejected(shop))[1]


def test_the_page_links_to_the_logs_of_the_stages_from_both_of_its_places(shop: Shop) -> None:
    key = paths.log("shop", "run-1", "train", 2)
    shop.store.create(key, b"Traceback")
    for stage, log in (("ingest", None), ("train", key)):
        outcome = Outcome(stage=stage, state="failed" if log else "done", because="a bug" if log else "", log=log)  # type: ignore[arg-type]
        shop.store.create(paths.outcome("shop", "run-1", stage), outcome.model_dump_json(by_alias=True).encode())
    _, published = shop.finish(shop.request("report", inputs={"ingest": shop.ingest}, attempt="a1"))
    for place in (published.result.outputs["page.html"].key, "runs/shop/run-1/report-report.html"):
        (link,) = re.findall(r'<a href="([^"]+)">log</a>', shop.store.read(place).decode())
        assert posixpath.normpath(posixpath.join(posixpath.dirname(place), link)) == key
