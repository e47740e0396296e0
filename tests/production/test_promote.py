"""A version into production by hand: what is known of it, who answers for it, and whether its model can be loaded."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError, CorruptArtifact
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.request import Promotion
from ratchet.model import zygote
from ratchet.production.loading import load
from ratchet.production.promote import promote
from ratchet.production.reconcile import reconcile
from ratchet.production.standing import standing
from ratchet.production.version_origin import origin_of, rules_of
from ratchet.store.file import FileStore
from ratchet.store.ledger import Record, records
from ratchet.store.publishing import read_manifest
from ratchet.tracking.mlflow import Tracker, track
from ratchet.tracking.registry import DIGEST, PIPELINE, RUN, SCORING, Version
from ratchet.tracking.use_registry import use_registry
from tests.mlflow_server import prepare
from tests.register.night import night
from tests.runs.recorded import keep_plan
from tests.runs.test_requests import plan
from tests.shop import SPEC, Shop

TWO = {**SPEC, "register": {"promote": "approve", "approvals": 2}}


def made(folder: Path, database: Path, document: dict[str, Any] = SPEC) -> Shop:
    """A shop whose version 1 is registered and was never in production."""
    shop = Shop.make(prepare(FileStore(folder / "store"), database), folder / "scratch", document=document)
    held = replace(shop, promotion=Promotion(mode="never", reason="not now"))
    assert night(held, held.train(1.0)).version == "1"
    return shop


@pytest.fixture(scope="module")
def registered(tmp_path_factory: pytest.TempPathFactory, mlflow_database: Path) -> Shop:
    """To be copied."""
    return made(tmp_path_factory.mktemp("registered"), mlflow_database)


@pytest.fixture
def shop(registered: Shop, tmp_path: Path) -> Shop:
    assert isinstance(registered.store, FileStore)
    shutil.copytree(registered.store.root, tmp_path / "store")
    (tmp_path / "scratch").mkdir()
    return replace(registered, store=FileStore(tmp_path / "store"), folder=tmp_path / "scratch")


def by_hand(shop: Shop, *, by: str = "ann", second: str | None = None) -> Record:
    return promote(shop.store, None, "shop", "1", by=by, because="the fair", approved_by=second)


def version(shop: Shop) -> Version:
    found = use_registry(shop.store, None, shop.folder, lambda registry: registry.version("shop", "1"))
    assert found is not None
    return found


def tag(shop: Shop, name: str, value: str) -> None:
    def write(tracker: Tracker) -> None:
        tracker.client.set_model_version_tag("shop", "1", name, value)

    track(shop.store, None, shop.folder, write)


def without_record(shop: Shop) -> None:
    for entry in [*shop.store.list(paths.version_records("shop"))]:
        shop.store.delete(entry.key)


def test_what_the_ledger_records_is_what_the_version_s_own_record_says_whatever_its_tags_are(shop: Shop) -> None:
    for name in (RUN, PIPELINE):
        tag(shop, name, "another")
    record = by_hand(shop)
    assert (record.run_id, record.pipeline, record.data_date) == (shop.run_id, "shop", shop.data_date)
    assert (record.by_hand, record.started_by, record.reason) == (True, "ann", "the fair")
    assert {"ingest", "train", "evaluate"} == record.manifests.keys()
    assert record.recipe
    assert records(shop.store, "shop") == (record,)


def test_the_record_is_found_by_the_digest_under_another_number(shop: Shop) -> None:
    there = version(shop)
    restored = Version(number="7", tags={DIGEST: there.digest})
    found = origin_of(shop.store, "shop", restored, pipelines=())
    assert (found.record.version, found.record.run_id) == ("7", shop.run_id)
    other = Version(number="1", tags={DIGEST: "e" * 64})
    with pytest.raises(ConfigurationError, match=r"no record of run \?, which made version 1"):
        origin_of(shop.store, "shop", other, pipelines=())


def test_a_version_of_an_earlier_release_is_known_by_the_run_that_its_tags_name(shop: Shop) -> None:
    by_record = origin_of(shop.store, "shop", version(shop), pipelines=())
    without_record(shop)
    with pytest.raises(ConfigurationError, match="the store has no record of run"):
        by_hand(shop)
    keep_plan(shop.store, plan(spec=shop.spec, run_id=shop.run_id, data_date=shop.data_date))
    by_tags = origin_of(shop.store, "shop", version(shop), pipelines=())
    same = {"recorded": by_record.record.recorded}
    assert by_tags.record.model_copy(update=same) == by_record.record
    assert by_hand(shop).version == "1"


def test_a_damaged_record_is_named_and_the_tags_are_not_believed_in_its_place(shop: Shop) -> None:
    keep_plan(shop.store, plan(spec=shop.spec, run_id=shop.run_id, data_date=shop.data_date))
    (entry,) = shop.store.list(paths.version_records("shop"))
    shop.store.replace(entry.key, shop.store.read(entry.key).replace(b"shop", b"SHOP"), expected=entry.etag)
    with pytest.raises(CorruptArtifact, match=r"is damaged.*take record\.json of the version in MLflow"):
        by_hand(shop)
    assert records(shop.store, "shop") == ()


def test_one_person_is_not_two_however_the_name_is_written(tmp_path: Path, mlflow_database: Path) -> None:
    shop = made(tmp_path, mlflow_database, TWO)
    for second in (None, "", " ", "ann lee", " ann lee ", "Ann Lee", "ANN  LEE", "annlee", "\uff41nn lee"):
        with pytest.raises(ConfigurationError, match=r"register\.approvals of shop is 2, and 1 answers for this"):
            by_hand(shop, by="ann lee", second=second)
    assert records(shop.store, "shop") == ()
    assert [one.name for one in by_hand(shop, second=" ben").approvals] == ["ann", "ben"]


def test_those_whom_the_pipeline_names_answer_and_nobody_else(tmp_path: Path, mlflow_database: Path) -> None:
    document = {**SPEC, "register": {"promote": "approve", "approvers": ["ann"]}}
    shop = made(tmp_path, mlflow_database, document)
    for by, second in (("bob", None), ("bob", "eve"), ("ann@laptop", None)):
        with pytest.raises(
            ConfigurationError, match=rf"register\.approvers of shop does not name {by}.*; allowed: ann"
        ):
            by_hand(shop, by=by, second=second)
    assert records(shop.store, "shop") == ()
    assert [one.name for one in by_hand(shop, by="bob", second="Ann").approvals] == ["bob", "Ann"]


def test_one_of_those_whom_the_pipeline_names_is_enough_where_one_has_to_approve(
    tmp_path: Path, mlflow_database: Path
) -> None:
    document = {**SPEC, "register": {"promote": "approve", "approvers": ["ann", "ben"]}}
    assert by_hand(made(tmp_path, mlflow_database, document), by="ben").started_by == "ben"


def test_where_two_have_to_approve_both_are_of_those_whom_the_pipeline_names(
    tmp_path: Path, mlflow_database: Path
) -> None:
    document = {**SPEC, "register": {"promote": "approve", "approvals": 2, "approvers": ["ann", "ben"]}}
    shop = made(tmp_path, mlflow_database, document)
    with pytest.raises(ConfigurationError, match=r"does not name bob; allowed: ann, ben; to do: 2 of them have to"):
        by_hand(shop, by="bob", second="ann")
    assert [one.name for one in by_hand(shop, by="ann", second="ben").approvals] == ["ann", "ben"]


def test_a_promotion_that_begins_a_ledger_in_the_place_of_a_lost_one_holds_what_follows(shop: Shop) -> None:
    assert not by_hand(shop).holds
    reconcile(shop.store, None, "shop")
    for entry in [*shop.store.list(paths.ledger("shop"))]:
        shop.store.delete(entry.key)
    assert by_hand(shop).holds
    now = standing(shop.store, "shop")
    assert now.hold is not None
    assert "promotions of shop are held by ann" in now.obstacle("e" * 64)


def test_an_older_version_needs_as_many_people_as_the_pipeline_asks_for_now(shop: Shop) -> None:
    now = {**SPEC, "register": {"promote": "approve", "approvals": 2, "approvers": ["ann", "ben"]}}
    later = shop.data_date + timedelta(days=1)
    keep_plan(shop.store, plan(spec=PipelineSpec.model_validate(now), run_id="later", data_date=later))
    with pytest.raises(ConfigurationError, match=r"register\.approvals of shop is 2, and 1 answers for this"):
        by_hand(shop)
    with pytest.raises(ConfigurationError, match="does not name eve; allowed: ann, ben"):
        by_hand(shop, second="eve")
    keep_plan(shop.store, plan(spec=shop.spec, run_id="older", data_date=shop.data_date))
    before = datetime.now(UTC) - timedelta(hours=1)  # its file is newer, as in a store that was copied
    keep_plan(shop.store, plan(spec=shop.spec, run_id="before", data_date=later, created=before))
    origin = origin_of(shop.store, "shop", version(shop), pipelines=())
    for own in ({"promote": "approve", "approvers": ["eve"]}, {"promote": "auto"}):
        spec = PipelineSpec.model_validate({**SPEC, "register": own})
        rules = rules_of(shop.store, replace(origin, spec=spec))
        assert (rules.approvals, rules.approvers) == (2, ("ann", "ben")), (
            "taken whole: one of these names alone is no two"
        )
    assert [one.name for one in by_hand(shop, second="ben").approvals] == ["ann", "ben"]


@pytest.mark.parametrize(
    ("act", "said"),
    [
        ("os._exit(3)", "the model's code ended its process with exit code 3"),
        ("raise SystemExit(0)", "SystemExit"),
        ("os.kill(os.getpid(), 11)", "the model's code ended its process with signal 11"),
        ("raise KeyError('x')", "features.py"),
    ],
)
def test_code_of_a_model_that_ends_its_process_ends_no_command(shop: Shop, act: str, said: str) -> None:
    record = origin_of(shop.store, "shop", version(shop), pipelines=()).record
    training = shop.train(1.0, code=f"import os\n\n{act}\n\n\ndef derive(df):\n    return df\n")
    manifests = {**record.manifests, "train": training.key}
    with pytest.raises(ConfigurationError, match=said):
        load(shop.store, record.model_copy(update={"manifests": manifests}))
    assert load(shop.store, record) == record.model_digest


@pytest.fixture
def without_torch(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """The processes of its models find no torch, as in an Airflow without the libraries of the stages."""
    absent = tmp_path / "absent"
    absent.mkdir()
    (absent / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(absent), os.environ.get("PYTHONPATH", "")]))
    before = dict(zygote._running)
    zygote._running.clear()
    yield shop
    for started in zygote._running.values():
        started.close()
    zygote._running.clear()
    zygote._running.update(before)


def test_where_a_model_cannot_be_loaded_one_line_names_the_library_and_what_to_do(without_torch: Shop) -> None:
    shop = without_torch
    with pytest.raises(ConfigurationError) as refused:
        by_hand(shop)
    assert refused.value.cause == "version 1 of shop cannot be loaded here: No module named 'torch'"
    assert refused.value.remedy == "type `ratchet promote shop@1 --by NAME --because WHY` where stages can run"
    assert records(shop.store, "shop") == ()


def test_files_that_are_not_those_of_the_version_are_refused(shop: Shop) -> None:
    record = origin_of(shop.store, "shop", version(shop), pipelines=()).record
    with pytest.raises(CorruptArtifact, match=r"the files of version 1 are model eeeeeeeeeeee, and its tags name"):
        promote(shop.store, None, "shop", "1", by="ann", because="the fair", load=lambda *_: "e" * 64)
    weights = read_manifest(shop.store, record.manifests["train"]).result.outputs["weights"]
    entry = shop.store.head(weights.key)
    assert entry is not None
    shop.store.replace(weights.key, b"other weights", expected=entry.etag)
    with pytest.raises(CorruptArtifact, match="damaged"):
        by_hand(shop)
    tag(shop, SCORING, "ratchet_scoring_of_another")
    with pytest.raises(CorruptArtifact, match="and its tags name ratchet_scoring_of_another"):
        by_hand(shop)
    assert records(shop.store, "shop") == ()
