from dataclasses import replace
from datetime import timedelta
from io import StringIO
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from ratchet.contracts.champion import Champion
from ratchet.contracts.errors import ConfigurationError, DataRejected
from ratchet.contracts.quantities import percent
from ratchet.contracts.result import PublishedResult
from ratchet.contracts.summaries import Judgement
from ratchet.store.memory import MemoryStore
from tasks.evaluate import stage
from tests.model.other_scoring import other_scoring
from tests.shop import SPEC, Shop, rows


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop.make(MemoryStore(str(tmp_path)), tmp_path / "scratch")


OWN = "def derive(df):\n    return df\n"


def judge(shop: Shop, training: PublishedResult, champion: Champion | None = None) -> Judgement:
    return shop.evaluate(training, champion)[0]


def test_the_first_model_goes_in_if_it_surely_beats_a_constant(shop: Shop) -> None:
    judged = judge(shop, shop.train(1.0))
    assert (judged.verdict, judged.reason, judged.baseline_kind) == ("promote", "first-model", "constant")
    assert judged.min_gain == 0.01
    assert judged.gain.low > 0.2
    assert judged.baseline is None


def test_a_first_model_that_is_no_better_than_a_constant_does_not_go_in(shop: Shop) -> None:
    judged = judge(shop, shop.train(0.0, 1.0))
    assert judged.verdict != "promote"
    assert judged.reason in {"not-better", "too-small-to-tell", "slice-loss"}
    assert judge(shop, shop.train(-1.0)).verdict == "reject"


def test_a_first_model_that_says_the_same_of_every_row_gains_nothing_by_the_order_of_rows(shop: Shop) -> None:
    judged = judge(shop, shop.train(0.0))
    assert judged.candidate_metrics == judged.baseline_metrics
    assert judged.verdict != "promote"


def test_a_better_model_is_promoted_with_its_figures(shop: Shop) -> None:
    judged, published = shop.evaluate(shop.train(1.0), shop.crown(shop.train(0.3, 1.0)))
    assert (judged.verdict, judged.reason, judged.baseline_kind) == ("promote", "better", "champion")
    assert judged.gain.low > judged.min_gain == 0.01
    assert judged.candidate_metrics["ndcg@10"] > judged.baseline_metrics["ndcg@10"] > 0.5
    assert set(judged.candidate_metrics) == {"ndcg@10", "mrr@10", "map@10", "precision@10", "recall@10", "auc"}
    assert judged.groups == 300
    assert published.result.metrics["constant.auc"] == 0.5
    assert published.result.metrics["candidate.latency_ms_per_1000_rows"] > 0
    assert "version 1" in judged.explanation


def test_a_worse_model_is_rejected(shop: Shop) -> None:
    judged = judge(shop, shop.train(0.3, 1.0), shop.crown(shop.train(1.0)))
    assert judged.verdict == "reject"
    assert judged.reason in {"not-better", "slice-loss"}


def test_a_gain_too_close_to_the_margin_is_inconclusive_and_says_what_could_be_seen(tmp_path: Path) -> None:
    shop = Shop.make(MemoryStore(str(tmp_path)), tmp_path / "scratch", groups=60)
    judged = judge(shop, shop.train(1.0, 0.1), shop.crown(shop.train(1.0, 0.6)))
    assert (judged.verdict, judged.reason) == ("inconclusive", "too-small-to-tell")
    assert judged.smallest_visible_gain > judged.min_gain
    assert f"{percent(judged.smallest_visible_gain, signed=True)}" in judged.explanation


def test_five_groups_conclude_nothing_however_clear_they_look(tmp_path: Path) -> None:
    shop = Shop.make(MemoryStore(str(tmp_path)), tmp_path / "scratch", groups=5)
    judged = judge(shop, shop.train(1.0), shop.crown(shop.train(-1.0)))
    assert (judged.verdict, judged.reason) == ("inconclusive", "too-small-to-tell")
    assert "at least 30" in judged.explanation


