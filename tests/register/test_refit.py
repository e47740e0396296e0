"""A refit in the place of the model that was measured: its version, its record, and the next night's comparison."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import mlflow
import pandas as pd
import pytest
from mlflow.tracking import MlflowClient

from ratchet.contracts import summaries
from ratchet.contracts.champion import Champion
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.refit import Refit, maker
from ratchet.contracts.registration import Registration
from ratchet.contracts.request import Promotion, StageRequest
from ratchet.contracts.result import PublishedResult
from ratchet.contracts.stages import Stage
from ratchet.contracts.summaries import Split
from ratchet.model.saving import digest_of_model
from ratchet.production.baseline import baseline
from ratchet.production.promote import promote
from ratchet.production.recipe import recipe
from ratchet.production.rollback import rollback
from ratchet.production.standing import standing
from ratchet.runtime.context import Finished
from ratchet.store.artifacts import read_bytes
from ratchet.store.file import FileStore
from ratchet.store.ledger import Change, append, records
from ratchet.tracking import production
from ratchet.tracking.mlflow import Tracker, local_uri, track
from tasks.train.refit_service import ask_as_service
from tests.mlflow_server import prepare
from tests.runs.recorded import keep_plan
from tests.runs.test_requests import plan
from tests.shop import SPEC, Shop, line
from tests.world import LAST

DAYS = tuple(LAST - timedelta(days=back) for back in (3, 2, 1, 0))


@pytest.fixture
def shop(tmp_path: Path, mlflow_database: Path) -> Shop:
    document = {**SPEC, "train": {**SPEC["train"], "refit": True}}
    store = prepare(FileStore(tmp_path / "store"), mlflow_database)
    return Shop.make(store, tmp_path / "scratch", document=document)


def client(shop: Shop) -> MlflowClient:
    assert isinstance(shop.store, FileStore)
    return MlflowClient(local_uri(shop.store), local_uri(shop.store))


def refit(shop: Shop, measured: PublishedResult, x: float, z: float = 0.0, *, refused: str = "") -> PublishedResult:
    """A published refit of a training: a line with these weights, trained on all days of the window."""
    weights, description = line(shop.spec, x, z)
    made = digest_of_model(weights, description)
    trained = summaries.trained(measured.result)
    compared = Refit(
        of=trained.digest, loss=0.4, measured_loss=0.5, metric="ndcg@10", score=0.9, measured_score=0.8, refused=refused
    )
    split = Split(train=DAYS, valid=(), holdout=())
    document = trained.model_copy(update={"digest": made, "split": split, "refit": compared})
    request = shop.request(
        "refit", inputs={"ingest": shop.ingest, "train": measured}, parts={"made": made}, attempt=f"refit-{x}"
    )
    with shop.open(request) as ctx:
        ctx.transaction.add_bytes("weights", weights)
        ctx.transaction.add_bytes("description", description)
        ctx.transaction.add_bytes("code", read_bytes(shop.store, measured.result.outputs["code"]))
        assert ask_as_service(ctx, measured.result)[1] == ""
        return shop.commit(ctx, Finished(content=made, summary=document, metrics={"refit.train_loss": 0.4}))


def registration(shop: Shop, measured: PublishedResult, made: PublishedResult, attempt: str = "a1") -> StageRequest:
    _, evaluated = shop.evaluate(measured)
    inputs = {"ingest": shop.ingest, "train": measured, "evaluate": evaluated, "refit": made}
    return shop.request("register", inputs=inputs, attempt=attempt)  # type: ignore[arg-type] # all are stages


def register(shop: Shop, measured: PublishedResult, made: PublishedResult, attempt: str = "a1") -> Registration:
    finished, _ = shop.finish(registration(shop, measured, made, attempt))
    assert isinstance(finished.summary, Registration)
    return finished.summary


def test_the_version_and_the_record_are_the_refit_s_and_name_the_measured_model(shop: Shop) -> None:
    measured = shop.train(1.0)
    made = refit(shop, measured, 0.9)
    done = register(shop, measured, made)
    assert (done.version, done.promoted, done.refit_of) == ("1", True, measured.result.content)
    (record,) = records(shop.store, "shop")
    assert (record.model_digest, record.refit_of) == (made.result.content, measured.result.content)
    assert (record.measured, record.fingerprint) == (measured.result.content, made.result.fingerprint)
    assert record.manifests["refit"] == made.key
    assert record.manifests["train"] == measured.key
    version = client(shop).get_model_version("shop", "1")
    assert version.tags["ratchet.model_digest"] == made.result.content
    assert version.tags["ratchet.refit_of"] == measured.result.content
    assert f"a refit of the measured model {measured.result.content[:12]} on days up to {LAST}" in version.description
    run = client(shop).get_run(done.mlflow_run_id).data
    assert run.tags["ratchet.model_digest"] == measured.result.content
    assert run.tags["ratchet.refit"] == made.result.content
    assert run.metrics["refit.train_loss"] == 0.4
    assert "ratchet.refit_refused" not in run.tags


def test_the_report_of_the_night_says_that_the_refit_is_in_production(shop: Shop) -> None:
    measured = shop.train(1.0)
    _, evaluated = shop.evaluate(measured)
    made = refit(shop, measured, 0.9)
    inputs: dict[Stage, PublishedResult] = {
        "ingest": shop.ingest, "train": measured, "evaluate": evaluated, "refit": made
    }  # fmt: skip
    _, registered = shop.finish(shop.request("register", inputs=inputs, attempt="a1"))
    _, report = shop.finish(shop.request("report", inputs={**inputs, "register": registered}, attempt="a1"))
    page = shop.store.read(report.result.outputs["page.html"].key).decode()
    assert "In production: version 1" in page
    assert "not in production now" not in page


def test_what_is_served_is_the_refit(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = shop.train(1.0)
    register(shop, measured, refit(shop, measured, -1.0))
    assert isinstance(shop.store, FileStore)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", local_uri(shop.store))
    source = client(shop).get_model_version("shop", "1").source
    model = mlflow.pyfunc.load_model(source)
    frame = pd.DataFrame({"query": 1, "seen": pd.Timestamp(LAST), "country": "DE", "kind": 1, "x": [0.0, 1.0], "z": 0})
    low, high = model.predict(frame)
    assert high < low  # the measured model says the opposite


def test_a_crash_after_the_record_is_mended_by_the_next_try(shop: Shop) -> None:
    measured = shop.train(1.0)
    made = refit(shop, measured, 0.9)
    first, second = (register(shop, measured, made, attempt) for attempt in ("a1", "a2"))
    assert first == second
    assert len(records(shop.store, "shop")) == len(client(shop).search_model_versions("name = 'shop'")) == 1


def test_refits_of_one_training_do_not_share_their_files(shop: Shop) -> None:
    """As after a change of the refit's code, which does not train the measured model again."""
    measured = shop.train(1.0)
    made = [register(shop, measured, refit(shop, measured, x), f"a{x}") for x in (0.9, 0.8)]
    assert [one.version for one in made] == ["1", "2"]
    sources = {client(shop).get_model_version("shop", one.version).source for one in made}
    assert len(sources) == 2
    assert {one.mlflow_run_id for one in made} == {made[0].mlflow_run_id}


