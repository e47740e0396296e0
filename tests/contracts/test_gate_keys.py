"""The keys that could switch the gate off: their limits, and the pipelines for which one run may change them."""

import pytest

from ratchet.contracts.errors import ConfigurationError, PipelineInvalid
from ratchet.contracts.gate import Gate, Promote
from ratchet.contracts.gate_keys import gate_keys, refuse_gate_overrides, refuse_promotion
from ratchet.contracts.loading import loads

TEXT = """\
name: small
source: {{kind: files, uri: '/data/{{date}}'}}
columns:
  x: {{role: numeric, type: float64}}
  y: {{role: label, type: int64}}
train: {{objective: binary}}
gate: {{confidence: {confidence}}}
"""


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("5%", "95%"),
        ("0.05", "95%"),
        ("1%", "99%"),
        ("0.1", "90%"),
        ("0.5%", "99.5%"),
        ("0.0001", "99.99%"),
        ("49%", "51%"),
    ],
)
def test_what_looks_like_the_share_of_errors_is_asked_about(given: str, meant: str) -> None:
    with pytest.raises(PipelineInvalid) as refused:
        loads(TEXT.format(confidence=given), "p.yaml")
    assert "p.yaml:7: gate.confidence: " in str(refused.value)
    assert f"allowed: 50% to 99.99%; did you mean {meant}?" in str(refused.value)


@pytest.mark.parametrize("given", ["0%", "0.00001", "100%", "1.0", "99.995%"])
def test_a_confidence_that_no_bootstrap_can_give_is_refused(given: str) -> None:
    with pytest.raises(PipelineInvalid, match=r"gate\.confidence: .* is no confidence .*allowed: 50% to 99\.99%$"):
        loads(TEXT.format(confidence=given))


@pytest.mark.parametrize("given", ["50%", "80%", "0.95", "99.9%", "99.99%"])
def test_a_confidence_within_the_limits_is_taken(given: str) -> None:
    assert 0.5 <= loads(TEXT.format(confidence=given)).gate.confidence <= 0.9999


def test_a_stale_champion_is_days_old_and_may_not_be_lost_to_as_one_likes() -> None:
    text = TEXT.format(confidence="95%, stale_after: 12h, max_stale_loss: 20%")
    with pytest.raises(PipelineInvalid) as refused:
        loads(text, "p.yaml")
    assert "gate.stale_after: 12h is no age: with it, no candidate has to be better; allowed: 1d" in str(refused.value)
    assert (
        "gate.max_stale_loss: 20% is no tie: production would get worse with each stale night; allowed: 0% to 10%"
        in (str(refused.value))
    )
    assert loads(text.replace("12h", "1d").replace("20%", "10%")).gate.stale_after == 86_400


def test_a_flag_is_checked_like_the_file() -> None:
    with pytest.raises(PipelineInvalid, match=r"--set gate\.confidence: .*did you mean 95%\?"):
        loads(TEXT.format(confidence="95%"), overrides={"gate.confidence": "5%"})


def test_a_stored_document_with_another_confidence_still_reads() -> None:
    assert Gate.model_validate({"confidence": "5%"}).confidence == 0.05


@pytest.mark.parametrize(
    ("key", "decides"),
    [
        ("gate.confidence", True), ("gate.min_gain", True), ("gate.max_slice_loss", True), ("gate", True),
        ("register.promote", True), ("register.model", True), ("evaluate.slices", True), ("evaluate.metric", True),
        ("evaluate", True), ("evaluate.cluster", True), ("train", True), ("evaluate.holdout_days", False), ("train.epochs", False), ("stages.register.retries", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("promote", ["auto", "approve", "never"])
def test_a_run_may_change_its_gate_only_where_promotion_is_automatic(key: str, decides: bool, promote: Promote) -> None:
    assert gate_keys([key, "seed"]) == ((key,) if decides else ())
    if not decides or promote == "auto":
        refuse_gate_overrides({key: "x"}, promote, "shop")
        return
    with pytest.raises(ConfigurationError) as refused:
        refuse_gate_overrides({key: "x"}, promote, "shop")
    assert str(refused.value) == (
        f"--set {key}: register.promote of shop is {promote}, so a single run may not change its gate;"
        f" to do: change {key} in pipeline.yaml"
    )


@pytest.mark.parametrize(
    ("asked", "file", "allowed"),
    [
        (None, "never", True), ("never", "never", True), ("approve", "never", False), ("auto", "never", False),
        (None, "approve", True), ("never", "approve", True), ("approve", "approve", True), ("auto", "approve", False),
        ("auto", "auto", True), ("approve", "auto", True), ("never", "auto", True),
    ],
)  # fmt: skip
def test_a_run_asks_for_no_more_than_the_file_allows(asked: Promote | None, file: Promote, *, allowed: bool) -> None:
    if allowed:
        refuse_promotion(asked, file, "shop")
        return
    with pytest.raises(ConfigurationError, match=f"promote {asked}: register.promote of shop is {file}, and"):
        refuse_promotion(asked, file, "shop")
