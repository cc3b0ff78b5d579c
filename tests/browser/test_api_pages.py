"""The resource paths in a browser: what an operator who is logged in reads and does there, with the session alone."""

import urllib.error
import urllib.request

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import SECOND, SimulatedStack
from tests.browser.console import Console, every_look

PAGES = {
    "api-index": "../api/v1/",
    "api-tokens": "../api/v1/tokens",
    "api-capacity": f"../api/v1/simulated-capacity/{SECOND}",
    "api-refusal": "../api/v1/orphans/0",
}


def status_with(stack: SimulatedStack, secret: str) -> int:
    """What a program that holds this token is answered."""
    headers = {"Authorization": f"Bearer {secret}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{stack.url}/api/v1/endpoints", headers=headers)) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_a_token_is_made_by_hand_used_by_a_program_and_revoked(browser: Browser, simulated: SimulatedStack) -> None:
    with Console(browser, simulated) as console:
        console.log_in()
        page = console.visit("../api/v1/")
        page.click("a[href$='/api/v1/tokens']")
        page.fill("textarea[name=_content]", '{"Name": "by-hand", "Role": "viewer", "Days": 1}')
        page.click("form[method=POST] button")
        answer = page.locator(".response-info")
        expect(answer).to_contain_text("201 Created")
        expect(answer).to_contain_text('"CreatedBy": "operator admin"')
        secret, token = (answer.inner_text().split(f'"{name}": "')[1].split('"')[0] for name in ("Secret", "TokenId"))
        assert status_with(simulated, secret) == 200
        console.visit(f"../api/v1/tokens/{token}")
        page.click("button[data-target='#deleteModal']")
        page.click("#deleteModal form button")
        expect(answer).to_contain_text("204 No Content")
        assert status_with(simulated, secret) == 401


def test_a_shortage_is_rehearsed_by_hand(browser: Browser, simulated: SimulatedStack) -> None:
    with Console(browser, simulated) as console:
        console.log_in()
        page = console.visit(f"../api/v1/simulated-capacity/{SECOND}")
        page.fill("textarea[name=_content]", '{"Slots": 11}')
        page.click("form[data-method=PUT] button")
        answer = page.locator(".response-info")
        expect(answer).to_contain_text("202 Accepted")
        simulated.wait(lambda: "null" not in _applied(console), 30)
        expect(answer).to_contain_text('"Slots": 11')


@pytest.mark.parametrize("path", ["../api/v1/", "../api/v1/endpoints"])
def test_a_stranger_s_browser_gets_no_page(browser: Browser, simulated: SimulatedStack, path: str) -> None:
    with Console(browser, simulated) as console:
        page = console.visit(path)
        expect(page.locator("body")).to_contain_text("MissingAuthenticationTokenException")
        expect(page.locator("h1")).to_have_count(0)


def test_every_page_in_every_look(browser: Browser, simulated: SimulatedStack) -> None:
    every_look(browser, simulated, PAGES)


def _applied(console: Console) -> str:
    """The line that says when the provider was told."""
    page = console.visit(f"../api/v1/simulated-capacity/{SECOND}")
    return next(line for line in page.locator(".response-info").inner_text().splitlines() if "AppliedAt" in line)
