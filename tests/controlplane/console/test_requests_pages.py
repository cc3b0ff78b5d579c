"""Asynchronous requests on the console: found, told step by step, put back and cancelled; a million stay quick."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from controlplane.auth.models import Account
from controlplane.auth.roles import Role
from controlplane.core.ids import new_uuid
from controlplane.endpoints.models import Endpoint
from controlplane.invocations.models import AsyncInvocation, AsyncPayload
from controlplane.observability.models import Event
from tests.controlplane.console.people import asked, done, hidden_fields, logged_in, text_of
from tests.controlplane.invocations.letters import endpoint, letter
from tests.workers.plane import Plane

LIST, DEAD = "/admin/requests/", "/admin/requests/dead/"
QUERIES = 10
EVIL = '<svg onload="alert(1)">'


@pytest.fixture
def viewer(plane: Plane) -> Client:
    """Whoever may look."""
    del plane
    return logged_in(Role.VIEWER)


@pytest.fixture
def operator(plane: Plane) -> Client:
    """Alice, who may change things."""
    del plane
    return logged_in(Role.OPERATOR, "alice")


def page_of(row: AsyncInvocation, rest: str = "") -> str:
    """The page of a request, or one below it."""
    return f"{LIST}{row.id}/{rest}"


def redrive_path(name: str = "e", query: str = "") -> str:
    """Where a class of an endpoint's is put back."""
    return f"{DEAD}{settings.HEADRACE.account_id}/{name}/redrive/{query}"


def shown(page: Any) -> list[UUID]:
    """The requests of a page of the list."""
    return [line["row"].id for line in page.context["rows"]]


