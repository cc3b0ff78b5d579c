"""Asynchronous requests in a browser: a failed one is found, put back, and succeeds; and how the pages look."""

from datetime import timedelta

import pytest
from playwright.sync_api import Browser, expect

from controlplane.core import clock
from tests.browser.console import Console, every_look
from tests.system.stack import PLENTY, Stack, create_endpoint, in_service

ACCOUNT = "123456789012"
SOON_MS = 60_000
FAILS, WORKS = "http:400", "echo"
CALLS = 40


@pytest.fixture(scope="module")
def queue(local: Stack) -> Stack:
    """An asynchronous endpoint with two failed requests and one that was answered."""
    local.client("s3").create_bucket(Bucket="answers")
    create_endpoint(local, "queue", types=(PLENTY,), bucket="answers")
    in_service(local, "queue")
    runtime = local.client("sagemaker-runtime")
    for number, mode in enumerate((FAILS, FAILS, WORKS)):
        runtime.invoke_endpoint_async(
            EndpointName="queue", Body=b"hello", CustomAttributes=f"mode={mode}", InferenceId=f"request-{number}"
        )
    local.wait(lambda: _ended(local) == 3, 60)
    return local


def _ended(stack: Stack) -> int:
    with stack.database() as connection:
        row = connection.execute("SELECT count(*) FROM invocations_asyncinvocation WHERE ended_at IS NOT NULL").fetchone()
        return int(row[0]) if row else 0


def _calls_counted(stack: Stack, endpoint: str) -> float:
    now = clock.now()
    found = stack.client("cloudwatch").get_metric_statistics(
        Namespace="AWS/SageMaker",
        MetricName="Invocations",
        Dimensions=[{"Name": "EndpointName", "Value": endpoint}, {"Name": "VariantName", "Value": "main"}],
        StartTime=now - timedelta(hours=1),
        EndTime=now + timedelta(minutes=1),
        Period=3600,
        Statistics=["Sum"],
    )
    return sum(point["Sum"] for point in found["Datapoints"])


def request_path(stack: Stack, inference_id: str) -> str:
    """The page of a request."""
    with stack.database() as connection:
        query = "SELECT id FROM invocations_asyncinvocation WHERE inference_id = %s"
        row = connection.execute(query, [inference_id]).fetchone()
        assert row is not None
        return f"requests/{row[0]}/"


def test_how_the_pages_of_requests_look(browser: Browser, queue: Stack) -> None:
    caller = queue.client("sagemaker-runtime")
    create_endpoint(queue, "called", types=(PLENTY,))
    in_service(queue, "called")
    for _ in range(CALLS):
        caller.invoke_endpoint(EndpointName="called", Body=b"hello", CustomAttributes="mode=delay:0.01")
    queue.wait(lambda: _calls_counted(queue, "called") == CALLS, 60)  # the gateway writes its counts every second
    paths = {
        "requests": "requests/",
        "requests-none": "requests/?endpoint=nobody",
        "request-failed": request_path(queue, "request-0"),
        "request-done": request_path(queue, "request-2"),
        "request-redrive": request_path(queue, "request-0") + "redrive/",
        "dead-letters": "requests/dead/",
        "dead-letters-redrive": f"requests/dead/{ACCOUNT}/queue/redrive/?state=failed&kind=model_client_error",
        "endpoint-async": f"endpoints/{ACCOUNT}/queue/",
        "endpoint-called": f"endpoints/{ACCOUNT}/called/",
    }
    every_look(browser, queue, paths)


def test_a_failed_request_is_found_put_back_and_watched_to_its_end(browser: Browser, queue: Stack) -> None:
    with Console(browser, queue) as console:
        console.log_in()
        page = console.visit("requests/dead/")
        expect(page.locator("#classes")).to_contain_text("2 dead letters")
        console.visit("requests/?state=failed")
        page.get_by_role("link", name="request-1").click()
        expect(page.locator(".hr-timeline")).to_contain_text("The model answered")
        expect(page.locator("#story")).to_contain_text("The model refused it")
        page.get_by_role("link", name="Put it back").click()
        expect(page.locator(".hr-consequences")).to_contain_text("Its old failure object is removed first")
        page.get_by_role("button", name="Put it back").click()
        expect(page.locator("#main")).to_contain_text("The request goes back into the queue.")
        expect(page.locator(".hr-timeline")).to_contain_text("It was put back into the queue by operator admin")
        expect(page.locator("#story .hr-status")).to_contain_text("failed", timeout=SOON_MS)
        expect(page.locator(".hr-timeline li.is-failed")).to_have_count(2, timeout=SOON_MS)


def test_a_class_is_put_back_and_seen_to_go(browser: Browser, queue: Stack) -> None:
    with Console(browser, queue) as console:
        console.log_in()
        page = console.visit("requests/dead/")
        page.get_by_role("link", name="Put back…").first.click()
        expect(page.locator(".hr-consequences")).to_contain_text("requests would go back now")
        page.get_by_role("button", name="Put them back").click()
        expect(page.locator("#main")).to_contain_text("went back into the queue")
        expect(page.locator("#classes")).to_contain_text("queue")
