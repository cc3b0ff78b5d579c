"""The pages of the OpenAPI document in a browser: they work on this host alone, and an operator can try things there."""

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, Response, expect

from tests.browser.chromium import context_of, picture
from tests.browser.conftest import SimulatedStack
from tests.browser.console import Console


def watched(page: Page) -> tuple[list[str], list[str]]:
    """(errors of scripts, answers of other hosts), growing as the page goes on."""
    errors: list[str] = []
    strangers: list[str] = []

    def read(response: Response) -> None:
        if urlsplit(response.url).hostname not in ("127.0.0.1", None):
            strangers.append(response.url)

    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("response", read)
    return errors, strangers


@pytest.mark.parametrize(("path", "heading"), [("docs", ".info .title"), ("redoc", "h1")])
def test_a_page_shows_the_document_to_anybody(browser: Browser, simulated: SimulatedStack, path: str, heading: str) -> None:
    context = context_of(browser)
    page = context.new_page()
    errors, strangers = watched(page)
    page.goto(f"{simulated.url}/api/v1/{path}/")
    expect(page.locator(heading).first).to_contain_text("Headrace")
    expect(page.get_by_text("endpoint-configs").first).to_be_visible()
    picture(page, f"openapi-{path}")
    assert (errors, strangers) == ([], [])
    context.close()


def test_an_operator_tries_a_change_with_the_session_of_the_console(browser: Browser, simulated: SimulatedStack) -> None:
    with Console(browser, simulated) as console:
        console.log_in()
        page = console.page
        page.goto(f"{simulated.url}/api/v1/docs/#/models/CreateModel")
        operation = page.locator("#operations-models-CreateModel")
        operation.locator(".try-out__btn").click()
        operation.locator("textarea").fill('{"ModelName": "tried", "PrimaryContainer": {"Image": "headrace/reference"}}')
        operation.locator("button.execute").click()
        expect(operation.locator(".live-responses-table tr.response .response-col_status").first).to_contain_text("201")
    simulated.client("sagemaker").delete_model(ModelName="tried")