def test_a_model_that_loses_in_one_country_is_rejected_and_the_country_named(shop: Shop) -> None:
    flip = "def derive(df):\n    return df.assign(x=df.x.where(df.country != 'US', -df.x))\n"
    judged = judge(shop, shop.train(1.0, code=flip), shop.crown(shop.train(0.2, 1.0)))
    assert (judged.verdict, judged.reason) == ("reject", "slice-loss")
    assert "country=US" in judged.explanation
    outcomes = {one.value: one.outcome for one in judged.slices}
    assert outcomes == {"DE": "passed", "FR": "passed", "US": "failed"}


def test_the_very_same_model_is_named_identical_and_rejected(shop: Shop) -> None:
    training = shop.train(1.0)
    judged = judge(shop, training, shop.crown(training))
    assert (judged.verdict, judged.reason) == ("reject", "identical")


def test_another_model_with_the_same_scores_is_identical_too(shop: Shop) -> None:
    judged = judge(shop, shop.train(1.0, code="X = 1\n\ndef derive(df):\n    return df\n"), shop.crown(shop.train(1.0)))
    assert (judged.verdict, judged.reason) == ("reject", "identical")


def test_a_parent_of_either_model_that_has_seen_a_held_out_day_makes_the_comparison_unfair(shop: Shop) -> None:
    fair, unfair = (9, 1), (9, 0)
    judged = judge(shop, shop.train(1.0, parent_on=fair), shop.crown(shop.train(0.3, 1.0, parent_on=fair)))
    assert (judged.verdict, judged.reason) == ("promote", "better")
    judged = judge(shop, shop.train(1.0), shop.crown(shop.train(0.3, 1.0, parent_on=unfair)))
    assert (judged.verdict, judged.reason) == ("inconclusive", "baseline-saw-holdout")
    for champion in (shop.crown(shop.train(0.3, 1.0)), None):
        judged = judge(shop, shop.train(1.0, parent_on=unfair), champion)
        assert (judged.verdict, judged.reason) == ("inconclusive", "candidate-saw-holdout")
        assert f"trained on held-out days ({shop.data_date})" in judged.explanation


@pytest.mark.parametrize("trained_on", [(3, 0, 2), (3, 2, 0)])
def test_a_champion_that_has_seen_a_held_out_day_is_named_and_never_replaced(
    shop: Shop, trained_on: tuple[int, ...]
) -> None:
    champion = shop.crown(shop.train(0.3, 1.0, trained_on=trained_on))
    judged = judge(shop, shop.train(1.0), champion)
    assert (judged.verdict, judged.reason) == ("inconclusive", "baseline-saw-holdout")
    assert str(shop.data_date) in judged.explanation
    assert judged.gain.value > 0
    assert judged.baseline == champion


@pytest.mark.parametrize("lost", ["manifest", "weights", "code"])
def test_a_champion_whose_files_are_gone_is_named_and_never_replaced(shop: Shop, lost: str) -> None:
    training = shop.train(0.3, 1.0, code=OWN)
    shop.store.delete(training.key if lost == "manifest" else training.result.outputs[lost].key)
    judged = judge(shop, shop.train(1.0), shop.crown(training))
    assert (judged.verdict, judged.reason) == ("inconclusive", "baseline-missing")
    assert judged.baseline_kind == "constant"