def test_a_refused_refit_is_not_registered(shop: Shop) -> None:
    measured = shop.train(1.0)
    made = refit(shop, measured, 0.9, refused="refit-diverged: the training loss is 9")
    with pytest.raises(ConfigurationError, match="register: refit-diverged: the training loss is 9"):
        register(shop, measured, made)
    assert records(shop.store, "shop") == ()


def test_mlflow_s_copy_of_a_refit_is_mended_from_the_refit(shop: Shop) -> None:
    measured = shop.train(1.0)
    made = refit(shop, measured, 0.9)
    register(shop, measured, made)
    (record,) = records(shop.store, "shop")
    assert isinstance(shop.store, FileStore)
    (copy,) = (shop.store.root / "mlflow").rglob("weights.safetensors")
    whole = copy.read_bytes()
    copy.write_bytes(whole[:-1])

    def check(tracker: Tracker) -> list[str]:
        return production.mend(tracker, shop.store, record, record.version, shop.folder)

    (said,) = track(shop.store, None, shop.folder, check)
    assert "weights.safetensors" in said
    assert copy.read_bytes() == whole == read_bytes(shop.store, made.result.outputs["weights"])


def champion(shop: Shop) -> Champion:
    found = baseline(shop.store, "shop", data_date=LAST + timedelta(days=1), candidate="", may_promote=True)
    assert found
    return found


