"""The model that a training begins with: chosen when the run is planned, or not, and why."""

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from ratchet.contracts import paths, summaries
from ratchet.contracts.errors import Unavailable
from ratchet.contracts.parent import WarmStart
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.request import RunKind
from ratchet.contracts.result import PublishedResult
from ratchet.contracts.resuming import resume_key
from ratchet.contracts.stages import STAGES, Stage
from ratchet.contracts.summaries import FeatureSet, Split
from ratchet.production.standing import standing
from ratchet.runs.parents import find_parent
from ratchet.runs.requests import compose
from ratchet.store.base import Entry
from ratchet.store.file import FileStore
from ratchet.store.ledger import Change, append
from ratchet.store.ledger_record import Ban
from tests.runs.test_requests import OUTCOMES, outcome, plan
from tests.shop import SPEC, Shop
from tests.store.test_ledger import change
from tests.world import LAST

TONIGHT = LAST + timedelta(days=2)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    store = FileStore(tmp_path / "store")
    store.prepare()
    return Shop.make(store, tmp_path, groups=10)


def asks(**changes: Any) -> PipelineSpec:
    document = {**SPEC, **changes}
    return PipelineSpec.model_validate({**document, "train": {**document["train"], "init": "champion"}})


def promote(shop: Shop, training: PublishedResult, data_date: date = LAST, *, after: int = 0, **changes: Any) -> Change:
    made = change(
        f"{after + 1}", data_date.day, model="shop", model_digest=training.result.content, data_date=data_date,
        manifests={"train": training.key}, **changes,
    )  # fmt: skip
    append(shop.store, made, after=after)
    return made


def found(shop: Shop, data_date: date = TONIGHT, kind: RunKind = "scheduled", **changes: Any) -> tuple[str, str]:
    """(the version, why it begins fresh)."""
    parent, fresh = find_parent(shop.store, asks(**changes), data_date, kind)
    return parent.version if parent else "", fresh


def test_it_is_the_live_champion_with_its_files_and_days(shop: Shop) -> None:
    training = shop.train(1.0)
    promote(shop, training)
    parent, fresh = find_parent(shop.store, asks(), TONIGHT, "scheduled")
    assert parent is not None
    assert (fresh, parent.digest, parent.generation) == ("", training.result.content, 1)
    assert parent.weights == training.result.outputs["weights"]
    assert (parent.since, parent.until) == (LAST - timedelta(days=3), LAST - timedelta(days=2))
    assert parent.epochs == 2


def test_without_the_key_nothing_is_looked_up(shop: Shop) -> None:
    promote(shop, shop.train(1.0))
    assert find_parent(shop.store, shop.spec, TONIGHT, "scheduled") == (None, "")


def test_a_first_night_begins_fresh(shop: Shop) -> None:
    assert found(shop) == ("", "no model is in production yet")


def test_the_same_date_again_and_a_backfill_begin_with_who_was_in_office_then(shop: Shop) -> None:
    promote(shop, shop.train(1.0), LAST, after=0)
    promote(shop, shop.train(2.0), LAST + timedelta(days=1), after=1)
    assert found(shop) == ("2", "")
    assert found(shop, LAST + timedelta(days=1)) == ("1", "")
    assert found(shop, LAST + timedelta(days=1), "backfill") == ("1", "")
    assert found(shop, LAST) == ("", f"no model was in production before {LAST}")


def test_a_model_that_has_seen_the_days_of_the_run_or_later_ones_is_no_parent(shop: Shop) -> None:
    promote(shop, shop.train(1.0, trained_on=(2, 0)), LAST - timedelta(days=1))
    version, fresh = found(shop, LAST)
    assert (version, f"has seen days up to {LAST}, and this run is of {LAST}" in fresh) == ("", True)
    assert found(shop, TONIGHT) == ("1", "")


def test_what_was_rolled_back_is_no_parent(shop: Shop) -> None:
    first, second = shop.train(1.0), shop.train(2.0)
    promote(shop, first, LAST, after=0)
    promote(shop, second, LAST + timedelta(days=1), after=1)
    bans = (Ban(version="1", digest=first.result.content),)
    promote(shop, second, LAST + timedelta(days=1), after=2, action="hold", bans=bans, reason="no good")
    version, fresh = found(shop, LAST + timedelta(days=1), "backfill")
    assert (version, "was rolled back" in fresh) == ("", True)


@pytest.mark.parametrize("output", ["weights", "description"])
def test_a_champion_whose_files_are_gone_or_damaged_is_no_parent(shop: Shop, output: str) -> None:
    training = shop.train(1.0)
    promote(shop, training)
    key = training.result.outputs[output].key
    whole, entry = shop.store.read(key), shop.store.head(key)
    assert entry
    assert shop.store.replace(key, whole[:-1] + b"?", expected=entry.etag)
    assert found(shop)[1].endswith(f"cannot be read: {key} is damaged")
    shop.store.delete(key)
    assert found(shop)[1].endswith(f"cannot be read: {key} is gone")
    shop.store.delete(training.key)
    assert found(shop)[1] == f"version 1 of shop cannot be read: {shop.store.uri}/{training.key} is gone"


