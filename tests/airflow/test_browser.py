"""The UI in a real browser: the green run, and a run started from the form."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from ratchet.contracts import summaries
from ratchet.contracts.stages import REGULAR
from ratchet.store.ledger import champion
from ratchet.store.opening import open_store
from tests.airflow.conftest import day, pipeline_file
from tests.airflow.installation import Installation
from tests.airflow.shared import PIPELINE
from tests.plugins.webhook import Webhook

CHROMIUM = Path("/usr/bin/chromium")
ASKING = "asking-ranking"
TASKS = ("plan", *REGULAR)
NOWHERE = "about:blank"
"""Where a page goes while a run goes on: one of Airflow's draws all the time, which takes a third of a core."""
pytestmark = [
    pytest.mark.airflow,
    pytest.mark.docker,
    pytest.mark.browser,
    pytest.mark.heavy,
    pytest.mark.xdist_group("airflow"),
    pytest.mark.skipif(not CHROMIUM.exists(), reason="Chromium is not installed"),
]
_QUIET = (
    "--no-sandbox",  # a container's root may not make one
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One that runs, and has no page open yet."""
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=_QUIET)
        yield launched
        launched.close()


@pytest.fixture
def page(airflow: Installation, browser: Browser) -> Iterator[Page]:
    """Airflow's UI on the DAG's page, logged in, with nothing left of another test's."""
    opened = browser.new_page(viewport={"width": 1400, "height": 1000})
    opened.set_default_timeout(60_000)
    opened.goto(f"{airflow.services.airflow_url}/dags/{PIPELINE}")
    opened.fill("input[name=username]", airflow.services.user)
    opened.fill("input[name=password]", airflow.services.password)
    opened.keyboard.press("Enter")
    opened.wait_for_url(f"**/dags/{PIPELINE}**")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def asking(airflow: Installation, night: tuple[str, dict[str, str]]) -> str:
    """The scheduled run of a pipeline whose models wait for a person's word."""
    assert night[1]["run"] == "success"
    text = pipeline_file(airflow, PIPELINE).read_text(encoding="utf-8")
    airflow.add(ASKING, text.replace(PIPELINE, ASKING).replace("promote: auto", "promote: approve"))
    return airflow.night(ASKING)


def test_the_dag_is_green(page: Page, airflow: Installation, night: tuple[str, dict[str, str]]) -> None:
    run_id, _ = night
    page.goto(f"{airflow.services.airflow_url}/dags/{PIPELINE}/runs/{run_id}")
    run = page.get_by_test_id("header-card").filter(has=page.get_by_role("heading", name=run_id))
    expect(run.get_by_test_id("state-badge")).to_have_text("Success", timeout=60_000)
    tasks = page.get_by_test_id("table-list").get_by_role("row").filter(has=page.get_by_role("link"))
    expect(tasks).to_have_count(len(TASKS), timeout=60_000)
    for task in TASKS:
        row = tasks.filter(has=page.get_by_role("link", name=task, exact=True))
        expect(row.get_by_test_id("table-cell-state")).to_have_text("Success")


def test_a_run_from_the_form_does_what_the_form_says(
    page: Page, airflow: Installation, night: tuple[str, dict[str, str]]
) -> None:
    assert night[1]["run"] == "success"
    before = {run["dag_run_id"] for run in airflow.api.runs(PIPELINE)}
    page.get_by_role("button", name="Trigger").first.click()
    dialog = page.get_by_role("dialog")
    dialog.locator("#element_date").fill(day(1))
    dialog.locator("input[name=element_epochs]").fill("2")
    dialog.locator("input[name=element_epochs]").press("Tab")
    dialog.get_by_role("button", name="Trigger", exact=True).click()
    run_id = airflow.until(
        lambda: next((run["dag_run_id"] for run in airflow.api.runs(PIPELINE) if run["dag_run_id"] not in before), None)
    )
    page.goto(NOWHERE)
    assert airflow.wait(PIPELINE, run_id)["run"] == "success"
    plan = airflow.plan(PIPELINE, run_id)
    assert (plan.kind, plan.data_date.isoformat()) == ("manual", day(1))
    assert plan.overrides == {"train.epochs": "2"}
    trained = airflow.outcomes(PIPELINE, run_id)["train"].result
    assert trained is not None
    assert summaries.trained(trained).evaluations[-1].epoch == pytest.approx(2, abs=0.2)


def test_a_question_that_nobody_answers_is_a_no(airflow: Installation, asking: str, webhook: Webhook) -> None:
    question(airflow, webhook, asking)
    airflow.lapse(asking, "approve")
    assert settled(airflow, asking)["register"] == "skipped"
    assert "Cause: nobody approved it in time" in airflow.until(lambda: refusals(webhook))[-1]


def test_a_model_goes_in_when_a_person_clicks_approve_and_not_when_they_click_reject(
    page: Page, airflow: Installation, asking: str, webhook: Webhook
) -> None:
    store, before = open_store(str(airflow.services.store)), len(refusals(webhook))

    def answer(word: str) -> str:
        run_id = airflow.trigger(ASKING, date=airflow.plan(ASKING, asking).data_date.isoformat())
        page.goto(question(airflow, webhook, run_id))
        expect(page.get_by_text("a constant scorer has").first).to_be_visible(timeout=60_000)
        with page.expect_response(lambda response: response.request.method == "PATCH") as answered:
            page.get_by_role("button", name=word, exact=True).click()
        assert answered.value.ok
        page.goto(NOWHERE)
        return run_id

    assert settled(airflow, answer("Reject"))["register"] == "skipped"
    assert champion(store, ASKING) is None
    (no,) = airflow.until(lambda: refusals(webhook)[before:])
    assert f"Cause: {airflow.services.user} rejected it" in no

    approved = answer("Approve")
    assert settled(airflow, approved)["register"] == "success"
    live = champion(store, ASKING)
    assert live is not None
    assert live.run_id == airflow.plan(ASKING, approved).run_id


def question(airflow: Installation, webhook: Webhook, run_id: str) -> str:
    """The page that an alert says where a person is asked.

    Airflow takes an answer that comes before the process that asked has ended for a lost task, and asks again.
    """
    asked = rf"approve or reject at (\S+/runs/{re.escape(quote(run_id))}/tasks/approve/required_actions): .*until"
    (there,) = airflow.until(
        lambda: [found[1] for alert in list(webhook.received) if (found := re.search(asked, alert["message"]))]
    )
    ended = f"task_id='approve', run_id='{run_id}'"
    scheduler = airflow.home / "scheduler.log"

    def has_asked() -> bool | None:
        lines = scheduler.read_text(errors="replace").splitlines()
        return any("Received executor event" in line and ended in line for line in lines) or None

    airflow.until(has_asked)
    return str(there)


def settled(airflow: Installation, run_id: str) -> dict[str, str]:
    """The states of a run's tasks once the question has its answer, whichever that is."""
    states = airflow.wait(ASKING, run_id)
    assert (states["run"], states["approve"], states["report"]) == ("success", "success", "success")
    return states


def refusals(webhook: Webhook) -> list[str]:
    """The alerts about models that were not promoted."""
    titles = (ASKING, "did not promote")
    return [alert["message"] for alert in list(webhook.received) if all(word in alert["title"] for word in titles)]