@pytest.mark.parametrize("output", ["manifest", "weights", "description", "code"])
def test_a_champion_with_one_flipped_byte_is_named_and_never_replaced(shop: Shop, output: str) -> None:
    training = shop.train(0.3, 1.0, code=OWN)
    key = training.key if output == "manifest" else training.result.outputs[output].key
    data, entry = bytearray(shop.store.read(key)), shop.store.head(key)
    data[len(data) // 2] ^= 1
    assert entry
    assert shop.store.replace(key, bytes(data), expected=entry.etag)
    judged = judge(shop, shop.train(1.0), shop.crown(training))
    assert (judged.verdict, judged.reason) == ("inconclusive", "baseline-unreadable")


@pytest.mark.parametrize("fails", ["raise ZeroDivisionError('old code')", "raise SystemExit('old code')"])
def test_a_champion_whose_own_code_fails_is_named_and_never_replaced(shop: Shop, fails: str) -> None:
    broken = f"def derive(df):\n    {fails}\n"
    judged = judge(shop, shop.train(1.0), shop.crown(shop.train(0.3, 1.0, code=broken)))
    assert (judged.verdict, judged.reason) == ("inconclusive", "baseline-unreadable")
    assert "old code" in judged.explanation


def test_files_of_another_model_in_the_champions_place_are_found_out(shop: Shop) -> None:
    champion = shop.crown(shop.train(0.3, 1.0)).model_copy(update={"digest": "0" * 64})
    assert judge(shop, shop.train(1.0), champion).reason == "baseline-unreadable"


def test_each_model_scores_with_its_own_code(shop: Shop) -> None:
    flip = "def derive(df):\n    return df.assign(x=-df.x)\n"
    judged = judge(shop, shop.train(-1.0, code=flip), shop.crown(shop.train(-1.0)))
    assert (judged.verdict, judged.reason) == ("promote", "better")


HELPED = (
    "import mapping\n\ndef derive(df):\n    from helpers import SIGN\n    return df.assign(x=SIGN * mapping.of(df.x))\n"
)
HELPERS = {"mapping.py": "def of(x):\n    return x.fillna(0.5)\n", "helpers.py": "SIGN = 1\n"}
OTHER_HELPERS = {"mapping.py": "def of(x):\n    return x.fillna(-0.5) ** 3\n", "helpers.py": "SIGN = -1\n"}


def column(shop: Shop, evaluated: PublishedResult, name: str) -> list[float]:
    path = shop.folder / f"{name}-{evaluated.result.fingerprint[:8]}"
    shop.store.download(evaluated.result.outputs["scores"].key, path)
    return pq.read_table(path)[name].to_pylist()


def test_each_model_scores_with_its_own_helpers_and_its_own_scoring_code(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = shop.train(-1.0, code=HELPED, helpers=OTHER_HELPERS), shop.train(1.0, code=HELPED, helpers=HELPERS)
    with monkeypatch.context() as before:
        before.setattr(stage, "pack", lambda: other_scoring(tmp_path))
        _, in_office = shop.evaluate(old)
    _, alone = shop.evaluate(new)
    _, both = shop.evaluate(new, shop.crown(old, evaluated=in_office))
    assert column(shop, both, "baseline") == column(shop, in_office, "candidate")
    assert column(shop, both, "candidate") == column(shop, alone, "candidate")
    scoring = [one.result.outputs["scoring"].sha256 for one in (in_office, alone, both)]
    assert scoring[0] != scoring[1] == scoring[2]
    _, installed = shop.evaluate(new, shop.crown(old))
    assert column(shop, installed, "baseline") != column(shop, both, "baseline")


def test_a_champion_of_before_is_scored_by_the_installed_code_and_the_log_says_so(shop: Shop) -> None:
    old, new = shop.train(0.3, 1.0), shop.train(1.0)
    for evaluated in (None, shop.evaluate(old)[1]):
        held = replace(shop, champion=shop.crown(old, evaluated=evaluated), log=StringIO())
        with held.open(held.evaluation(new)) as ctx:
            judged = stage.run(ctx).summary
        assert isinstance(judged, Judgement)
        assert judged.reason == "better"
        assert ("the installed code scores it" in held.log.getvalue()) == (evaluated is None)


@pytest.mark.parametrize("damage", ["gone", "flipped"])
def test_a_champion_without_its_scoring_code_is_named_and_never_replaced(shop: Shop, damage: str) -> None:
    old = shop.train(0.3, 1.0)
    _, evaluated = shop.evaluate(old)
    key = evaluated.result.outputs["scoring"].key
    data = bytearray(shop.store.read(key))
    data[len(data) // 2] ^= 1
    shop.store.delete(key)
    if damage == "flipped":
        shop.store.create(key, bytes(data))
    judged = judge(shop, shop.train(1.0), shop.crown(old, evaluated=evaluated))
    assert judged.verdict == "inconclusive"
    assert judged.reason == {"gone": "baseline-missing", "flipped": "baseline-unreadable"}[damage]


def test_a_derive_that_fails_on_held_out_rows_is_the_pipeline_s_error(shop: Shop) -> None:
    with pytest.raises(ConfigurationError, match=r"features\.py:2: ZeroDivisionError"):
        shop.evaluate(shop.train(1.0, code="def derive(df):\n    return 1 / 0\n"))


def test_scores_are_written_for_each_labelled_row_with_the_rows_of_a_group_together(shop: Shop) -> None:
    _, published = shop.evaluate(shop.train(1.0), shop.crown(shop.train(0.5, 0.5)))
    path = shop.folder / "scores"
    shop.store.download(published.result.outputs["scores"].key, path)
    table = pq.read_table(path)
    assert table.column_names == ["day", "row", "label", "group", "candidate", "baseline"]
    assert table.num_rows == published.result.summary["rows"] == 3000 - 30
    assert (np.diff(table["group"].to_numpy()) >= 0).all()
    assert len(set(table["group"].to_pylist())) == 300


def test_the_same_inputs_give_the_same_content_and_scores(shop: Shop) -> None:
    training = shop.train(1.0)
    shop = shop.against(shop.crown(shop.train(0.5, 0.5)))
    contents, digests = set(), set()
    for attempt in ("one", "two"):
        with shop.open(shop.evaluation(training, attempt)) as ctx:
            contents.add(stage.run(ctx).content)
            digests.add(ctx.transaction.outputs["scores"].sha256)
    assert len(contents) == len(digests) == 1


def test_held_out_days_without_a_label_are_refused(shop: Shop) -> None:
    late = replace(shop, data_date=shop.data_date + timedelta(days=1))
    with pytest.raises(DataRejected, match="no held-out row"):
        late.evaluate(late.train(1.0))


def test_held_out_rows_count_by_their_weights(tmp_path: Path) -> None:
    """In five groups of six every row has weight 0: the others are the units that conclude something."""

    def weighed(folder: Path, share: int) -> Judgement:
        document = {**SPEC, "columns": {**SPEC["columns"], "query_weight": {"role": "weight", "type": "int64"}}}
        table = rows(300, 0)
        weight = (table["query"].to_numpy() % share == 0).astype(np.int64)
        made = table.append_column("query_weight", [weight])
        shop = Shop.make(MemoryStore(str(folder)), folder / "scratch", document=document, table=made)
        return judge(shop, shop.train(1.0))

    everything, some = weighed(tmp_path / "all", 1), weighed(tmp_path / "some", 6)
    assert some.candidate_metrics != everything.candidate_metrics
    assert some.smallest_visible_gain > 2 * everything.smallest_visible_gain


def test_a_regression_is_judged_by_a_metric_where_less_is_better(tmp_path: Path) -> None:
    document = {
        "name": "shop",
        "source": SPEC["source"],
        "columns": {**SPEC["columns"], "clicked": {"role": "label", "type": "float64"}},
        "train": {"objective": "regression"},
    }
    shop = Shop.make(MemoryStore(str(tmp_path)), tmp_path / "scratch", document=document)
    judged = judge(shop, shop.train(0.1), shop.crown(shop.train(0.1, 0.3)))
    assert judged.metric == "rmse"
    assert (judged.verdict, judged.reason) == ("promote", "better")
    assert judged.candidate_metrics["rmse"] < judged.baseline_metrics["rmse"]
