"""The UI in a real browser: the green run, and a run started from the form."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from tasks.contracts import documents
from tests.airflow.conftest import PIPELINE, day
from tests.airflow.installation import Installation

CHROMIUM = Path("/usr/bin/chromium")
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


@pytest.fixture
def page(airflow: Installation) -> Iterator[Page]:
    """Airflow's UI on the DAG's page, logged in."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=_QUIET)
        opened = browser.new_page(viewport={"width": 1400, "height": 1000})
        opened.set_default_timeout(60_000)
        opened.goto(f"{airflow.services.airflow_url}/dags/{PIPELINE}")
        opened.fill("input[name=username]", airflow.services.user)
        opened.fill("input[name=password]", airflow.services.password)
        opened.keyboard.press("Enter")
        opened.wait_for_url(f"**/dags/{PIPELINE}**")
        yield opened
        browser.close()


def test_the_dag_is_green(page: Page, airflow: Installation, night: tuple[str, dict[str, str]]) -> None:
    run_id, _ = night
    page.goto(f"{airflow.services.airflow_url}/dags/{PIPELINE}/runs/{run_id}")
    expect(page.get_by_text("Success").first).to_be_visible(timeout=60_000)


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
    assert airflow.wait(PIPELINE, run_id)["run"] == "success"
    plan = airflow.plan(PIPELINE, run_id)
    assert (plan.kind, plan.data_date.isoformat()) == ("manual", day(1))
    assert plan.overrides == {"train.epochs": "2"}
    trained = airflow.outcomes(PIPELINE, run_id)["train"].result
    assert trained is not None
    assert len(documents.trained(trained).epochs) == 2
