"""Readiness, and the report that drains wait for."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from controlplane.routing.table import Target
from tests.controlplane.gateway.site import Container, Site, wait_for


def report(site: Site) -> tuple[dict[str, int], dict[str, int], float] | None:
    """What the gateway has last reported: draining instances, calls under way, the age of its table."""
    with site.database() as connection:
        row: tuple[Any, ...] | None = connection.execute(
            "SELECT draining, in_flight, table_age_seconds FROM fleet_gatewayheartbeat"
            " WHERE gateway_id LIKE %s AND seen_at > clock_timestamp() - interval '3 s'",
            [f"%:{site.process.pid if site.process else 0}"],
        ).fetchone()
    return None if row is None else (row[0], row[1], row[2])


def beat(site: Site, role: str) -> None:
    with site.database() as connection:
        connection.execute(
            "INSERT INTO observability_heartbeat (role, process_id, seen_at) VALUES (%s, 'tests', clock_timestamp())"
            " ON CONFLICT (role, process_id) DO UPDATE SET seen_at = excluded.seen_at",
            [role],
        )


def test_the_process_is_healthy_whatever_the_rest_does(site: Site) -> None:
    answer = site.request("GET", "/healthz")
    assert (answer.status, answer.json) == (200, {"status": "ok"})
    assert answer.headers["x-amzn-requestid"]


def test_ready_means_that_every_part_is_there(site: Site) -> None:
    with site.database() as connection:
        connection.execute("DELETE FROM observability_heartbeat WHERE role IN ('worker', 'scheduler')")
    missing = "no live worker and no live scheduler"
    answer = wait_for(lambda: (got := site.request("GET", "/readyz")).json["database_and_workers"] == missing and got)
    assert (answer.status, answer.json["routing_table"]) == (503, "ok")
    beat(site, "worker")
    assert site.request("GET", "/readyz").json["database_and_workers"] == "no live scheduler"
    beat(site, "scheduler")
    answer = site.request("GET", "/readyz")
    assert (answer.status, set(answer.json.values())) == (200, {"ok"})


def test_a_missing_broker_or_api_is_named(new_site: Callable[..., Site]) -> None:
    site = new_site(HEADRACE_API_URL="http://127.0.0.1:1", HEADRACE_REDIS_URL="redis://127.0.0.1:1/0")
    answer = site.request("GET", "/readyz")
    assert answer.status == 503
    assert "cannot be reached" in answer.json["api"]
    assert answer.json["broker"] != "ok"


def test_a_drain_is_acknowledged_once_its_last_call_has_ended(
    new_site: Callable[..., Site], containers: Callable[[str], Container]
) -> None:
    site, one = new_site(HEADRACE_INVOCATION_TIMEOUT_SECONDS="30"), containers("one")
    site.publish("drains", one.target)
    headers = {"X-Amzn-SageMaker-Custom-Attributes": "mode=delay:4"}
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(site.post, "/endpoints/drains/invocations", b"x", headers)
        wait_for(lambda: (said := report(site)) and said[1] == {one.instance_id: 1})
        site.publish("drains", Target(one.instance_id, one.address, "t", True))
        wait_for(lambda: (said := report(site)) and said[0].get(one.instance_id) == 1)
        assert call.result().body == b"x"
    said = wait_for(lambda: (now := report(site)) and now[0].get(one.instance_id) == 0 and now)
    assert said[1] == {}
    assert 0 <= said[2] < 5
    site.publish("drains")
    wait_for(lambda: (now := report(site)) and one.instance_id not in now[0])


def test_a_gateway_that_stops_cleanly_leaves_no_report_behind(new_site: Callable[..., Site]) -> None:
    site = new_site()
    wait_for(lambda: report(site))
    site.stop()
    assert report(site) is None
    with site.database() as connection:
        pid = site.process.pid if site.process else 0
        left = connection.execute("SELECT 1 FROM observability_heartbeat WHERE process_id LIKE %s", [f"%:{pid}"]).fetchall()
    assert left == []
