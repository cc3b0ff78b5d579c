"""The list of endpoints and the page of one: what they tell, how they page, and what they cost the database."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from controlplane.auth.roles import Role
from controlplane.core.ids import new_uuid
from controlplane.endpoints.models import Endpoint
from controlplane.fleet.models import GatewayHeartbeat, Instance
from controlplane.metrics import store
from controlplane.metrics.series import OWN_NAMESPACE, MetricSetKey, bucket_start
from controlplane.metrics.statistics import Aggregate
from controlplane.observability.models import Event
from tests.controlplane.console.people import endpoint_path, hidden_fields, logged_in, text_of
from tests.workers.plane import FIRST, SECOND, THIRD, Plane
from workers import offers

LIST_QUERIES = 10
"""Of which the session, the user and the role are four."""

PAGE_QUERIES = 40

EVIL = '<img src=x onerror="alert(1)">'


@pytest.fixture
def viewer(plane: Plane) -> Client:
    """Whoever may look."""
    offers.tell(plane.clock.now())
    return logged_in(Role.VIEWER)


def queries(client: Client, path: str) -> int:
    """How many queries a page costs."""
    client.get(path)  # what is made once is made
    with CaptureQueriesContext(connection) as captured:
        assert client.get(path).status_code == 200
    return len(captured)


def many(plane: Plane, count: int, phase: str = "InService") -> None:
    """So many endpoints, by the database's own means."""
    now = plane.clock.now()
    Endpoint.objects.bulk_create(
        Endpoint(
            id=new_uuid(),
            account_id="123456789012",
            name=f"many-{number:05}",
            config_name="c",
            is_async=number % 2 == 0,
            shows_pools=True,
            phase=phase,
            why="It serves.",
            created_at=now,
            modified_at=now,
            look_again_at=now,
        )
        for number in range(count)
    )


def test_the_list_tells_status_count_home_and_why(plane: Plane, viewer: Client) -> None:
    plane.world.set_capacity(FIRST, 0)
    plane.create("away", count=2)
    plane.create("single", types=(THIRD,))
    plane.until(lambda: plane.status("away") == plane.status("single") == "InService")
    said = text_of(viewer.get("/admin/endpoints/"))
    assert "away In service 2 / 2 0 / 2" in said
    assert "single In service 1 / 1 one type" in said
    assert "Variant v has 2 of 2 instances serving." in said


def test_a_failed_endpoint_tells_its_failure_and_not_its_last_plan(plane: Plane, viewer: Client) -> None:
    for kind in (FIRST, SECOND):
        plane.world.set_capacity(kind, 0)
    plane.create()
    plane.until(lambda: plane.status() == "Failed", seconds=3700, step=60)
    assert "Unable to provision requested ML compute capacity" in text_of(viewer.get("/admin/endpoints/"))
    assert "Why it failed: Unable to provision" in text_of(viewer.get(endpoint_path()))


def test_the_list_is_searched_by_part_of_a_name_and_by_status(plane: Plane, viewer: Client) -> None:
    many(plane, 3)
    Endpoint.objects.filter(name="many-00001").update(phase="Failed")
    cases = {
        "q=0001": {"1"},
        "status=InService": {"0", "2"},
        "q=many&status=Failed": {"1"},
        "q=%25": set(),
        "q=%00": {*"012"},
    }
    for query, names in cases.items():
        said = text_of(viewer.get(f"/admin/endpoints/?{query}"))
        assert {each for each in "012" if f"many-0000{each}" in said} == names, query
    assert "No endpoint like that" in text_of(viewer.get("/admin/endpoints/?q=nothing"))


@pytest.mark.parametrize("order", ["name", "changed"])
def test_paging_shows_every_endpoint_once(plane: Plane, viewer: Client, order: str) -> None:
    many(plane, 130)
    seen: list[str] = []
    path: str | None = f"/admin/endpoints/?order={order}"
    while path is not None:
        page = viewer.get(path).content.decode()
        rows = page.split("/admin/endpoints/123456789012/")[1:]
        seen += [row.split("/")[0] for row in rows]
        following = page.partition('rel="next"')[0].rpartition('href="')[2].partition('"')[0].replace("&amp;", "&")
        path = following if 'rel="next"' in page else None
    assert len(seen) == len(set(seen)) == 130


