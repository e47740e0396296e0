"""The page of a profile: what training waits for, in one sentence with its remedy, and the shares behind it."""

from pathlib import Path

from markupsafe import Markup

from ratchet.contracts.quantities import percent
from ratchet.contracts.request import StageRequest
from ratchet.pages import template
from ratchet.pages.svg import bar, svg
from tasks.train.profiling import CHECKPOINT, COPIES, OTHER, OTHERS, PHASES, TRACED, VALIDATION, Profile

_TEMPLATE = Path(__file__).with_name("profile.html")
_WIDTH, _HEIGHT = 420.0, 14.0
_NETWORK = ("forward", "backward")
_MEANINGS = {
    "reading rows": "rows of a batch are put together, in the memory of the host",
    "forward": "the network computes its outputs",
    "loss": "the loss of the outputs",
    "backward": "the gradients",
    "update": "gradients are cut, and the weights change",
    OTHERS: "this process waits for the gradients of others, and adds them",
    CHECKPOINT: "the loop waits for a copy of the state, or for the checkpoint before",
    "logging": "losses are read and checked, and a line is written",
    VALIDATION: "the validation days are scored and measured",
    COPIES: "between host and GPU, of the traced steps",
    OTHER: "between the phases: the loop itself, in Python",
}
_ANSWERS = {
    "network": (
        "It computes: {share} of the time is the forward and backward pass of the network",
        "make train.model smaller (hidden, cross_layers), raise resources.train.cpus, or train on a GPU",
    ),
    "reading rows": (
        "It waits for rows: reading them takes {share} of the time",
        "raise resources.train.memory, so that the rows stay in memory, or drop columns that do not help",
    ),
    "loss": (
        "It waits for the loss: that takes {share} of the time",
        "compute the loss with whole tensors, without a loop over rows or groups, and without .item()",
    ),
    "update": (
        "It waits for the update of the weights: that takes {share} of the time",
        "raise train.batch_size, or train.model.min_count, so that the tables of categories are smaller",
    ),
    OTHERS: (
        "It waits for other processes: to add up their gradients takes {share} of the time",
        "raise train.batch_size, so that each step has more to compute, or take fewer processes",
    ),
    CHECKPOINT: (
        "It waits for checkpoints: they take {share} of the time",
        "raise train.checkpoint.every and train.checkpoint.steps, or take a faster disk for the store",
    ),
    "logging": (
        "It waits for its log: that takes {share} of the time",
        "look at what reads the standard output of the stage: a line waits until it is read",
    ),
    VALIDATION: (
        "It waits for validation: that takes {share} of the time",
        "lower train.evaluations or train.valid_days, or make a metric of your own faster",
    ),
    COPIES: (
        "It waits for copies between host and GPU: they take {share} of the time",
        "raise train.batch_size, so that fewer and larger copies are made",
    ),
    OTHER: (
        "It waits for Python: {share} of the time is between the phases",
        "raise train.batch_size: each step has a fixed cost",
    ),
}


def answer(profile: Profile) -> str:
    """What the training waits for, and the remedy."""
    shares = {name: share for name, share in profile.shares.items() if name not in _NETWORK}
    shares["network"] = sum(profile.shares[name] for name in _NETWORK)
    largest = max(shares, key=lambda name: shares[name])
    cause, remedy = _ANSWERS[largest]
    return f"{cause.format(share=percent(shares[largest]))}; to make it faster, {remedy}."


def page(request: StageRequest, profile: Profile) -> str:
    """HTML that needs nothing else."""
    rows = [(name, _MEANINGS[name], profile.shares[name], _picture(name, profile.shares[name])) for name in PHASES]
    return template.render(
        _TEMPLATE, request=request, profile=profile, answer=answer(profile), rows=rows, traced=TRACED
    )


def _picture(name: str, share: float) -> Markup:
    drawn = [bar("track", 0, 0, _WIDTH, _HEIGHT), bar("today", 0, 0, min(share, 1.0) * _WIDTH, _HEIGHT)]
    return svg(_WIDTH, _HEIGHT, drawn, f"{name}: {percent(share)}")
