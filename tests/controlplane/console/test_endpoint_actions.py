"""What operators do to endpoints on the console: through the API's services, as themselves, and never over newer facts."""

from collections.abc import Iterator

import pytest
from django.test import Client

from controlplane.auth.roles import Role
from controlplane.endpoints.models import Endpoint, EndpointVariant
from controlplane.fleet.models import CapacityMark, Instance
from controlplane.fleet.states import InstanceStage
from controlplane.observability.models import Event
from tests.controlplane.console.people import asked, done, endpoint_path, hidden_fields, logged_in, text_of
from tests.workers.plane import FIRST, SECOND, Plane

ACTIONS = ("scale", "weights", "update", "delete", "pause-coming-home", "resume-coming-home")
HOME = {"headrace:coming-home": "10m"}


@pytest.fixture
def operator(plane: Plane) -> Iterator[Client]:
    """Alice, who may change things."""
    del plane
    return logged_in(Role.OPERATOR, "alice")


def serving(plane: Plane, name: str = "e", **config: object) -> Instance:
    """An endpoint in service, and its first instance."""
    plane.create(name, **config)
    plane.until(lambda: plane.status(name) == "InService")
    return Instance.objects.filter(endpoint__name=name).earliest("launched_at")


def told(reason: str) -> Event:
    """The last event of this reason."""
    found = Event.objects.filter(reason=reason).last()
    assert found is not None, reason
    return found


def wanted(name: str = "e") -> int:
    """The wanted count of the endpoint's variant."""
    return EndpointVariant.objects.get(endpoint__name=name, retired_at=None).desired_count


def test_scaling_goes_through_the_service_and_names_who_did_it(plane: Plane, operator: Client) -> None:
    serving(plane)
    answer = done(operator, endpoint_path(rest="scale/"), **{"count-v": 3})
    assert (answer.status_code, answer.headers["Location"]) == (303, endpoint_path())
    assert (plane.status(), wanted()) == ("Updating", 3)
    assert told("UpdateRequested").actor == "operator alice"
    page = operator.get(endpoint_path())
    assert "e is being changed. v: 1 → 3." in text_of(page)
    plane.until(lambda: plane.status() == "InService")
    assert plane.live() == {FIRST: 3}


def test_what_the_service_refuses_is_told_on_the_page_and_nothing_changes(plane: Plane, operator: Client) -> None:
    serving(plane)
    answer = done(operator, endpoint_path(rest="scale/"), **{"count-v": 0})
    assert answer.status_code == 400
    assert "a real-time endpoint needs at least 1" in text_of(answer)
    assert (plane.status(), wanted()) == ("InService", 1)


@pytest.mark.parametrize("count", ["", "-1", "many", "10001"])
def test_a_count_that_is_none_is_refused_beside_its_field(plane: Plane, operator: Client, count: str) -> None:
    serving(plane)
    answer = done(operator, endpoint_path(rest="scale/"), **{"count-v": count})
    assert answer.status_code == 400
    assert "errorlist" in answer.content.decode()
    assert wanted() == 1


def test_asking_for_what_is_there_changes_nothing(plane: Plane, operator: Client) -> None:
    serving(plane)
    assert done(operator, endpoint_path(rest="scale/"), **{"count-v": 1}).status_code == 303
    assert plane.status() == "InService"
    assert "UpdateRequested" not in plane.story()


def test_a_form_from_before_another_change_is_refused_and_says_what_changed(plane: Plane, operator: Client) -> None:
    serving(plane)
    path = endpoint_path(rest="scale/")
    old = asked(operator, path)
    plane.scale("e", 4)
    plane.until(lambda: plane.status() == "InService")
    answer = operator.post(path, {**old, "count-v": 2})
    assert answer.status_code == 409
    assert "Changed meanwhile. Nothing was done." in text_of(answer)
    assert "variant v, count: 1 → 4" in text_of(answer)
    assert wanted() == 4
    assert operator.post(path, {**hidden_fields(answer), "count-v": 2}).status_code == 303, "looked at again, it is done"
    assert wanted() == 2


def test_an_endpoint_made_again_under_the_name_is_not_what_the_form_was_about(plane: Plane, operator: Client) -> None:
    serving(plane)
    path = endpoint_path(rest="delete/")
    old = asked(operator, path)
    plane.call("DeleteEndpoint", EndpointName="e")
    plane.until(lambda: not plane.exists())
    plane.call("CreateEndpoint", EndpointName="e", EndpointConfigName="e", Tags=[])
    plane.until(lambda: plane.status() == "InService")
    assert operator.post(path, old).status_code == 409
    assert plane.status() == "InService"