@pytest.mark.parametrize("after", ["x", "x~y", "~", "%00~%00", "2020~not-an-id"])
def test_a_place_that_nobody_gave_is_the_first_page(plane: Plane, viewer: Client, after: str) -> None:
    many(plane, 2)
    for order in ("name", "changed"):
        page = viewer.get(f"/admin/endpoints/?order={order}&after={after}")
        assert page.status_code == 200
        assert "many-00000" in text_of(page)


def test_the_list_costs_the_same_with_ten_endpoints_and_with_five_thousand(plane: Plane, viewer: Client) -> None:
    many(plane, 10)
    few = queries(viewer, "/admin/endpoints/")
    Endpoint.objects.all().delete()
    many(plane, 5000)
    assert queries(viewer, "/admin/endpoints/") == few <= LIST_QUERIES


def test_without_endpoints_the_list_says_how_to_make_one(plane: Plane, viewer: Client) -> None:
    assert "There is no endpoint yet" in text_of(viewer.get("/admin/endpoints/"))


def test_the_ladder_is_there_while_the_endpoint_is_still_creating(plane: Plane, viewer: Client) -> None:
    for kind in (FIRST, SECOND):
        plane.world.set_capacity(kind, 0)
    plane.create()
    plane.settle(10)
    assert plane.status() == "Creating"
    said = text_of(viewer.get(endpoint_path()))
    assert "It is being created" in said
    assert "The search: every pool, most wanted first" in said
    assert said.index(FIRST) < said.index(SECOND)
    assert said.count("Last failure, capacity:") == 2
    assert said.count("Next try") == 2
    assert "Without success it gives up in" in said


def test_instances_are_shown_with_stage_reason_and_calls(plane: Plane, viewer: Client) -> None:
    plane.create()
    plane.until(lambda: plane.status() == "InService")
    row = Instance.objects.get()
    now = plane.clock.now()
    GatewayHeartbeat.objects.create(gateway_id="g", seen_at=now, table_age_seconds=0, in_flight={str(row.id): 7})
    said = text_of(viewer.get(endpoint_path()))
    assert f"{FIRST} {str(row.id)[:8]}" in said
    assert "Calls under way 7" in said
    assert "after its launch" in said


def test_a_part_that_has_not_changed_is_not_sent_again(plane: Plane, viewer: Client) -> None:
    plane.create()
    plane.until(lambda: plane.status() == "InService")
    plane.clock.step(3600)
    path = endpoint_path(rest="part/events/")
    page = viewer.get(path)
    seen = page.content.decode().partition("&quot;seen&quot;: &quot;")[2].partition("&quot;")[0]
    assert viewer.get(path, {"seen": seen}).status_code == 204
    plane.scale("e", 2)
    assert viewer.get(path, {"seen": seen}).status_code == 200


def test_parts_of_an_endpoint_that_is_gone_have_the_page_loaded_again(plane: Plane, viewer: Client) -> None:
    plane.create()
    plane.call("DeleteEndpoint", EndpointName="e")
    plane.until(lambda: not plane.exists())
    assert viewer.get(endpoint_path(rest="part/state/")).headers["HX-Refresh"] == "true"
    said = text_of(viewer.get(endpoint_path()))
    assert "e no longer exists" in said
    assert "EndpointDeleted" in said


