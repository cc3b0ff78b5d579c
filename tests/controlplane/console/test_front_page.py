"""The front page tells what is wrong, what runs and what it costs, with as many queries however much there is."""

import json
import re
from datetime import timedelta
from uuid import UUID

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from controlplane.auth.roles import Role
from controlplane.core.ids import new_uuid
from controlplane.endpoints.models import Endpoint
from controlplane.fleet.models import CapacityMark, Instance
from controlplane.observability.heartbeats import beat
from controlplane.orphans.models import Orphan, Sweep
from tests.controlplane.console.people import endpoint_path, logged_in, text_of
from tests.controlplane.invocations.letters import letter
from tests.workers.plane import FIRST, SECOND, THIRD, Plane
from workers import offers
from workers.metrics import backlog

QUERIES = 26
"""Of the whole page, login and session included."""

PART_QUERIES = {"now": 20, "comb": 5, "history": 6, "waits": 4, "spend": 4, "latest": 4}


@pytest.fixture
def client(plane: Plane) -> Client:
    """Somebody on call, in front of an installation whose processes are alive."""
    for role in ("scheduler", "worker", "gateway"):
        beat(role, plane.clock.now())
    return logged_in(Role.VIEWER)


def alive(plane: Plane) -> None:
    """Time has passed; the processes have gone on."""
    for role in ("scheduler", "worker", "gateway"):
        beat(role, plane.clock.now())


def queries_of(client: Client, path: str) -> int:
    """How many queries a page takes."""
    with CaptureQueriesContext(connection) as queries:
        assert client.get(path).status_code == 200
    return len(queries)


def test_an_empty_installation_says_what_to_do_next(client: Client) -> None:
    said = text_of(client.get("/admin/"))
    assert "Nothing is wrong" in said
    assert "Create an endpoint with any AWS client" in said


def test_a_healthy_fleet_shows_every_instance_and_its_cost(plane: Plane, client: Client) -> None:
    plane.create("chat", types=(THIRD,), count=3)
    plane.settle()
    alive(plane)
    page = client.get("/admin/").content.decode()
    assert page.count('class="stage-ready"><title>chat: ml.m5.large') == 3
    assert f'href="{endpoint_path("chat")}"' in page
    said = text_of(client.get("/admin/"))
    assert "3 / 3 instances ready / live" in said
    assert "Nothing is wrong" in said
    assert "$0.29 an hour, as it runs now" in said


def test_instances_are_grouped_by_type_on_request(plane: Plane, client: Client) -> None:
    plane.create("one", types=(THIRD,), count=2)
    plane.create("two", types=(THIRD,), count=1)
    plane.settle()
    by_endpoint, by_type = (client.get(f"/admin/front/comb/{query}").content.decode() for query in ("", "?by=type"))
    assert by_endpoint.count("<figure>") == 2
    assert by_type.count("<figure>") == 1
    assert "3 instances of ml.m5.large" in by_type


def test_an_endpoint_without_capacity_is_a_problem_with_a_link(plane: Plane, client: Client) -> None:
    plane.world.set_capacity(FIRST, 0)
    plane.create("chat", types=(FIRST,))
    plane.settle()
    alive(plane)
    answer = client.get("/admin/front/now/")
    assert "chat waits for capacity:" in text_of(answer)
    assert endpoint_path("chat") in answer.content.decode()


def test_a_fleet_that_could_not_be_replaced_is_told_before_it_has_to_be(plane: Plane, client: Client) -> None:
    plane.create("chat", types=(THIRD,))
    plane.settle()
    offers.tell(plane.clock.now())
    now = plane.clock.now()
    where = {"provider": "simulated", "region": settings.HEADRACE.region, "zone": "simulated-a", "seen_by": "other"}
    kind = {"kind": "capacity", "message": "None left.", "marked_at": now, "until": now + timedelta(minutes=5)}
    CapacityMark.objects.create(instance_type=THIRD, **where, **kind)
    CapacityMark.objects.create(instance_type="ml.of.nobody", **where, **kind)
    alive(plane)
    assert "chat could not replace an instance now: every type in question is marked (ml.m5.large)." in text_of(
        client.get("/admin/")
    )


def test_ends_that_do_not_come_orphans_and_a_held_sweep_are_told(plane: Plane, client: Client) -> None:
    plane.create("chat", types=(THIRD,), count=2)
    plane.settle()
    Instance.objects.update(stage="terminating", stage_since=plane.clock.now() - timedelta(minutes=20))
    facts = {
        "provider": "simulated",
        "launched_at": plane.clock.now(),
        "token": "t",
        "zone": "z",
        "seen_at": plane.clock.now(),
    }
    since = {"found_at": plane.clock.now(), "state_since": plane.clock.now()}
    Orphan.objects.create(provider_id="o-1", instance_type=SECOND, hourly_price=0.5, **facts, **since)
    alive(plane)
    said = text_of(client.get("/admin/front/now/"))
    assert "2 instances should have ended by now" in said
    assert "1 instance runs and no endpoint has it: $0.50 an hour." in said
    assert client.get("/admin/front/comb/").content.decode().count('class="stage-overdue"><title>') == 2
    Sweep.objects.update_or_create(pk=1, defaults={"held_since": plane.clock.now(), "held_why": "the database is older"})
    assert "The orphan sweep is held back and ends nothing" in text_of(client.get("/admin/front/now/"))


