"""The page of a profile, as the train stage publishes it, and in a real browser."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from ratchet.contracts import summaries
from ratchet.contracts.errors import Preempted
from ratchet.contracts.result import StageResult
from ratchet.store.artifacts import read_bytes
from tests.train.test_stage import Trainings, prepare, stopped_after

__all__ = ["stopped_after"]
CHROMIUM = Path("/usr/bin/chromium")
SLOW = """
import time
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

def Mine(inputs):
    return nn.Linear(inputs, 1)

def loss(scores, labels, weights, groups):
    end = time.perf_counter() + 0.01
    while time.perf_counter() < end:
        pass
    return binary_cross_entropy_with_logits(scores, labels)
"""


def profiled(folder: Path) -> Trainings:
    trainings = prepare(folder, "binary", model=SLOW)
    trainings.settings(model={"kind": "model.py:Mine", "embedding_dim": 4}, profile=True)
    return trainings


def test_the_stage_publishes_the_page_and_the_trace_and_its_log_has_the_sentence(tmp_path: Path) -> None:
    trainings = profiled(tmp_path)
    made = trainings.train().result
    (event,) = trainings.events("profile")
    store = trainings.nights.store
    page = read_bytes(store, made.outputs["profile.html"]).decode()
    assert event["message"].startswith("It waits for the loss: that takes ")
    assert event["message"].endswith(f"The page is {store.uri}/{made.outputs['profile.html'].key}")
    assert event["message"].partition(" The page")[0] in page
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")
    traced = json.loads(gzip.decompress(read_bytes(store, made.outputs["profile-trace.json.gz"])))
    assert any(each["name"] == "loss" for each in traced["traceEvents"])
    trainings.settings(profile=False)
    plain = trainings.train("1").result
    assert summaries.trained(plain).digest == summaries.trained(made).digest
    assert plain.content == made.content
    assert not [name for name in plain.outputs if name.startswith("profile")]


def test_a_retry_with_a_profile_goes_on_from_the_checkpoint(tmp_path: Path, stopped_after: Any) -> None:
    trainings = profiled(tmp_path)
    trainings.settings(profile=False)
    stopped_after(20)

    def train(profile: str) -> StageResult:
        parts = {"run": "0", "config.train.profile": profile}
        return trainings.nights.run("train", inputs=trainings.inputs, parts=parts).result

    with pytest.raises(Preempted):
        train("false")
    stopped_after(None)
    trainings.settings(profile=True)
    made = train("true")
    assert summaries.trained(made).resumed_from == 21
    assert "profile.html" in made.outputs


def test_a_training_that_is_too_short_says_that_it_has_no_profile(tmp_path: Path) -> None:
    trainings = profiled(tmp_path)
    trainings.settings(steps=6)
    assert "profile.html" not in trainings.train().result.outputs
    assert "train.profile: training ended within 10 steps, so there is no profile" in [
        event["message"] for event in trainings.events("warning")
    ]


@pytest.fixture
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield launched
        launched.close()


@pytest.mark.browser
@pytest.mark.skipif(not CHROMIUM.exists(), reason="Chromium is not installed")
def test_a_browser_shows_the_answer_and_asks_for_nothing_else(tmp_path: Path, browser: Browser) -> None:
    trainings = profiled(tmp_path)
    made = trainings.train().result
    place = trainings.nights.store.local(made.outputs["profile.html"].key)
    assert place is not None
    opened = browser.new_page(viewport={"width": 1200, "height": 900})
    asked, said = list[str](), list[str]()
    opened.on("request", lambda request: asked.append(request.url))
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    copy = tmp_path / "profile.html"
    copy.write_bytes(place.read_bytes())
    opened.goto(copy.as_uri())
    assert opened.title().endswith("profile")
    assert opened.locator("h1").inner_text() == "What is it waiting for?"
    assert opened.locator(".lead").inner_text().startswith("It waits for the loss:")
    row = opened.locator("tr", has=opened.get_by_role("cell", name="loss", exact=True))
    bars = row.locator("rect")
    widths = [bars.nth(number).bounding_box() for number in range(2)]
    assert widths[0] is not None
    assert widths[1] is not None
    share = float(row.locator("td").nth(1).inner_text().removesuffix("%").strip()) / 100
    assert share > 0.4
    assert widths[1]["width"] / widths[0]["width"] == pytest.approx(share, abs=0.03)
    opened.set_viewport_size({"width": 390, "height": 800})
    assert opened.evaluate("document.documentElement.scrollWidth") <= 390
    assert (asked, said) == ([copy.as_uri()], [])
    opened.close()
