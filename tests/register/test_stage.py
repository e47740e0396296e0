import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from mlflow.tracking import MlflowClient

from ratchet.contracts import paths, summaries
from ratchet.contracts.errors import ConfigurationError, CorruptArtifact, Unavailable
from ratchet.contracts.registration import Registration
from ratchet.contracts.request import Promotion
from ratchet.contracts.result import PublishedResult
from ratchet.model import holdout
from ratchet.production.accept_loss import accept_loss
from ratchet.production.release import release
from ratchet.store.file import FileStore
from ratchet.store.ledger import records
from ratchet.store.opening import open_store
from ratchet.tracking import versions
from ratchet.tracking.mlflow import local_uri
from tasks.evaluate import stage as evaluate
from tasks.register import stage
from tests.mlflow_server import prepare
from tests.model.other_scoring import other_scoring
from tests.register.night import night, register
from tests.shop import Shop
from tests.world import PINS

DERIVE = "def derive(df):\n    return df.assign(x=df.x.fillna(0.5), hour=df.seen.dt.hour)\n"


@pytest.fixture
def shop(tmp_path: Path, mlflow_database: Path) -> Shop:
    return Shop.make(prepare(FileStore(tmp_path / "store"), mlflow_database), tmp_path / "scratch")


def client(shop: Shop) -> MlflowClient:
    assert isinstance(shop.store, FileStore)
    return MlflowClient(local_uri(shop.store), local_uri(shop.store))


def test_the_first_model_becomes_version_one_and_champion(shop: Shop) -> None:
    training = shop.train(1.0)
    done = night(shop, training)
    assert (done.version, done.promoted, done.withheld, done.ledger_number) == ("1", True, "", 1)
    found = client(shop).get_model_version_by_alias("shop", "champion")
    assert str(found.version) == "1"
    assert {name: found.tags[f"ratchet.{name}"] for name in ("snapshot", "commit", "image", "seed")} == {
        "snapshot": "tables/shop/1@3",
        "commit": "c0ffee",
        "image": PINS.image,
        "seed": str(shop.spec.train.seed),
    }
    pinned = json.loads(found.tags["ratchet.libraries"])
    assert pinned == PINS.libraries
    assert {"numpy", "torch"} <= set(pinned)
    (record,) = records(shop.store, "shop")
    assert record.model_digest == training.result.content
    assert set(record.manifests) == {"ingest", "train", "evaluate"}


def test_the_run_tells_parameters_metrics_by_epoch_and_where_it_all_came_from(shop: Shop) -> None:
    done = night(shop, shop.train(1.0))
    run = client(shop).get_run(done.mlflow_run_id)
    assert run.data.params["train.epochs"] == "2"
    assert run.data.metrics["candidate.ndcg_at_10"] > 0.7
    history = client(shop).get_metric_history(done.mlflow_run_id, "valid.loss")
    assert [(point.step, round(point.value, 2)) for point in history] == [(100, 0.63), (200, 0.54)]
    assert run.data.metrics["training_throughput_samples_per_sec"] == 12_345.0
    assert run.data.tags["ratchet.snapshot_version"] == "3"
    assert run.data.tags["ratchet.verdict"] == "promote"
    assert run.info.status == "FINISHED"


def test_registering_twice_gives_one_version_one_run_and_one_record(shop: Shop) -> None:
    training = shop.train(1.0)
    _, evaluated = shop.evaluate(training)
    first, second = (register(shop, training, evaluated, attempt) for attempt in ("a1", "a2"))
    assert first == second
    assert len(client(shop).search_model_versions("name = 'shop'")) == 1
    assert len(client(shop).search_runs(["1"])) == 1
    assert len(client(shop).get_metric_history(first.mlflow_run_id, "valid.loss")) == 2
    assert len(records(shop.store, "shop")) == 1


