"""The console as somebody on call uses it: what is wrong, where capacity is, what happened, who may do what."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.chromium import context_of
from tests.browser.conftest import FIRST, PLENTY, SECOND, SimulatedStack
from tests.browser.console import Console, every_look
from tests.system.stack import create_endpoint, in_service

SOON_MS = 60_000
PAGES = {
    "front": "",
    "front-by-type": "?by=type",
    "capacity": "capacity/",
    "events": "events/",
    "orphans": "orphans/",
    "access-keys": "access-keys/",
    "tokens": "tokens/",
    "operators": "console/operator/",
    "new-operator": "console/operator/add/",
    "models": "catalog/model/",
    "instances": "fleet/instance/",
    "attempts": "fleet/launchattempt/",
    "nothing-here": "no/such/page/",
}


@pytest.fixture(scope="module")
def fleet(simulated: SimulatedStack) -> SimulatedStack:
    """An installation with something to see: three endpoints that serve and one that waits for capacity."""
    create_endpoint(simulated, "ranker", types=(PLENTY,), count=5)
    create_endpoint(simulated, "chat", types=(FIRST, SECOND), count=2)
    create_endpoint(simulated, "embeddings", types=(PLENTY, SECOND), count=3)
    create_endpoint(simulated, "starved", types=(FIRST,), count=1)
    for name in ("ranker", "chat", "embeddings"):
        in_service(simulated, name)
    return simulated


@pytest.fixture
def console(browser: Browser, fleet: SimulatedStack) -> Iterator[Console]:
    """The administrator's window."""
    with Console(browser, fleet) as console:
        console.log_in()
        yield console


def test_the_front_page_changes_by_itself_and_keeps_its_place(fleet: SimulatedStack, console: Console) -> None:
    page = console.visit("")
    expect(page.locator(".hr-problem").filter(has_text="starved waits for capacity")).to_be_visible(timeout=SOON_MS)
    expect(page.locator("#fleet-comb figure").filter(has_text="ranker").locator("use")).to_have_count(5)
    page.evaluate("window.stayed = true; document.querySelector('#fleet-latest').scrollIntoView()")
    before = page.evaluate("window.scrollY")
    fleet.world.set_capacity(FIRST, 3)
    _clear_marks(fleet)
    expect(page.locator("#fleet-comb figure").filter(has_text="starved").locator("use")).to_have_count(1, timeout=SOON_MS)
    expect(page.locator(".hr-problem").filter(has_text="starved")).to_have_count(0, timeout=SOON_MS)
    assert page.evaluate("window.stayed"), "the page was loaded again"
    assert abs(page.evaluate("window.scrollY") - before) < 400
    expect(page.locator("#fleet-history canvas")).to_be_visible()
    fleet.world.set_capacity(FIRST, 0)


def _clear_marks(stack: SimulatedStack) -> None:
    with stack.database() as connection:
        connection.execute("DELETE FROM fleet_capacitymark")


def test_a_cell_tells_its_instance_and_leads_to_its_endpoint(console: Console) -> None:
    page = console.visit("")
    cell = page.locator("#fleet-comb figure").filter(has_text="chat").locator("a use").first
    assert "ml.g4dn.xlarge" in (cell.locator("title").text_content() or "")
    cell.click()
    page.wait_for_url("**/endpoints/*/chat/")


def test_a_shortage_is_rehearsed_and_its_mark_cleared(fleet: SimulatedStack, console: Console) -> None:
    page = console.visit("capacity/")
    page.fill("input[name=instance_type]", PLENTY)
    page.fill("input[name=slots]", "40")
    page.get_by_role("button", name="Set capacity").click()
    expect(page.locator("#main")).to_contain_text(f"{PLENTY} is to have 40 slots")
    row = page.locator(".hr-board tr").filter(has_text=PLENTY)
    expect(row).to_contain_text("set to 40")
    expect(row).not_to_contain_text("being told", timeout=SOON_MS)
    create_endpoint(fleet, "thirsty", types=(FIRST, PLENTY), count=1)
    marked = page.locator("#capacity-board tr").filter(has_text="Clear mark").filter(has_text=FIRST)
    expect(marked.first).to_be_visible(timeout=SOON_MS)
    in_service(fleet, "thirsty")
    console.visit("capacity/")  # the search is over: all marks that it left are on this page
    count = marked.count()
    marked.first.get_by_role("button", name="Clear mark").click()
    expect(page.locator("#main")).to_contain_text("The mark is cleared")
    expect(page.locator("#capacity-board tr").filter(has_text="Clear mark").filter(has_text=FIRST)).to_have_count(count - 1)
    page = console.visit("events/?reason=MarkForgotten")
    expect(page.locator("#events-list")).to_contain_text("operator admin")