def test_a_rollout_shows_its_step_share_and_strategy(plane: Plane, viewer: Client) -> None:
    plane.create(count=2)
    plane.until(lambda: plane.status() == "InService")
    plane.configure("next", count=2)
    size = {"Type": "CAPACITY_PERCENT", "Value": 50}
    routing = {"Type": "CANARY", "WaitIntervalInSeconds": 300, "CanarySize": size}
    plane.update(policy={"BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": routing}})
    plane.until(lambda: "bakes until" in Endpoint.objects.get().why)
    said = text_of(viewer.get(endpoint_path()))
    assert "Update to next" in said
    assert "50 % of the calls go to the new revision." in said
    assert "each step bakes for 5 min" in said
    assert "being rolled out" in said


def test_calls_errors_and_latency_are_drawn_from_the_metrics_store(plane: Plane, viewer: Client) -> None:
    plane.create()
    plane.until(lambda: plane.status() == "InService")
    page = viewer.get(endpoint_path()).content.decode()
    assert "Nobody has called it in the last hour." in page
    key = MetricSetKey("123456789012", OWN_NAMESPACE, {"EndpointName": "e", "VariantName": "v"})
    latency = {"ModelLatency": {"Microseconds": Aggregate.of([(5000.0, 10)])}}
    errors = {
        "Invocation4XXErrors": {"Count": Aggregate.of([(0.0, 10)])},
        "Invocation5XXErrors": {"Count": Aggregate.of([(0.0, 7), (1.0, 3)])},
    }
    bucket = store.Bucket(key, bucket_start(plane.clock.now().timestamp()), "test", {**latency, **errors})
    with connection.cursor() as cursor:
        cursor.execute(store.WRITE, [store.rows([bucket])])
    drawn: dict[str, Any] = viewer.get(endpoint_path(rest="part/charts/")).context["charts"]
    calls, failed = drawn["calls"]["lines"]
    assert (sum(calls["values"]), sum(failed["values"])) == (10, 3)
    assert [line["name"] for line in drawn["latency"]["lines"]] == ["p50", "p90", "p99"]
    assert drawn["latency"]["lines"][0]["values"][-1] == pytest.approx(5.0, rel=0.05)


def test_options_are_told_in_words(plane: Plane, viewer: Client) -> None:
    plane.create(tags={"headrace:coming-home": "10m", "headrace:max-hourly-price": "12.5", "team": "search"})
    said = text_of(viewer.get(endpoint_path()))
    assert "Comes home: a fallback is replaced once a more wanted type has been open for 10 min." in said
    assert "may cost $12.50 an hour" in said
    assert "team search" in said


def test_what_others_wrote_is_shown_as_text_and_never_as_markup(plane: Plane, viewer: Client) -> None:
    plane.create(tags={"note": EVIL, "link": "javascript:alert(1)", "braces": "{{7*7}}"})
    plane.until(lambda: plane.status() == "InService")
    Endpoint.objects.update(why=EVIL, failure_reason=EVIL)
    Instance.objects.update(reason=EVIL, leave="drain", leave_asked_by=EVIL)
    Event.objects.update(sentence=EVIL, actor=EVIL)
    for path in ("/admin/endpoints/", endpoint_path(), endpoint_path(rest="part/state/")):
        page = viewer.get(path)
        assert "<img src=x" not in page.content.decode()
        assert EVIL in text_of(page), "it is told, as it was written"
        assert "script-src 'self'" in page.headers["Content-Security-Policy"]
    operator = logged_in(Role.OPERATOR)
    for rest in ("delete/", "scale/", "update/", f"instances/{Instance.objects.get().id}/drain/"):
        assert "<img src=x" not in operator.get(endpoint_path(rest=rest)).content.decode()
    assert 'href="javascript:' not in viewer.get(endpoint_path()).content.decode()


def test_a_secret_of_the_model_is_on_no_page_of_the_endpoint(plane: Plane, viewer: Client) -> None:
    image = {"Image": "headrace/reference", "Environment": {"HF_TOKEN": "hf_verysecret"}}
    plane.call("CreateModel", ModelName="m", PrimaryContainer=image)
    variant = {"VariantName": "v", "ModelName": "m", "InitialInstanceCount": 1, "InstanceType": FIRST}
    plane.call("CreateEndpointConfig", EndpointConfigName="e", ProductionVariants=[variant])
    plane.call("CreateEndpoint", EndpointName="e", EndpointConfigName="e", Tags=[])
    plane.until(lambda: plane.status() == "InService")
    operator = logged_in(Role.OPERATOR)
    for path in ("/admin/endpoints/", endpoint_path(), endpoint_path(rest="delete/"), endpoint_path(rest="update/")):
        assert "hf_verysecret" not in operator.get(path).content.decode()


