"""Gateways beside each other, and what a gateway that is told to stop does about the calls it has."""

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pytest

from controlplane.core.gateways import drain_seconds, gateways
from tests.controlplane.gateway.site import PATIENCE_SECONDS, Answer, Container, Site, wait_for

PATH = "/endpoints/stopping/invocations"
LONG = {"HEADRACE_INVOCATION_TIMEOUT_SECONDS": "90", "HEADRACE_STREAM_TIMEOUT_SECONDS": "90"}


def reported(site: Site) -> set[str]:
    """The gateways, by process id, that report of themselves."""
    query = "SELECT gateway_id FROM fleet_gatewayheartbeat WHERE seen_at > clock_timestamp() - interval '15 seconds'"
    with site.database() as connection:
        return {gateway_id.rpartition(":")[2] for (gateway_id,) in connection.execute(query).fetchall()}


@contextmanager
def slow_call(site: Site, one: Container, seconds: int, path: str = PATH) -> Iterator[Callable[[], Answer]]:
    """A call that takes so long and has reached its instance; gives what waits for its answer."""
    calls = len(one.received())
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(site.post, path, b"x", {"X-Amzn-SageMaker-Custom-Attributes": f"mode=delay:{seconds}"})
        wait_for(lambda: len(one.received()) > calls)
        yield running.result


@pytest.mark.parametrize("path", [PATH, f"{PATH}-response-stream"], ids=["a call", "a stream"])
def test_a_gateway_told_to_stop_finishes_the_calls_it_has(
    new_site: Callable[..., Site], containers: Callable[[str], Container], path: str
) -> None:
    site, one = new_site(HEADRACE_DRAIN_SECONDS="25", **LONG), containers("one")
    site.publish("stopping", one.target)
    with slow_call(site, one, 3, path) as result:
        site.stop()
        assert result().status == 200


@pytest.mark.parametrize("is_warm", [False, True], ids=["the ordinary way", "the express way"])
def test_a_call_that_takes_longer_than_the_drain_is_not_to_be_repeated(
    new_site: Callable[..., Site], containers: Callable[[str], Container], is_warm: bool
) -> None:
    site, one = new_site(HEADRACE_DRAIN_SECONDS="1", **LONG), containers("one")
    site.publish("stopping", one.target)
    if is_warm:
        wait_for(lambda: site.post(PATH, b"a connection to the instance is kept").status == 200)
    with slow_call(site, one, 60) as result:
        site.stop()
        answer = result()
        assert (answer.status, answer.headers["x-amzn-errortype"]) == (424, "ModelError")
        assert "stopped before the container had answered" in answer.json["Message"]


def test_the_drain_lasts_half_a_minute_unless_said_otherwise() -> None:
    assert drain_seconds({}) == drain_seconds({"HEADRACE_DRAIN_SECONDS": ""}) == 30
    assert gateways({}) == 1


def test_gateways_share_a_port_and_one_serves_when_another_is_gone(
    new_site: Callable[..., Site], containers: Callable[[str], Container]
) -> None:
    first = new_site(HEADRACE_GATEWAYS="2", **LONG)
    first.publish("stopping", containers("one").target)
    second = replace(first, process=None)
    second.start()
    try:
        pids = {str(each.process.pid) for each in (first, second) if each.process}
        wait_for(lambda: pids <= reported(first))
        assert {first.post(PATH, b"x").status for _ in range(20)} == {200}
        if first.process is not None:
            first.process.send_signal(signal.SIGKILL)
            first.process.wait(PATIENCE_SECONDS)
        assert {first.post(PATH, b"x").status for _ in range(20)} == {200}
    finally:
        second.stop()


def test_a_gateway_by_itself_has_its_port_for_itself(new_site: Callable[..., Site]) -> None:
    first = new_site()
    second = replace(first, process=None)
    second.start()
    assert second.process is not None
    assert second.process.wait(4 * PATIENCE_SECONDS) != 0
    assert "address already in use" in second.log()
