"""Readiness, and the report that drains wait for."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from tests.controlplane.gateway.held import held
from tests.controlplane.gateway.site import Answer, Site, wait_for


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


def said_after(site: Site, *beats: str) -> Answer:
    """What the gateway says of its readiness once these roles have just been seen."""
    for role in beats:
        beat(site, role)
    return site.request("GET", "/readyz")


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
    # A machine that stands still makes the beats too old, or an answer too late: then they are sent and asked for again.
    wait_for(lambda: said_after(site, "worker").json["database_and_workers"] == "no live scheduler")
    answer = wait_for(lambda: (got := said_after(site, "worker", "scheduler")).status == 200 and got)
    assert set(answer.json.values()) == {"ok"}


def test_a_missing_broker_or_api_is_named(new_site: Callable[..., Site]) -> None:
    site = new_site(HEADRACE_API_URL="http://127.0.0.1:1", HEADRACE_REDIS_URL="redis://127.0.0.1:1/0")
    answer = site.request("GET", "/readyz")
    assert answer.status == 503
    assert "cannot be reached" in answer.json["api"]
    assert answer.json["broker"] != "ok"


def test_a_drain_is_acknowledged_once_its_last_call_has_ended(new_site: Callable[..., Site]) -> None:
    site = new_site()
    with held(b"answer") as one, ThreadPoolExecutor(1) as pool:
        name = one.target.instance_id
        site.publish("drains", one.target)
        call = pool.submit(site.post, "/endpoints/drains/invocations", b"x")
        wait_for(lambda: (said := report(site)) and said[1] == {name: 1})
        site.publish("drains", replace(one.target, is_draining=True))
        wait_for(lambda: (said := report(site)) and said[0].get(name) == 1)
        one.allow()
        assert call.result().body == b"answer"
    said = wait_for(lambda: (now := report(site)) and now[0].get(name) == 0 and now)
    assert said[1] == {}
    wait_for(lambda: (now := report(site)) and 0 <= now[2] < 5)
    site.publish("drains")
    wait_for(lambda: (now := report(site)) and name not in now[0])


def test_a_gateway_that_stops_cleanly_leaves_no_report_behind(new_site: Callable[..., Site]) -> None:
    site = new_site()
    wait_for(lambda: report(site))
    site.stop()
    assert report(site) is None
    with site.database() as connection:
        pid = site.process.pid if site.process else 0
        left = connection.execute("SELECT 1 FROM observability_heartbeat WHERE process_id LIKE %s", [f"%:{pid}"]).fetchall()
    assert left == []