def test_requests_are_found_by_every_filter(plane: Plane, viewer: Client) -> None:
    now = plane.clock.now()
    one, two = endpoint(now, "one"), endpoint(now, "two")
    dead = letter(one, now, failure_kind="timeout", inference_id="it-failed")
    expired = letter(one, now + timedelta(hours=2), "expired", failure_kind="expired")
    finished = letter(two, now + timedelta(hours=3), "completed", failure_kind="")
    after = (now + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M")
    cases = {
        "": [finished, expired, dead],
        "endpoint=one": [expired, dead],
        "state=completed": [finished],
        "state=dead": [expired, dead],
        "kind=timeout": [dead],
        "inference_id=it-failed": [dead],
        f"after={after}": [finished, expired],
        f"before={after}": [dead],
        "endpoint=three": [],
    }
    for query, rows in cases.items():
        assert shown(viewer.get(f"{LIST}?{query}")) == [row.id for row in rows], query
    said = text_of(viewer.get(f"{LIST}?kind=timeout"))
    assert "The model took too long." in said
    assert "No request like that" in text_of(viewer.get(f"{LIST}?endpoint=three"))


@pytest.mark.parametrize("query", ["state=lost", "kind=bad", "after=yesterday", "inference_id=%00", "account=1"])
def test_what_cannot_be_understood_is_said_beside_its_field(plane: Plane, viewer: Client, query: str) -> None:
    letter(endpoint(plane.clock.now()), plane.clock.now())
    page = viewer.get(f"{LIST}?{query}")
    assert page.status_code == 200
    assert len(shown(page)) == 1, "it is left out of the search"
    assert page.context["form"].errors


def test_a_foreign_page_is_refused_with_a_way_back(plane: Plane, viewer: Client) -> None:
    page = viewer.get(f"{LIST}?page=forged")
    assert page.status_code == 200
    assert "Invalid pagination token" in text_of(page)


def test_paging_shows_each_request_once_the_latest_first(plane: Plane, viewer: Client) -> None:
    now = plane.clock.now()
    one = endpoint(now)
    rows = [letter(one, now + timedelta(seconds=second)) for second in range(120)]
    found: list[UUID] = []
    token = ""
    for _ in range(3):
        page = viewer.get(LIST, {"endpoint": "e", **({"page": token} if token else {})})
        found += shown(page)
        token = page.context["page"].next_token
    assert token is None
    assert found == [row.id for row in reversed(rows)]


def test_requests_of_another_account_are_shown_once_it_is_chosen(plane: Plane, viewer: Client) -> None:
    now = plane.clock.now()
    Account.objects.create(account_id="999999999999", created_at=now)
    Endpoint.objects.filter(pk=endpoint(now).pk).update(account_id="999999999999")
    row = letter(Endpoint.objects.get(), now)
    assert shown(viewer.get(LIST)) == []
    assert shown(viewer.get(f"{LIST}?account=999999999999")) == [row.id]


def test_the_page_of_a_request_tells_every_step_and_its_error(plane: Plane, viewer: Client) -> None:
    now = plane.clock.now()
    steps = [
        [now.isoformat(), "claimed", 1, "i-1"],
        [now.isoformat(), "sent", 1, "12 bytes"],
        [now.isoformat(), "answered", 1, "status 500"],
        [now.isoformat(), "retried", 1, "The model failed"],
        [now.isoformat(), "failed", 2, "status 500"],
        [now.isoformat(), "notified", 2, "arn:aws:sns:us-east-1:1:t"],
    ]
    row = letter(endpoint(now), now, timeline=steps, failure_kind="model_server_error", outcome_text="status 500: boom")
    said = text_of(viewer.get(page_of(row)))
    sentences = ("accepted", "A worker took it", "sent to the model", "answered: status 500", "back into the queue", "told")
    places = [said.index(sentence) for sentence in sentences]
    assert places == sorted(places)
    assert "The model failed (5xx)." in said
    assert "status 500: boom" in said
    assert viewer.get(f"{LIST}{new_uuid()}/").status_code == 404


def test_a_failed_request_is_put_back_by_name(plane: Plane, operator: Client) -> None:
    row = letter(endpoint(plane.clock.now()), plane.clock.now())
    assert page_of(row, "redrive/") in operator.get(page_of(row)).content.decode()
    answer = done(operator, page_of(row, "redrive/"), time_to_live="600")
    assert answer.headers["Location"] == page_of(row)
    row.refresh_from_db()
    assert (row.state, row.redrives) == ("redriving", 1)
    assert row.expires_at == plane.clock.now() + timedelta(seconds=600)
    event = Event.objects.get(reason="AsyncRequestRedriven")
    assert event.actor == "operator alice"
    assert event.sentence.startswith("operator alice put request")


def test_a_request_that_somebody_put_back_is_not_put_back_twice(plane: Plane, operator: Client) -> None:
    row = letter(endpoint(plane.clock.now()), plane.clock.now())
    path = page_of(row, "redrive/")
    old = asked(operator, path)
    done(logged_in(Role.OPERATOR, "bob"), path)
    answer = operator.post(path, old)
    assert answer.status_code == 409
    assert "state: failed → redriving" in text_of(answer)
    assert AsyncInvocation.objects.get().redrives == 1


def test_a_queued_request_is_cancelled_after_being_told_what_that_means(plane: Plane, operator: Client) -> None:
    row = letter(endpoint(plane.clock.now()), plane.clock.now(), "queued", failure_kind="", ended_at=None)
    path = page_of(row, "cancel/")
    assert "There is no way back." in text_of(operator.get(path))
    assert done(operator, path).status_code == 303
    row.refresh_from_db()
    assert row.failure_kind == "cancelled"
    assert Event.objects.get(reason="AsyncRequestCancelled").actor == "operator alice"


def test_what_cannot_be_put_back_says_why_and_has_no_button(plane: Plane, operator: Client) -> None:
    now = plane.clock.now()
    row = letter(endpoint(now), now)
    AsyncPayload.objects.all().delete()
    page = operator.get(page_of(row))
    assert page_of(row, "redrive/") not in page.content.decode()
    assert "its payload is no longer kept" in text_of(page)
    refused = operator.post(page_of(row, "redrive/"), asked(operator, page_of(row, "redrive/")))
    assert refused.status_code == 400
    assert "its payload is no longer kept" in text_of(refused)
    Endpoint.objects.all().delete()
    assert "its endpoint was deleted" in text_of(operator.get(page_of(row)))


def test_dead_letters_are_counted_by_class_and_a_class_is_put_back(plane: Plane, operator: Client) -> None:
    now = plane.clock.now()
    one = endpoint(now)
    for _ in range(3):
        letter(one, now, failure_kind="timeout")
    kept = letter(one, now, failure_kind="model_client_error")
    said = text_of(operator.get(DEAD))
    assert "4 dead letters" in said
    assert "The model took too long timeout 3" in said
    path = redrive_path(query="?state=failed&kind=timeout")
    assert "3 requests would go back now" in text_of(operator.get(path))
    answer = done(operator, path, limit=2)
    assert answer.status_code == 303
    said = text_of(operator.get(answer.headers["Location"]))
    assert "2 requests of 3 went back into the queue. Left: 1." in said
    assert "2 going back" in said
    kept.refresh_from_db()
    assert kept.state == "failed"
    event = Event.objects.get(reason="AsyncRequestsRedriven")
    assert (event.actor, event.detail["redriven"]) == ("operator alice", 2)


def test_the_classes_of_an_endpoint_that_is_gone_cannot_be_put_back(plane: Plane, operator: Client) -> None:
    now = plane.clock.now()
    letter(endpoint(now), now)
    Endpoint.objects.all().delete()
    page = operator.get(DEAD)
    assert "endpoint deleted" in text_of(page)
    assert redrive_path() not in page.content.decode()
    assert operator.get(redrive_path()).status_code == 404


def test_without_dead_letters_that_is_said(plane: Plane, viewer: Client) -> None:
    assert "No dead letters" in text_of(viewer.get(DEAD))
    assert "No asynchronous request yet" in text_of(viewer.get(LIST))


def test_a_viewer_may_look_and_change_nothing(plane: Plane, viewer: Client) -> None:
    row = letter(endpoint(plane.clock.now()), plane.clock.now())
    pages = "".join(viewer.get(path).content.decode() for path in (LIST, DEAD, page_of(row)))
    for path in (page_of(row, "redrive/"), page_of(row, "cancel/"), redrive_path()):
        assert path not in pages
        assert viewer.get(path).status_code == 403
        assert viewer.post(path, {"seen": "{}", "limit": 1}).status_code == 403
    row.refresh_from_db()
    assert row.state == "failed"


def test_nothing_is_changed_without_the_token_against_forgery(plane: Plane) -> None:
    row = letter(endpoint(plane.clock.now()), plane.clock.now())
    administrator = logged_in(Role.ADMINISTRATOR, enforces_csrf=True)
    for path in (page_of(row, "redrive/"), page_of(row, "cancel/"), redrive_path()):
        assert administrator.post(path, {"seen": "{}", "limit": 1}).status_code == 403
    row.refresh_from_db()
    assert row.state == "failed"


def test_what_clients_and_models_wrote_is_text(plane: Plane, operator: Client) -> None:
    now = plane.clock.now()
    evil = {"inference_id": EVIL, "custom_attributes": EVIL, "content_type": EVIL, "outcome_text": EVIL}
    row = letter(endpoint(now), now, timeline=[[now.isoformat(), "failed", 1, EVIL]], input_location=EVIL, **evil)
    for path in (LIST, page_of(row), page_of(row, "redrive/"), DEAD):
        assert "<svg onload" not in operator.get(path).content.decode()
    assert EVIL in text_of(operator.get(page_of(row)))


def many(plane: Plane, count: int) -> None:
    """So many requests of ten endpoints, a tenth of them failed, written by the database itself."""
    now = plane.clock.now()
    names = [f"big-{number}" for number in range(10)]
    ids = [endpoint(now, name).id for name in names]
    row = letter(Endpoint.objects.get(name="big-0"), now)
    columns = [field.column for field in AsyncInvocation._meta.concrete_fields]
    changed = {
        "id": "gen_random_uuid()",
        "endpoint_id": "(%s::uuid[])[1 + n %% 10]",
        "endpoint_name": "(%s::varchar[])[1 + n %% 10]",
        "inference_id": "'many-' || n",
        "state": "CASE WHEN n %% 10 = 0 THEN 'failed' ELSE 'completed' END",
        "failure_kind": "CASE WHEN n %% 10 = 0 THEN 'timeout' ELSE '' END",
        "accepted_at": "accepted_at + n * interval '1 second'",
    }
    chosen = ", ".join(changed.get(column, column) for column in columns)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO invocations_asyncinvocation ({', '.join(columns)}) SELECT {chosen} "
            "FROM invocations_asyncinvocation, generate_series(1, %s) AS n WHERE id = %s",
            [ids, names, count, row.id],
        )
        cursor.execute("ANALYZE invocations_asyncinvocation")


def queries(client: Client, path: str) -> list[str]:
    """The statements of a page."""
    client.get(path)  # what is made once is made
    with CaptureQueriesContext(connection) as captured:
        assert client.get(path).status_code == 200
    return [each["sql"] for each in captured.captured_queries]


def test_the_list_never_counts_and_costs_the_same_whatever_there_is(plane: Plane, viewer: Client) -> None:
    """BL-137: a page of a long list is found by its index, under any filter."""
    many(plane, 20_000)
    for query in ("", "?endpoint=big-3", "?state=failed", "?inference_id=many-777", "?endpoint=big-3&state=completed"):
        statements = queries(viewer, LIST + query)
        assert len(statements) <= QUERIES
        assert not any("COUNT(" in statement.upper() for statement in statements)


def test_a_form_of_a_class_carries_nothing_but_what_is_asked(plane: Plane, operator: Client) -> None:
    letter(endpoint(plane.clock.now()), plane.clock.now())
    page = operator.get(redrive_path())
    assert set(hidden_fields(page)) <= {"csrfmiddlewaretoken", "seen"}
    assert operator.post(redrive_path(), {**hidden_fields(page), "limit": "10001"}).status_code == 400