def test_a_training_that_is_evaluated_by_other_code_is_another_version_and_the_first_stays(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = replace(shop, promotion=Promotion(mode="never", reason="not now"))
    training = held.train(1.0)
    _, evaluated = held.evaluate(training)
    other = other_scoring(held.folder / "other")
    monkeypatch.setattr(evaluate, "pack", lambda: other)
    _, again = held.finish(held.evaluation(training).model_copy(update={"fingerprint": "0" * 64}))
    done = [register(held, training, one, f"a{try_}").version for try_, one in enumerate((evaluated, again, evaluated))]
    assert done == ["1", "2", "1"]
    files = [entry.key for entry in held.store.list("mlflow/artifacts") if entry.key.endswith("/model/scoring.py")]
    packages = {key.split("/")[-3] for key in files}
    assert len(files) == len(packages) == 2
    assert len({key.partition("/artifacts/ratchet_scoring_")[0] for key in files}) == 2


def test_a_model_that_is_trained_again_to_the_bit_is_the_version_that_it_was(shop: Shop) -> None:
    night(shop, shop.train(1.0))
    held = replace(shop, promotion=Promotion(mode="never", reason="not now"))
    again = held.train(1.0, trained_on=(4, 3, 2))  # another training
    _, evaluated = held.evaluate(again)
    done = register(held, again, evaluated, "again")
    assert (done.version, done.promoted, done.withheld) == ("1", True, "")
    assert len(client(shop).search_model_versions("name = 'shop'")) == 1
    assert len(records(shop.store, "shop")) == 1


def test_the_model_in_production_with_other_code_is_another_version_that_is_not_in_production(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = shop.train(1.0)
    night(shop, training)
    other = other_scoring(shop.folder / "other")
    monkeypatch.setattr(evaluate, "pack", lambda: other)
    _, evaluated = shop.finish(shop.evaluation(training).model_copy(update={"fingerprint": "0" * 64}))
    done = register(shop, training, evaluated, "again")
    assert (done.version, done.promoted) == ("2", False)
    assert done.withheld.startswith("production has the same model as version 1, with the code by which")
    assert str(client(shop).get_model_version_by_alias("shop", "champion").version) == "1"


def test_a_better_model_takes_over_and_the_alias_with_it(shop: Shop) -> None:
    night(shop, shop.train(0.3, 1.0))
    done = night(shop, shop.train(1.0))
    assert (done.version, done.promoted, done.ledger_number) == ("2", True, 2)
    assert records(shop.store, "shop")[1].baseline == 1
    assert str(client(shop).get_model_version_by_alias("shop", "champion").version) == "2"


@pytest.mark.parametrize("step", ["upload", "create_model_version", "settle", "_follow"])
def test_a_crash_at_any_step_is_mended_by_the_next_try(shop: Shop, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    training = shop.train(1.0)
    _, evaluated = shop.evaluate(training)
    crash = ConnectionAbortedError("the lights went out")

    def fail(*_: object, **__: object) -> None:
        raise crash

    with monkeypatch.context() as broken:
        match step:
            case "create_model_version":
                broken.setattr(MlflowClient, "create_model_version", fail)
            case "upload":
                broken.setattr(MlflowClient, "log_artifacts", fail)
            case _:
                broken.setattr(stage, step, fail)
        with pytest.raises(ConnectionAbortedError):
            register(shop, training, evaluated)
    done = register(shop, training, evaluated, "a2")
    assert (done.version, done.promoted) == ("1", True)
    assert len(client(shop).search_model_versions("name = 'shop'")) == 1
    assert len(client(shop).search_runs(["1"])) == 1
    assert len(records(shop.store, "shop")) == 1
    assert str(client(shop).get_model_version_by_alias("shop", "champion").version) == "1"


def test_an_alias_that_was_bent_is_set_by_the_ledger(shop: Shop) -> None:
    night(shop, shop.train(0.3, 1.0))
    training = shop.train(1.0)
    night(shop, training)
    client(shop).set_registered_model_alias("shop", "champion", "1")
    _, evaluated = shop.evaluate(training)
    register(shop, training, evaluated, "again")
    assert str(client(shop).get_model_version_by_alias("shop", "champion").version) == "2"


@pytest.mark.parametrize("remedy", ["restored", "accepted"])
def test_a_lost_last_record_of_the_ledger_stops_the_next_promotion_and_its_remedies_work(
    shop: Shop, remedy: str
) -> None:
    night(shop, shop.train(0.3, 1.0))
    night(shop, shop.train(0.6, 0.5))
    lost = paths.record_below(paths.ledger("shop"), 2)
    content = shop.store.read(lost)
    assert shop.store.delete(lost)
    training = shop.train(1.0)
    _, evaluated = shop.evaluate(training)
    with pytest.raises(
        CorruptArtifact, match=rf"ledger-damaged: .*{lost} is missing: the ledger ends with record 2; to do: "
    ):
        register(shop, training, evaluated)
    assert str(client(shop).get_model_version_by_alias("shop", "champion").version) == "2"
    if remedy == "restored":
        assert shop.store.create(lost, content)
    else:
        accept_loss(shop.store, None, "shop", by="ann", because="no backup has it")
        assert str(client(shop).get_model_version_by_alias("shop", "champion").version) == "1"
        assert "are held by ann" in night(shop, training).withheld
        release(shop.store, "shop", by="ann", because="version 1 is good")
    assert night(shop, training).promoted
    assert [record.version for record in records(shop.store, "shop")][-1] == "3"


def test_where_production_has_moved_meanwhile_the_version_is_kept_and_production_stays(shop: Shop) -> None:
    ours, theirs = shop.train(1.0), shop.train(1.0, 0.1)
    _, evaluated = shop.evaluate(ours)
    night(replace(shop, run_id="run-2"), theirs)
    done = register(shop, ours, evaluated)
    assert (done.version, done.promoted, done.ledger_number) == ("2", False, None)
    assert "production has moved since the evaluation, to version 1 of run run-2" in done.withheld
    assert len(records(shop.store, "shop")) == 1
    assert str(client(shop).get_model_version_by_alias("shop", "champion").version) == "1"


def test_of_two_promotions_at_once_one_wins_and_the_other_gets_an_error(shop: Shop) -> None:
    candidates = [(shop.train(1.0, tilt), f"run-{index}") for index, tilt in enumerate((0.0, 0.1))]
    judged = [(training, shop.evaluate(training)[1], run) for training, run in candidates]
    done: list[Registration] = []
    threads = [
        threading.Thread(target=lambda one=one: done.append(register(replace(shop, run_id=one[2]), *one[:2], one[2])))
        for one in judged
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one.promoted for one in done) == [False, True]
    (record,) = records(shop.store, "shop")
    assert str(client(shop).get_model_version_by_alias("shop", "champion").version) == record.version


def test_a_run_that_may_not_promote_registers_and_says_why_production_stays(shop: Shop) -> None:
    held = replace(shop, promotion=Promotion(mode="never", reason="a backfill does not move production"))
    done = night(held, shop.train(1.0))
    assert (done.version, done.promoted, done.withheld) == ("1", False, "a backfill does not move production")
    assert records(shop.store, "shop") == ()


def test_a_later_run_that_may_promote_takes_the_version_that_is_registered(shop: Shop) -> None:
    held = replace(shop, promotion=Promotion(mode="never", reason="not now"))
    training = held.train(1.0)
    assert [night(held, training).promoted, night(held, training).version] == [False, "1"]
    done = night(shop, training)
    assert (done.version, done.promoted) == ("1", True)
    assert len(client(shop).search_model_versions("name = 'shop'")) == 1


def test_what_was_not_judged_better_is_refused(shop: Shop) -> None:
    training = shop.train(-1.0)
    _, evaluated = shop.evaluate(training)
    with pytest.raises(ConfigurationError, match="nothing to register"):
        register(shop, training, evaluated)


def test_a_server_that_is_down_is_an_outage_and_nothing_is_promoted(shop: Shop) -> None:
    down = replace(shop, tracking_uri="http://127.0.0.1:9")
    training = shop.train(1.0)
    _, evaluated = shop.evaluate(training)
    with pytest.raises(Unavailable, match=r"http://127\.0\.0\.1:9 does not answer"):
        register(down, training, evaluated)
    assert records(shop.store, "shop") == ()


def test_a_version_that_two_made_at_the_same_moment_is_one_in_the_end(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = shop.train(1.0)
    _, evaluated = shop.evaluate(training)
    register(shop, training, evaluated)
    found, blind = (
        versions._versions,
        [True],
    )  # the first look sees nothing, as if both had looked before either made it
    monkeypatch.setattr(versions, "_versions", lambda *args: [] if blind and blind.pop() else found(*args))
    assert register(shop, training, evaluated, "a2").version == "1"
    assert len(client(shop).search_model_versions("name = 'shop'")) == 1


FRESH = """
import sys, warnings
import mlflow.pyfunc, numpy, pandas, torch
for kind in (UserWarning, FutureWarning):
    warnings.simplefilter("error", kind)
frame = pandas.read_pickle(sys.argv[2])
mlflow.set_tracking_uri(sys.argv[1])
scores = mlflow.pyfunc.load_model("models:/shop@champion").predict(frame)
assert not {"ratchet", "tasks", "features"} & set(sys.modules)
numpy.save(sys.argv[3], scores)
"""


def scores_of_a_fresh_process(
    shop: Shop, uri: str, tmp_path: Path, evaluated: PublishedResult
) -> tuple[object, object]:
    """Scores of the registered model, served where this checkout is not, and those of evaluation."""
    held = holdout.read(shop.store, shop.spec, summaries.snapshot(shop.ingest.result), (shop.data_date,), shop.folder)
    held.frame.to_pickle(tmp_path / "rows.pkl")
    away = tmp_path / "away"
    away.mkdir()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FRESH, uri, tmp_path / "rows.pkl", tmp_path / "scores.npy"],
        check=False,
        stderr=subprocess.PIPE,
        text=True,
        cwd=away,
        env={**os.environ, "PYTHONPATH": "", "MLFLOW_DISABLE_TELEMETRY": "true"},
    )
    # MLflow prints what it says of type hints on predict whatever the filters are.
    assert (done.returncode, "UserWarning" in done.stderr) == (0, False), done.stderr
    shop.store.download(evaluated.result.outputs["scores"].key, tmp_path / "scores.parquet")
    judged = pq.read_table(tmp_path / "scores.parquet")["candidate"].to_numpy()
    return np.load(tmp_path / "scores.npy"), judged


def test_the_registered_model_scores_raw_rows_as_evaluation_did_bit_for_bit(shop: Shop, tmp_path: Path) -> None:
    training = shop.train(1.0, 0.3, code=DERIVE)
    _, evaluated = shop.evaluate(training)
    register(shop, training, evaluated)
    assert isinstance(shop.store, FileStore)
    served, judged = scores_of_a_fresh_process(shop, local_uri(shop.store), tmp_path, evaluated)
    np.testing.assert_array_equal(served, judged)


def test_through_a_server_it_is_the_same(mlflow_server: str, tmp_path: Path) -> None:
    store = open_store(f"mem://{tmp_path}")
    shop = replace(Shop.make(store, tmp_path / "scratch"), tracking_uri=mlflow_server)
    training = shop.train(1.0, 0.3, code=DERIVE)
    _, evaluated = shop.evaluate(training)
    assert register(shop, training, evaluated).promoted
    served, judged = scores_of_a_fresh_process(shop, mlflow_server, tmp_path, evaluated)
    np.testing.assert_array_equal(served, judged)


def test_in_a_bucket_registering_twice_gives_one_version(s3_uri: str, tmp_path: Path, mlflow_database: Path) -> None:
    shop = Shop.make(prepare(open_store(s3_uri), mlflow_database), tmp_path / "scratch")
    training = shop.train(1.0)
    _, evaluated = shop.evaluate(training)
    first, second = (register(shop, training, evaluated, attempt) for attempt in ("a1", "a2"))
    assert first == second
    assert first.promoted
    assert any(entry.key.endswith("weights.safetensors") for entry in shop.store.list("mlflow/artifacts"))