@pytest.mark.parametrize("seen", ["", "[]", "{", '{"status": 3}'], ids=["none", "list", "broken", "numbers"])
def test_a_form_without_its_facts_does_nothing(plane: Plane, operator: Client, seen: str) -> None:
    serving(plane)
    assert operator.post(endpoint_path(rest="delete/"), {"seen": seen}).status_code == 409
    assert plane.status() == "InService"


def test_weights_are_set_and_told(plane: Plane, operator: Client) -> None:
    serving(plane)
    assert done(operator, endpoint_path(rest="weights/"), **{"weight-v": "2.5"}).status_code == 303
    assert EndpointVariant.objects.get().desired_weight == 2.5
    assert told("UpdateRequested").actor == "operator alice"


def test_deleting_says_first_what_goes_with_the_endpoint(plane: Plane, operator: Client) -> None:
    serving(plane, count=3)
    path = endpoint_path(rest="delete/")
    question = text_of(operator.get(path))
    assert f"3 instances will be ended: 3 x {FIRST}." in question
    assert plane.status() == "InService", "looking changes nothing"
    assert done(operator, path).status_code == 303
    assert plane.status() == "Deleting"
    assert told("DeleteRequested").actor == "operator alice"
    plane.until(lambda: not plane.exists())
    assert plane.live() == {}
    page = operator.get(endpoint_path())
    assert page.status_code == 200
    assert "e no longer exists" in text_of(page)


def test_an_update_shows_its_strategy_before_anything_is_changed(plane: Plane, operator: Client) -> None:
    serving(plane)
    plane.configure("next", count=2)
    path = endpoint_path(rest="update/")
    chosen = {"config": "next", "keeps": "", "strategy": "canary", "percent": 50, "bake": 30}
    review = done(operator, path, **chosen)
    assert review.status_code == 200
    assert "50 % of the calls first" in text_of(review)
    assert f"The fleet to come: v: 2 instances of {FIRST} or {SECOND}." in text_of(review)
    assert plane.status() == "InService"
    assert "UpdateRequested" not in plane.story()
    assert operator.post(path, hidden_fields(review)).status_code == 303
    assert plane.status() == "Updating"
    assert told("UpdateRequested").actor == "operator alice"
    assert "to next, canary" in told("UpdateRequested").sentence
    shown = text_of(operator.get(endpoint_path()))
    assert "Update to next" in shown
    plane.until(lambda: plane.describe()["EndpointConfigName"] == "next")


def test_an_update_that_would_be_refused_is_refused_before_the_question(plane: Plane, operator: Client) -> None:
    serving(plane)
    plane.configure("queued", asynchronous=True)
    path = endpoint_path(rest="update/")
    choices = {"keeps": "on", "strategy": "default", "percent": 10, "bake": 0}
    assert "Could not find endpoint configuration" in text_of(done(operator, path, config="nowhere", **choices))
    refused = done(operator, path, config="queued", **choices)
    assert refused.status_code == 400
    assert "Create another endpoint for it." in text_of(refused)
    assert plane.status() == "InService"


def test_a_refused_update_is_reviewed_again_before_it_is_made(plane: Plane, operator: Client) -> None:
    serving(plane)
    plane.configure("next")
    path = endpoint_path(rest="update/")
    choices = {"config": "next", "keeps": "on", "strategy": "default", "percent": 10, "bake": 0}
    review = hidden_fields(done(operator, path, **choices))
    refused = operator.post(path, {**review, "config": "nowhere"})
    assert refused.status_code == 400
    again = operator.post(path, {**hidden_fields(refused), **choices})
    assert again.status_code == 200, "it is the question, and not yet the change"
    assert plane.status() == "InService"


def test_an_instance_is_replaced_and_drained_by_name(plane: Plane, operator: Client) -> None:
    row = serving(plane)
    path = endpoint_path(rest=f"instances/{row.id}/replace/")
    assert done(operator, path).status_code == 303
    assert told("ReplaceRequested").actor == "operator alice"
    assert "asked by operator alice" in text_of(operator.get(endpoint_path()))
    plane.until(lambda: Instance.objects.get(pk=row.pk).stage == InstanceStage.TERMINATED)
    other = Instance.objects.get(stage=InstanceStage.READY)
    assert done(operator, endpoint_path(rest=f"instances/{other.id}/drain/")).status_code == 303
    assert told("DrainRequested").actor == "operator alice"


def test_an_instance_that_went_meanwhile_is_said_to_be_gone(plane: Plane, operator: Client) -> None:
    row = serving(plane)
    path = endpoint_path(rest=f"instances/{row.id}/drain/")
    old = asked(operator, path)
    Instance.objects.update(stage=InstanceStage.TERMINATED)
    answer = operator.post(path, old)
    assert answer.status_code == 404
    assert "is gone" in text_of(answer)