def test_a_champion_of_another_objective_is_no_parent(shop: Shop) -> None:
    promote(shop, shop.train(1.0))
    said = found(shop, train={"objective": "binary"})
    assert said == ("", "version 1 of shop has the objective ranking, and this pipeline binary")


def test_a_damaged_ledger_begins_fresh(shop: Shop) -> None:
    promote(shop, shop.train(1.0))
    key = next(entry.key for entry in shop.store.list(paths.ledger("shop")) if "head" not in entry.key)
    entry = shop.store.head(key)
    assert entry
    assert shop.store.replace(key, b"{}", expected=entry.etag)
    assert found(shop)[1].startswith("the ledger cannot be read: ")


class _SilentStore(FileStore):
    """Answers nothing about models."""

    def head(self, key: str) -> Entry | None:
        if "weights" in key:
            raise Unavailable("the store does not answer", remedy="try again")
        return super().head(key)


def test_a_store_that_does_not_answer_is_no_reason_to_begin_fresh(shop: Shop) -> None:
    promote(shop, shop.train(1.0))
    with pytest.raises(Unavailable):
        find_parent(_SilentStore(shop.store.root), asks(), TONIGHT, "scheduled")  # type: ignore[attr-defined] # a folder


def planned(shop: Shop, until: date) -> Any:
    """A plan whose parent has seen days up to a date."""
    promote(shop, shop.train(1.0))
    parent, _ = find_parent(shop.store, asks(), TONIGHT, "scheduled")
    assert parent is not None
    return plan(parent=parent.model_copy(update={"until": until}), fresh="")


def ended(*holdout: date) -> dict[Stage, Any]:
    split = Split(train=(LAST - timedelta(days=9),), valid=(), holdout=holdout)
    features = FeatureSet(numeric=(), categorical=(), days=(), split=split).model_dump(mode="json")
    return {**OUTCOMES, "features": outcome("features", summary=features)}


def test_a_parent_that_has_seen_a_held_out_day_or_a_later_one_is_left_out(shop: Shop) -> None:
    made = planned(shop, until=LAST)
    fair = compose(shop.store, made, "train", ended(LAST + timedelta(days=1)), "a")
    assert (fair.parent, fair.fresh) == (made.parent, "")
    for holdout in ((LAST,), (LAST - timedelta(days=1), LAST + timedelta(days=1))):
        unfair = compose(shop.store, made, "train", ended(*holdout), "a")
        assert unfair.parent is None
        assert f"has seen days up to {LAST}, and this run holds out days from {holdout[0]} on" in unfair.fresh
        assert compose(shop.store, made, "report", ended(*holdout), "a").fresh == unfair.fresh


def test_a_parent_that_was_rolled_back_since_the_run_was_planned_is_left_out(shop: Shop) -> None:
    made = planned(shop, until=LAST)
    assert made.parent is not None
    features = ended(LAST + timedelta(days=1))
    assert compose(shop.store, made, "train", features, "a").parent == made.parent
    bans = (Ban(version=made.parent.version, digest=made.parent.digest),)
    after = standing(shop.store, made.parent.model).number
    promote(shop, shop.train(3.0), LAST + timedelta(days=1), after=after, action="hold", bans=bans, reason="no good")
    banned = compose(shop.store, made, "train", features, "a")
    assert (banned.parent, "was rolled back" in banned.fresh) == (None, True)


def test_the_parent_is_a_part_of_fingerprint_and_resume_key(shop: Shop) -> None:
    made = planned(shop, until=LAST)
    features = ended(LAST + timedelta(days=1))
    warm, fresh = (compose(shop.store, one, "train", features, "a") for one in (made, plan()))
    assert made.parent is not None
    assert warm.parts == {**fresh.parts, "parent": made.parent.digest}
    assert resume_key(warm.parts) != resume_key(fresh.parts)
    for stage in STAGES:
        if stage not in {"train", "refit", "report"}:
            assert compose(shop.store, made, stage, features, "a").parent is None


def test_days_of_all_ancestors_count_as_seen(shop: Shop) -> None:
    made = planned(shop, until=LAST + timedelta(days=5))
    trained = summaries.trained(shop.train(2.0).result)
    begun = WarmStart(parent=made.parent, parameters=1, of_parameters=1, rows=0, of_rows=0)
    days = (LAST - timedelta(days=1), LAST + timedelta(days=5), LAST + timedelta(days=6))
    assert trained.has_seen(days) == ()
    assert trained.model_copy(update={"warm_start": begun}).has_seen(days) == days[:2]
    assert trained.has_seen((*trained.split.train, LAST)) == trained.split.train