def test_events_come_by_themselves_and_are_filtered(fleet: SimulatedStack, console: Console) -> None:
    page = console.visit("events/?subject=newcomer")
    expect(page.locator("#events-list")).to_contain_text("No event")
    create_endpoint(fleet, "newcomer", types=(PLENTY,), count=1)
    expect(page.locator("#events-list tbody tr").first).to_be_visible(timeout=SOON_MS)
    in_service(fleet, "newcomer")
    page.select_option("select[name=reason]", "InService")
    page.wait_for_url("**reason=InService**")
    expect(page.locator("#events-list tbody tr")).to_have_count(1)


def test_a_viewer_who_was_just_made_looks_and_changes_nothing(
    browser: Browser, fleet: SimulatedStack, console: Console
) -> None:
    page = console.visit("console/operator/add/")
    page.fill("input[name=username]", "vera")
    page.select_option("select[name=role]", "viewer")
    for name in ("password1", "password2"):
        page.fill(f"input[name={name}]", "a-good-passphrase")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#main")).to_contain_text("vera")
    with Console(browser, fleet) as viewer:
        viewer.log_in("vera", "a-good-passphrase")
        seen = viewer.visit("capacity/")
        expect(seen.locator("#nav-sidebar")).not_to_contain_text("Access keys")
        assert seen.get_by_role("button", name="Clear mark").count() == 0
        assert seen.get_by_role("button", name="Set capacity").count() == 0


def test_a_keys_secret_is_shown_once(console: Console) -> None:
    page = console.visit("access-keys/")
    page.get_by_role("button", name="Make an access key").click()
    expect(page.locator(".hr-secret")).to_contain_text("AWS_SECRET_ACCESS_KEY=")
    secret = page.locator(".hr-secret").inner_text().split("AWS_SECRET_ACCESS_KEY=")[1].strip()
    assert secret not in console.visit("access-keys/").content()


def test_jumping_to_an_endpoint_by_its_name(console: Console) -> None:
    page = console.visit("")
    page.keyboard.press("Control+k")
    page.locator("#search-input-command").type("rank", delay=20)
    page.locator("#command-results a").filter(has_text="ranker").click(timeout=SOON_MS)
    page.wait_for_url("**/endpoints/*/ranker/")


def test_the_page_is_whole_without_scripts(browser: Browser, fleet: SimulatedStack, console: Console) -> None:
    context = browser.new_context(java_script_enabled=False, storage_state=console.context.storage_state())
    page = context.new_page()
    page.goto(f"{fleet.url}/admin/")
    expect(page.locator("#fleet-comb figure").filter(has_text="ranker")).to_be_visible()
    expect(page.get_by_text("What happened last")).to_be_visible()
    context.close()


def test_dark_is_what_the_system_says_or_what_one_chooses(browser: Browser, fleet: SimulatedStack) -> None:
    for theme, is_dark in (("light", False), ("dark", True)):
        context = context_of(browser, theme=theme)
        page = context.new_page()
        page.goto(f"{fleet.url}/admin/login/")
        page.wait_for_selector("input[name=username]")
        assert page.evaluate("document.documentElement.classList.contains('dark')") is is_dark
        context.close()


@pytest.mark.timeout(600)
def test_how_every_page_looks(browser: Browser, fleet: SimulatedStack) -> None:
    every_look(browser, fleet, PAGES)
