import re
from datetime import UTC, date, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ratchet.contracts.judgements import Interval, SliceJudgement
from ratchet.contracts.refit import Refit
from ratchet.contracts.registration import Registration
from ratchet.contracts.request import Outcome
from ratchet.contracts.result import StageResult
from ratchet.contracts.snapshot import Snapshot
from ratchet.contracts.stages import Stage
from ratchet.contracts.summaries import Check, Evaluation, Judgement, Split, TrainedModel, Validation
from ratchet.store.memory import MemoryStore
from tasks.report.headline import headline
from tasks.report.page import RunFacts, metric_table, render
from tests.shop import Shop

HOSTILE = '<script>alert("1")</script>{{ 7 * 7 }}&amp;\'"'
DAYS = tuple(date(2026, 11, 20) - timedelta(days=back) for back in range(5, -1, -1))


class Page(HTMLParser):
    """The tags and the text of a page, as a browser parses it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def facts(tmp_path: Path) -> RunFacts:
    shop = Shop.make(MemoryStore(str(tmp_path)), tmp_path / "scratch", groups=20)
    training = shop.train(1.0)
    judged, evaluated = shop.evaluate(training, shop.crown(shop.train(0.3, 1.0)))
    outcome = Outcome.model_validate_json(shop.store.read("runs/shop/run-1/evaluate.json"))
    return RunFacts(
        request=shop.request("report", attempt="a1"),
        outcomes={"evaluate": outcome},
        snapshot=Snapshot.model_validate(shop.ingest.result.summary),
        validation=Validation(
            checks=(_check(passed=True), _check(passed=False)),
            excluded=DAYS[1:2],
            rows=dict.fromkeys(DAYS, 1000),
            labelled=dict.fromkeys(DAYS, 990),
        ),
        trained=TrainedModel.model_validate(training.result.summary),
        judged=judged,
        numbers=evaluated.result.metrics,
        unlabelled=60,
        split=Split(train=DAYS[2:4], valid=DAYS[4:5], holdout=DAYS[5:]),
    )


def _check(*, passed: bool, observed: str = "12%") -> Check:
    return Check(
        day=DAYS[-1], rule="null", column="price", passed=passed, severity="warning", observed=observed,
        allowed="1%", key="columns.price.max_null",
    )  # fmt: skip


def changed(facts: RunFacts, **values: object) -> RunFacts:
    return RunFacts(**{**{name: getattr(facts, name) for name in facts.__dataclass_fields__}, **values})  # type: ignore[arg-type]


def test_the_page_has_the_verdict_the_figures_the_data_and_the_lineage(facts: RunFacts) -> None:
    page = render(facts)
    assert facts.judged is not None
    assert facts.trained is not None
    for expected in ("ndcg@10", "country = DE", "0.5000", facts.trained.digest, "tables/shop/1 version 3", "c0ffee"):
        assert expected in page
    assert "60 without a label were dropped" in page
    assert "excluded: 2026-11-16" in page
    assert "1 of 2 checks hold" in page
    assert page.count("<svg") == 6


def test_the_page_refers_to_no_other_file(facts: RunFacts) -> None:
    page = Page(render(facts))
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "link", "img", "iframe", "object", "embed"}
    assert not [value for _, attributes in page.tags for value in attributes.values() if value and "://" in value]
    assert "@import" not in page.text
    assert "url(" not in page.text


def test_a_page_of_the_same_run_has_the_same_bytes(facts: RunFacts) -> None:
    assert render(facts) == render(facts)


def test_hostile_text_is_shown_and_not_executed(facts: RunFacts) -> None:
    assert facts.judged is not None
    spec = facts.request.spec.model_copy(update={"description": HOSTILE})
    pins = facts.request.pins.model_copy(update={"commit": HOSTILE, "libraries": {HOSTILE: HOSTILE}})
    hostile = changed(
        facts,
        request=facts.request.model_copy(update={"spec": spec, "pins": pins, "overrides": {HOSTILE: HOSTILE}}),
        judged=facts.judged.model_copy(
            update={
                "explanation": HOSTILE,
                "slices": (
                    SliceJudgement(
                        column="country", value=HOSTILE, rows=3, candidate=0.5, baseline=0.4, outcome="passed",
                        gain=Interval(value=0.1, low=0.0, high=0.2),
                    ),
                ),
            }
        ),
        validation=Validation(checks=(_check(passed=False, observed=HOSTILE),), rows={}, labelled={}),
        outcomes={"train": Outcome(stage="train", state="done", because=HOSTILE)},
    )  # fmt: skip
    page = Page(render(hostile))
    assert "script" not in {tag for tag, _ in page.tags}
    assert page.text.count(HOSTILE) >= 6
    assert "49" not in re.findall(r"alert\(\"1\"\)</script>(\d*)", page.text)


@pytest.mark.parametrize("stages", range(5))
def test_a_run_that_stopped_anywhere_has_a_page_that_says_where(facts: RunFacts, stages: int) -> None:
    order: list[tuple[Stage, tuple[str, ...]]] = [
        ("ingest", ("snapshot",)),
        ("validate", ("validation",)),
        ("features", ("split", "unlabelled")),
        ("train", ("trained",)),
        ("evaluate", ("judged", "numbers")),
    ]
    empty: dict[str, object] = {name: None for _, names in order[stages:] for name in names}
    empty |= {name: 0 for name in ("unlabelled",) if name in empty} | {
        name: {} for name in ("numbers",) if name in empty
    }
    outcomes: dict[Stage, Outcome] = {stage: Outcome(stage=stage, state="done") for stage, _ in order[:stages]}
    failed = order[stages][0]
    outcomes[failed] = Outcome(stage=failed, state="failed", because="columns.price: too many are null")
    page = render(changed(facts, outcomes=outcomes, **empty))
    assert f"Stopped at {failed}" in page
    assert "columns.price: too many are null" in page


def test_a_run_without_any_result_has_a_page(facts: RunFacts) -> None:
    assert "Not judged" in render(RunFacts(request=facts.request))


def test_a_single_epoch_without_validation_is_drawn(facts: RunFacts) -> None:
    assert facts.trained is not None
    only = Evaluation(step=8, epoch=1, loss=0.5, seconds=1, samples_per_sec=10)
    page = render(changed(facts, trained=facts.trained.model_copy(update={"evaluations": (only,), "best": 1})))
    assert "Loss by epoch" in page
    assert "Metric by epoch" not in page


def test_equal_models_and_slices_that_cannot_be_measured_are_drawn(facts: RunFacts) -> None:
    assert facts.judged is not None
    nothing = SliceJudgement(
        column="country", value="US", rows=1, candidate=None, baseline=None, gain=None, outcome="not-provable"
    )
    judged = facts.judged.model_copy(
        update={"gain": Interval(value=0, low=0, high=0), "min_gain": 0.0, "slices": (nothing,)}
    )
    assert "not measurable" in render(changed(facts, judged=judged))


def _registered(**values: object) -> Registration:
    return Registration.model_validate(
        {"model": "shop", "version": "7", "mlflow_run_id": "r", "promoted": True, **values}
    )


@pytest.mark.parametrize(
    ("verdict", "reason", "registered", "title", "mood"),
    [
        ("promote", "better", _registered(), "In production: version 7", "good"),
        ("promote", "better", _registered(promoted=False, withheld="a backfill"), "Registered as version 7, not promoted", "warn"),
        ("promote", "better", None, "Better, not registered", "warn"),
        ("reject", "not-better", None, "Rejected: not better than production", "bad"),
        ("reject", "slice-loss", None, "Rejected: the loss on a slice is too large", "bad"),
        ("inconclusive", "too-small-to-tell", None, "Undecided: too little data to tell", "warn"),
        ("inconclusive", "baseline-without-value", None, "Undecided: the metric has no value of a baseline", "warn"),
        (
            "inconclusive",
            "candidate-saw-holdout",
            None,
            "Undecided: the candidate began with a model that was trained on the held-out rows",
            "warn",
        ),
        ("inconclusive", "baseline-missing", None, "Undecided: the model in production is missing", "warn"),
        ("inconclusive", "champion-unmeasurable", _registered(promoted=False, withheld="a person decides", command="ratchet promote shop@7"), "Stuck: the model in production cannot be measured, and a person has to decide", "warn"),
        ("reject", "a reason to come", None, "Rejected", "bad"),
    ],
)  # fmt: skip
def test_every_verdict_has_a_headline(
    facts: RunFacts, verdict: str, reason: str, registered: Registration | None, title: str, mood: str
) -> None:
    assert facts.judged is not None
    judged: Judgement = facts.judged.model_copy(update={"verdict": verdict, "reason": reason})
    found = headline({}, judged, registered)
    assert (found.title, found.mood) == (title, mood)
    if registered and registered.withheld:
        assert (registered.command or registered.withheld) in found.detail


def test_the_better_of_two_is_marked_whichever_way_the_metric_goes(facts: RunFacts) -> None:
    assert facts.judged is not None
    judged = facts.judged.model_copy(
        update={
            "metric": "logloss",
            "candidate_metrics": {"auc": 0.8, "logloss": 0.4, "pr_auc": 0.1},
            "baseline_metrics": {"auc": 0.7, "logloss": 0.3, "pr_auc": 0.1},
        }
    )
    table = metric_table(judged, {"constant.auc": 0.5})
    assert [(line.name, line.best) for line in table] == [("logloss", "baseline"), ("auc", "candidate"), ("pr_auc", "")]
    assert table[1].constant == 0.5


def refitted(facts: RunFacts, refused: str = "") -> tuple[RunFacts, TrainedModel]:
    """The facts of a run with a refit, and the refit."""
    assert facts.trained is not None
    assert facts.judged is not None
    compared = Refit(
        of=facts.trained.digest, loss=0.41, measured_loss=0.52, metric="ndcg@10", score=0.91, measured_score=None,
        refused=refused,
    )  # fmt: skip
    changes = {"digest": "f" * 64, "split": Split(train=DAYS[2:], valid=(), holdout=()), "refit": compared}
    made = facts.trained.model_copy(update=changes)
    result = StageResult(
        stage="refit", fingerprint="0" * 64, parts={}, content=made.digest, outputs={}, attempt="a",
        finished=datetime.now(UTC), summary=made.model_dump(mode="json"),
    )  # fmt: skip
    ended = Outcome(stage="refit", state="done", content=made.digest, result=result)
    judged = facts.judged.model_copy(update={"verdict": "promote", "reason": "better"})
    return changed(facts, refit=made, judged=judged, outcomes={**facts.outcomes, "refit": ended}), made


def test_the_page_says_that_a_refit_is_shipped_and_of_what(facts: RunFacts) -> None:
    known, made = refitted(facts)
    page = render(changed(known, registered=Registration(model="shop", version="7", mlflow_run_id="r", promoted=True)))
    assert "In production: version 7" in page
    assert f"is a refit of the one that was measured, on days up to {DAYS[-1]}; its own score is not known." in page
    assert facts.trained is not None
    for expected in (made.digest, facts.trained.digest, "Measured model", "0.41, 0.52", "0.9100, not known"):
        assert expected in page
    assert "<td>refit</td>" in page


def test_the_page_says_why_a_refit_is_refused(facts: RunFacts) -> None:
    known, _ = refitted(facts, "refit-diverged: the training loss of the refit is 9")
    page = render(known)
    assert "Better, but its refit is refused" in page
    assert "refused: refit-diverged" in page
    assert "The training loss of the refit is 9." in page


def test_the_page_of_a_run_without_a_refit_does_not_speak_of_one(facts: RunFacts) -> None:
    assert "refit" not in render(facts).lower()