def test_the_next_night_compares_with_the_refit_itself_on_a_day_that_it_has_not_seen(shop: Shop) -> None:
    measured = shop.train(0.3, 1.0)
    made = refit(shop, measured, 0.2, 1.0)
    register(shop, measured, made)
    document = {**shop.document, "name": "later", "register": {"model": "shop"}}  # its results are none of today's
    other = Shop.make(shop.store, shop.folder / "next", document=document, data_date=LAST + timedelta(days=1))
    judged, _ = other.evaluate(other.train(1.0), champion(shop))
    assert judged.baseline is not None
    assert judged.baseline.digest == made.result.content
    assert judged.baseline_kind == "champion"
    assert judged.verdict == "promote"


def test_on_a_day_that_it_was_trained_on_a_refit_is_no_fair_comparison(shop: Shop) -> None:
    measured = shop.train(0.3, 1.0)
    register(shop, measured, refit(shop, measured, 0.2, 1.0))
    judged, _ = shop.evaluate(shop.train(1.0), champion(shop))
    assert (judged.verdict, judged.reason) == ("inconclusive", "baseline-saw-holdout")
    assert str(LAST) in judged.explanation


def test_a_refit_that_was_rolled_back_returns_neither_as_another_refit_nor_as_the_measured_model(shop: Shop) -> None:
    first = shop.train(0.3, 1.0)
    register(shop, first, refit(shop, first, 0.3, 1.0))
    later = replace(shop, champion=champion(shop))
    measured = later.train(1.0)
    live = records(shop.store, "shop")[-1].model_copy(
        update={"number": 1, "model_digest": "e" * 64, "refit_of": measured.result.content, "version": "7"}
    )
    change = Change.model_validate(live.model_dump(exclude={"number", "previous", "after"}))
    append(shop.store, change.model_copy(update={"recipe": recipe(measured.result.parts)}), after=1)
    rollback(shop.store, "shop", version="1", by="ann", because="complaints")
    now = standing(shop.store, "shop")
    assert "rolled back by ann" in now.obstacle("e" * 64)
    assert "rolled back by ann" in now.obstacle(measured.result.content, recipe(measured.result.parts))
    done = register(later, measured, refit(later, measured, 0.95))
    assert not done.promoted
    assert "rolled back by ann" in done.withheld
    assert records(shop.store, "shop")[-1].action == "rollback"


def test_a_refit_that_was_withheld_is_promoted_by_hand_as_what_it_is(shop: Shop) -> None:
    held = replace(shop, promotion=Promotion(mode="never", reason="not now"))
    measured = held.train(1.0)
    made = refit(held, measured, 0.9)
    keep_plan(held.store, plan(spec=held.spec, run_id=held.run_id, data_date=LAST))
    assert register(held, measured, made).promoted is False
    record = promote(held.store, None, "shop", "1", by="ann", because="the fair")
    assert (record.model_digest, record.refit_of) == (made.result.content, measured.result.content)
    assert maker(record.manifests) == made.key