def test_what_waits_is_told_as_the_scheduler_measured_it(plane: Plane, client: Client) -> None:
    plane.create("batch", types=(THIRD,), asynchronous=True)
    plane.settle()
    row = plane_endpoint("batch")
    for second in range(3):
        letter(row, plane.clock.now() - timedelta(minutes=20, seconds=second), "queued")
    backlog.sample(plane.clock.now())
    alive(plane)
    assert "3 requests wait at batch, the oldest for 20 min." in text_of(client.get("/admin/front/now/"))
    assert re.search(r"batch\s+3\s+20 min", text_of(client.get("/admin/front/waits/")))
    assert "3 async requests waiting or running" in text_of(client.get("/admin/front/now/"))


def test_failed_requests_of_the_last_hour_are_counted_by_class(plane: Plane, client: Client) -> None:
    plane.create("batch", types=(THIRD,), asynchronous=True)
    row = plane_endpoint("batch")
    for _ in range(3):
        letter(row, plane.clock.now(), "failed", failure_kind="timeout")
    letter(
        row,
        plane.clock.now() - timedelta(hours=3),
        "failed",
        failure_kind="timeout",
        ended_at=plane.clock.now() - timedelta(hours=2),
    )
    assert "3 requests of batch failed within the last hour (timeout)." in text_of(client.get("/admin/front/now/"))


def test_a_part_that_was_seen_is_not_sent_again(plane: Plane, client: Client) -> None:
    plane.create("chat", types=(THIRD,))
    plane.settle()
    part = client.get("/admin/front/comb/").content.decode()
    seen = re.search(r"hx-vals=\"\{&quot;seen&quot;: &quot;(\w+)&quot;\}\"", part)
    assert seen
    assert client.get(f"/admin/front/comb/?seen={seen[1]}").status_code == 204
    plane.scale("chat", 2)
    plane.settle()
    assert client.get(f"/admin/front/comb/?seen={seen[1]}").status_code == 200
    assert client.get("/admin/front/nonsense/").status_code == 404


def test_the_chart_has_what_came_and_went(plane: Plane, client: Client) -> None:
    plane.create("chat", types=(THIRD,), count=4)
    plane.settle()
    plane.clock.step(1800)
    plane.scale("chat", 1)
    plane.settle(120, step=5)
    plane.clock.step(600)
    page = client.get("/admin/front/history/").content.decode()
    data = re.search(r'<script id="history-data" type="application/json">(.+?)</script>', page)
    assert data
    (line,) = json.loads(data[1])["lines"]
    assert (line["name"], max(line["values"]), line["values"][-1]) == (THIRD, 4, 1)


def test_more_instances_than_cells_are_drawn_together_and_it_says_so(plane: Plane, client: Client) -> None:
    plane.create("chat", types=(THIRD,))
    plane.settle()
    multiply(plane, 3000)
    said = client.get("/admin/front/comb/").content.decode()
    assert "each cell stands for up to 3 of one type in one stage" in text_of(client.get("/admin/front/comb/"))
    assert said.count("<use ") == 1001


def test_queries_do_not_grow_with_the_fleet(plane: Plane, client: Client) -> None:
    plane.create("chat", types=(THIRD,), count=2)
    plane.create("batch", types=(SECOND,), asynchronous=True)
    plane.settle()
    offers.tell(plane.clock.now())
    backlog.sample(plane.clock.now())
    few = {name: queries_of(client, f"/admin/front/{name}/") for name in PART_QUERIES}
    whole = queries_of(client, "/admin/")
    for place in range(12):
        plane.create(f"more-{place}", types=(THIRD, SECOND), count=2)
    plane.settle()
    assert {name: queries_of(client, f"/admin/front/{name}/") for name in PART_QUERIES} == few
    assert few == PART_QUERIES
    assert queries_of(client, "/admin/") == whole == QUERIES


def plane_endpoint(name: str) -> Endpoint:
    """The row of an endpoint."""
    return Endpoint.objects.get(name=name)


def multiply(plane: Plane, count: int) -> None:
    """So many more rows like the one instance there is."""
    (row,) = Instance.objects.all()
    rows = []
    for place in range(count):
        facts = {field.attname: getattr(row, field.attname) for field in Instance._meta.concrete_fields}
        facts |= {"id": new_uuid(), "provider_id": f"copy-{place}", "token": UUID(int=place).hex}
        rows.append(Instance(**facts))
    Instance.objects.bulk_create(rows)