def test_a_page_costs_the_same_whatever_number_of_instances_and_events(plane: Plane, viewer: Client) -> None:
    plane.create(count=1)
    plane.until(lambda: plane.status() == "InService")
    few = queries(viewer, endpoint_path())
    plane.scale("e", 12)
    plane.until(lambda: plane.status() == "InService")
    assert queries(viewer, endpoint_path()) == few <= PAGE_QUERIES


# Several at once.


def ticked(client: Client, *names: str) -> dict[str, str]:
    """Tick endpoints of the list, and go on to the question; what its form carries."""
    ids = [str(Endpoint.objects.get(name=name).id) for name in names]
    page = client.post("/admin/endpoints/delete/", {"endpoint": ids})
    assert page.status_code == 200
    return hidden_fields(page)


def test_several_are_deleted_as_the_api_would_and_what_is_refused_is_named(plane: Plane) -> None:
    """BL-131: whatever is ticked goes the way of DeleteEndpoint; no row is gone before its instances are."""
    operator = logged_in(Role.OPERATOR, "alice")
    for name in ("serving", "changing", "leaving"):
        plane.create(name)
    plane.until(lambda: all(plane.status(name) == "InService" for name in ("serving", "changing", "leaving")))
    plane.scale("changing", 2)
    question = ticked(operator, "serving", "changing", "leaving")
    plane.call("DeleteEndpoint", EndpointName="leaving")
    said = text_of(operator.post("/admin/endpoints/delete/", question, follow=True))
    assert "2 endpoints being deleted: changing, serving." in said
    assert "leaving: changed meanwhile (status: InService → Deleting); look again" in said
    assert {plane.status(name) for name in ("serving", "changing")} == {"Deleting"}
    assert plane.rows() > 0, "no instance is forgotten"
    assert Event.objects.filter(reason="DeleteRequested", actor="operator alice").count() == 2
    plane.until(lambda: not Endpoint.objects.exists())
    assert plane.live() == {}


def test_what_was_scaled_after_it_was_ticked_is_kept(plane: Plane) -> None:
    operator = logged_in(Role.OPERATOR)
    plane.create()
    plane.until(lambda: plane.status() == "InService")
    question = ticked(operator, "e")
    plane.scale("e", 5)
    plane.until(lambda: plane.status() == "InService")
    said = text_of(operator.post("/admin/endpoints/delete/", question, follow=True))
    assert "e: changed meanwhile (variant v, count: 1 → 5); look again" in said
    assert plane.status() == "InService"


@pytest.mark.parametrize(
    "confirmed", ["", "{", "[]", '{"x": 1}', '{"%s": 1}' % ("a" * 36), "[" * 100_000, " " * 3_000_000], ids=list("abcdefg")
)
def test_a_confirmation_that_cannot_be_read_deletes_nothing(plane: Plane, confirmed: str) -> None:
    operator = logged_in(Role.OPERATOR)
    plane.create()
    assert operator.post("/admin/endpoints/delete/", {"confirmed": confirmed}, follow=True).status_code == 200
    assert plane.status() == "Creating"


def test_nothing_ticked_and_too_much_ticked_are_told_so(plane: Plane) -> None:
    operator = logged_in(Role.OPERATOR)
    for ids in ([], ["x"], [str(new_uuid()) for _ in range(501)]):
        said = text_of(operator.post("/admin/endpoints/delete/", {"endpoint": ids}, follow=True))
        assert "Tick the endpoints to be deleted, 500 at most." in said
    assert operator.get("/admin/endpoints/delete/").status_code == 405
