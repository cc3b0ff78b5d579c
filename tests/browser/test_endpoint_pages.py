"""An endpoint from its page: a shortage watched while it lasts, then scaled, mended and deleted; and how it all looks."""

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import FIRST, PLENTY, SECOND, SimulatedStack
from tests.browser.console import Console, every_look
from tests.system.stack import create_endpoint, in_service

ACCOUNT = "123456789012"
SOON_MS = 60_000


@pytest.fixture
def console(browser: Browser, simulated: SimulatedStack):  # type: ignore[no-untyped-def]
    """The administrator's window on the simulated installation."""
    with Console(browser, simulated) as console:
        console.log_in()
        yield console


def page_of(name: str) -> str:
    """Where the page of an endpoint is."""
    return f"endpoints/{ACCOUNT}/{name}/"


def press(console: Console, name: str) -> None:
    """Press the button or link of this name."""
    console.page.locator("#content").get_by_role("link", name=name, exact=True).or_(
        console.page.locator("#content").get_by_role("button", name=name, exact=True)
    ).first.click()


def test_a_fallback_is_watched_live_from_its_first_refusal_on(simulated: SimulatedStack, console: Console) -> None:
    simulated.world.set_capacity(SECOND, 0)
    create_endpoint(simulated, "watched", types=(FIRST, SECOND))
    page = console.visit(page_of("watched"))
    expect(page.locator("#state")).to_contain_text("Creating")
    first, second = page.locator(".hr-ladder li").nth(0), page.locator(".hr-ladder li").nth(1)
    expect(first).to_contain_text("Last failure, capacity", timeout=SOON_MS)
    expect(second).to_contain_text("refused", timeout=SOON_MS)
    console.picture("endpoint-creating")
    page.evaluate("window.stayed = true")
    simulated.set_capacity(SECOND, 12)
    simulated.world.set_capacity(SECOND, 12)
    expect(page.locator("#state")).to_contain_text("In service", timeout=SOON_MS)
    expect(page.locator("#state")).to_contain_text(f"1 x {SECOND}", timeout=SOON_MS)
    assert page.evaluate("window.stayed"), "the page was never loaded again"


def test_an_endpoint_is_scaled_a_mark_cleared_and_the_endpoint_deleted(simulated: SimulatedStack, console: Console) -> None:
    create_endpoint(simulated, "journey", types=(FIRST, SECOND))
    in_service(simulated, "journey")
    page = console.visit(page_of("journey"))
    press(console, "Scale")
    page.fill("input[name=count-main]", "2")
    console.picture("action-scale")
    press(console, "Scale")
    expect(page.locator("#main")).to_contain_text("main: 1 → 2")
    expect(page.locator(".hr-status")).to_contain_text("2 of 2", timeout=SOON_MS)
    page.get_by_role("link", name="Clear the mark").first.click()
    console.picture("action-mark")
    press(console, "Clear the mark")
    expect(page.locator("#main")).to_contain_text("is cleared")
    press(console, "Delete")
    expect(page.locator(".hr-consequences")).to_contain_text("2 instances will be ended")
    console.picture("action-delete")
    press(console, "Leave it as it is")
    expect(page.locator(".hr-status")).to_contain_text("In service")
    press(console, "Delete")
    press(console, "Delete the endpoint")
    expect(page.locator("#content")).to_contain_text("no longer exists", timeout=SOON_MS)


def test_a_form_that_somebody_overtook_says_so(simulated: SimulatedStack, console: Console) -> None:
    create_endpoint(simulated, "overtaken", types=(PLENTY,))
    in_service(simulated, "overtaken")
    page = console.visit(page_of("overtaken") + "scale/")
    changes = [{"VariantName": "main", "DesiredInstanceCount": 3}]
    simulated.client("sagemaker").update_endpoint_weights_and_capacities(
        EndpointName="overtaken", DesiredWeightsAndCapacities=changes
    )
    in_service(simulated, "overtaken")
    page.fill("input[name=count-main]", "2")
    press(console, "Scale")
    expect(page.locator("#changed")).to_contain_text("1 → 3")
    console.complaints.errors.clear()  # the browser's own note of the status 409
    console.picture("action-changed")


def test_how_the_pages_of_endpoints_look(browser: Browser, simulated: SimulatedStack) -> None:
    tags = {"headrace:coming-home": "10m", "team": "search"}
    for name in ("looks", "moves"):
        create_endpoint(simulated, name, types=(FIRST, SECOND, PLENTY), count=3, tags=tags)
    in_service(simulated, "looks")
    paths = {
        "endpoints": "endpoints/",
        "endpoints-select": "endpoints/?select=1",
        "endpoint": page_of("looks"),
        "endpoint-rollout": page_of("moves"),
        "endpoint-update": page_of("looks") + "update/",
        "endpoint-pause": page_of("looks") + "pause-coming-home/",
        "endpoint-replace": page_of("looks") + f"instances/{instance_of(simulated, 'looks')}/replace/",
    }
    in_service(simulated, "moves")
    size = {"Type": "CAPACITY_PERCENT", "Value": 34}
    routing = {"Type": "CANARY", "WaitIntervalInSeconds": 600, "CanarySize": size}
    policy = {"BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": routing, "TerminationWaitInSeconds": 60}}
    simulated.client("sagemaker").update_endpoint(EndpointName="moves", EndpointConfigName="looks", DeploymentConfig=policy)
    simulated.wait(lambda: stage_of(simulated, "moves") == "baking")
    every_look(browser, simulated, paths)


def instance_of(stack: SimulatedStack, name: str) -> str:
    """An instance of this endpoint."""
    query = "SELECT i.id FROM fleet_instance i JOIN endpoints_endpoint e ON e.id = i.endpoint_id WHERE e.name = %s"
    with stack.database() as connection:
        row = connection.execute(query, [name]).fetchone()
        assert row is not None
        return str(row[0])


def stage_of(stack: SimulatedStack, name: str) -> str:
    """The stage of the endpoint's deployment, blank when there is none."""
    query = "SELECT d.stage FROM endpoints_deployment d JOIN endpoints_endpoint e ON e.id = d.endpoint_id WHERE e.name = %s"
    with stack.database() as connection:
        row = connection.execute(query, [name]).fetchone()
        return str(row[0]) if row else ""