def test_an_instance_that_another_operator_drains_is_not_asked_twice(plane: Plane, operator: Client) -> None:
    row = serving(plane)
    path = endpoint_path(rest=f"instances/{row.id}/drain/")
    old = asked(operator, path)
    done(logged_in(Role.OPERATOR, "bob"), path)
    answer = operator.post(path, old)
    assert answer.status_code == 409
    assert "asked to leave: no → drain by operator bob" in text_of(answer)


def test_coming_home_is_paused_and_resumed(plane: Plane, operator: Client) -> None:
    serving(plane, tags=HOME)
    assert done(operator, endpoint_path(rest="pause-coming-home/")).status_code == 303
    assert told("ComingHomePaused").actor == "operator alice"
    assert "Coming home is paused by operator alice" in text_of(operator.get(endpoint_path()))
    assert done(operator, endpoint_path(rest="resume-coming-home/")).status_code == 303
    assert Endpoint.objects.get().home_paused_at is None


def test_a_mark_is_cleared_from_the_ladder_of_an_endpoint_that_waits_for_it(plane: Plane, operator: Client) -> None:
    plane.world.set_capacity(FIRST, 0)
    serving(plane)
    mark = CapacityMark.objects.get()
    path = endpoint_path(rest=f"marks/{mark.id}/clear/")
    assert path in operator.get(endpoint_path()).content.decode()
    assert done(operator, path).status_code == 303
    assert not CapacityMark.objects.exists()
    assert told("MarkForgotten").actor == "operator alice"


def test_a_mark_that_was_renewed_meanwhile_is_looked_at_again(plane: Plane, operator: Client) -> None:
    plane.world.set_capacity(FIRST, 0)
    serving(plane)
    path = endpoint_path(rest=f"marks/{CapacityMark.objects.get().id}/clear/")
    old = asked(operator, path)
    CapacityMark.objects.update(streak=2)
    answer = operator.post(path, old)
    assert answer.status_code == 409
    assert "refusals in a row: 1 → 2" in text_of(answer)
    CapacityMark.objects.all().delete()
    assert operator.post(path, old).status_code == 404


def paths(row: Instance) -> list[str]:
    """Every action that there is for an endpoint."""
    own = [endpoint_path(rest=f"{action}/") for action in ACTIONS]
    of_instance = [endpoint_path(rest=f"instances/{row.id}/{action}/") for action in ("drain", "replace")]
    return [*own, *of_instance, endpoint_path(rest="marks/1/clear/"), "/admin/endpoints/delete/"]


def test_a_viewer_sees_no_button_and_may_post_nothing(plane: Plane) -> None:
    row = serving(plane, tags=HOME)
    viewer = logged_in(Role.VIEWER)
    pages = "".join(viewer.get(path).content.decode() for path in ("/admin/endpoints/", endpoint_path()))
    for path in paths(row):
        assert path not in pages
        assert viewer.get(path).status_code in (403, 405)
        assert viewer.post(path, {"seen": "{}"}).status_code == 403
    assert plane.status() == "InService"


def test_whoever_is_not_logged_in_is_sent_to_the_login_page(plane: Plane) -> None:
    row = serving(plane)
    for path in ["/admin/endpoints/", endpoint_path(), *paths(row)]:
        answer = Client().post(path, {"seen": "{}"})
        assert (answer.status_code, answer.headers["Location"].split("?")[0]) == (302, "/admin/login/")
    assert plane.status() == "InService"


def test_no_action_is_taken_without_the_token_against_forgery(plane: Plane) -> None:
    row = serving(plane)
    administrator = logged_in(Role.ADMINISTRATOR, enforces_csrf=True)
    for path in paths(row):
        assert administrator.post(path, {"seen": "{}"}).status_code == 403
    assert plane.status() == "InService"


def test_looking_at_every_page_changes_nothing(plane: Plane, operator: Client) -> None:
    row = serving(plane, tags=HOME)
    before = (Endpoint.objects.values().get(), Instance.objects.values().get(), Event.objects.count())
    for path in [endpoint_path(), "/admin/endpoints/", *paths(row)]:
        operator.get(path)
    assert (Endpoint.objects.values().get(), Instance.objects.values().get(), Event.objects.count()) == before


def test_actions_that_there_are_not_are_not_found(plane: Plane, operator: Client) -> None:
    row = serving(plane)
    for rest in ("explode/", f"instances/{row.id}/explode/", "part/explode/"):
        assert operator.get(endpoint_path(rest=rest)).status_code == 404
    assert operator.get(endpoint_path("nowhere")).status_code == 404
