"""Asynchronous requests over the resource paths: found, told, put back, cancelled; and never another account's."""

from datetime import timedelta
from urllib.parse import urlencode
from uuid import uuid4

import pytest
from django.conf import settings

from controlplane.invocations.models import AsyncInvocation
from tests.controlplane.invocations.letters import endpoint, letter, states
from tests.controlplane.rest.conftest import OTHER_ACCOUNT, Ask
from tests.workers.plane import Plane

REQUESTS, LETTERS, COUNTS = "/api/v1/async-requests", "/api/v1/dead-letters", "/api/v1/dead-letter-counts"
ACTOR = f"key KEY{settings.HEADRACE.account_id}"


def ids(body: dict[str, list[dict[str, str]]]) -> list[str]:
    """The ids of a page."""
    return [row["RequestId"] for row in body["AsyncRequests"]]


def test_requests_are_found_by_every_filter_and_page_by_page(plane: Plane, ask: Ask) -> None:
    now = plane.clock.now()
    one, two = endpoint(now, "one"), endpoint(now, "two")
    rows = [letter(one, now + timedelta(seconds=second), inference_id=f"i {second}") for second in range(5)]
    done = letter(two, now, "completed")
    pages, query = [], "?EndpointName=one&MaxResults=2"
    while query:
        page = ask("GET", REQUESTS + query).body
        pages += ids(page)
        token = page["NextToken"]
        query = token and "?" + urlencode({"EndpointName": "one", "MaxResults": 2, "NextToken": token})
    assert pages == [str(row.id) for row in reversed(rows)]
    assert ids(ask("GET", f"{REQUESTS}?InferenceId=i%203").body) == [str(rows[3].id)]
    assert ids(ask("GET", f"{REQUESTS}?Status=completed&Status=running").body) == [str(done.id)]
    assert ids(ask("GET", f"{REQUESTS}?FailureKind=timeout").body) == []
    after, before = ((now + timedelta(seconds=second)).isoformat() for second in (1, 3))
    found = ask(
        "GET", f"{REQUESTS}?" + urlencode({"AcceptedAfter": after, "AcceptedBefore": before, "SortOrder": "Ascending"})
    )
    assert ids(found.body) == [str(rows[1].id), str(rows[2].id)]


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("MaxResults=0", "MaxResults"),
        ("MaxResults=501", "MaxResults"),
        ("NextToken=x", "Invalid pagination token"),
        ("Status=lost", "Status"),
        ("FailureKind=bad", "FailureKind"),
        ("EndpointName=a%2Fb", "EndpointName"),
        ("InferenceId=%00", "InferenceId"),
        ("InferenceId=" + "x" * 65, "InferenceId"),
        ("AcceptedAfter=yesterday", "AcceptedAfter"),
        ("AcceptedAfter=0001-01-01T00%3A00%3A00%2B14%3A00", ""),
        ("AcceptedBefore=9999-12-31T23%3A59%3A59-14%3A00", ""),
        ("SortOrder=up", "SortOrder"),
        ("Endpoint=e", "Endpoint: not known here"),
    ],
)
def test_a_search_that_makes_no_sense_is_refused(plane: Plane, ask: Ask, query: str, sentence: str) -> None:
    found = ask("GET", f"{REQUESTS}?{query}")
    assert (found.status, found.code) == (400, "ValidationException")
    assert sentence in found.body["message"]


def test_a_request_tells_its_timeline_for_machines_and_in_words(plane: Plane, ask: Ask) -> None:
    now = plane.clock.now()
    steps = [
        [now.isoformat(), "claimed", 1, "i-1"],
        [now.isoformat(), "retried", 1, "The model gave no answer: reset."],
        [now.isoformat(), "claimed", 2, "i-2"],
    ]
    row = letter(endpoint(now), now, "running", timeline=steps, attempts=2)
    told = ask("GET", f"{REQUESTS}/{row.id}").body
    assert told["AsyncRequest"]["Attempts"] == 2
    assert (told["NextTryAt"], told["TimelineHasGap"]) == (None, False)
    assert [(step["Step"], step["Attempt"], step["Detail"]) for step in told["Timeline"]] == [
        ("accepted", 0, ""),
        ("claimed", 1, "i-1"),
        ("retried", 1, "The model gave no answer: reset."),
        ("claimed", 2, "i-2"),
    ]
    assert told["Timeline"][2]["Sentence"] == "It went back into the queue: The model gave no answer: reset."


def test_a_redrive_answers_with_the_request_as_it_then_is(plane: Plane, ask: Ask) -> None:
    now = plane.clock.now()
    row = letter(endpoint(now), now)
    found = ask("POST", f"{REQUESTS}/{row.id}/redrive", {"RequestTTLSeconds": 60})
    assert found.status == 200
    about = found.body["AsyncRequest"]
    assert (about["Status"], about["Redrives"], about["EndedAt"]) == ("redriving", 1, None)
    row.refresh_from_db()
    assert row.expires_at == now + timedelta(seconds=60)
    assert found.body["Timeline"][-1]["Detail"] == f"by {ACTOR}"
    again = ask("POST", f"{REQUESTS}/{row.id}/redrive")
    assert (again.status, again.code) == (400, "ValidationException")
    assert "only failed and expired" in again.body["message"]


@pytest.mark.parametrize("body", [{"RequestTTLSeconds": 59}, {"RequestTTLSeconds": 21601}, {"TTL": 60}, [1], b"{"])
def test_a_redrive_that_makes_no_sense_changes_nothing(plane: Plane, ask: Ask, body: object) -> None:
    row = letter(endpoint(plane.clock.now()), plane.clock.now())
    assert ask("POST", f"{REQUESTS}/{row.id}/redrive", body).status == 400
    assert states([row]) == ["failed"]


def test_a_cancelled_request_shows_that_its_outcome_is_decided(plane: Plane, ask: Ask) -> None:
    now = plane.clock.now()
    row = letter(endpoint(now), now, "queued")
    found = ask("POST", f"{REQUESTS}/{row.id}/cancel")
    assert found.status == 200
    about = found.body["AsyncRequest"]
    assert (about["FailureKind"], about["FailureReason"]) == ("cancelled", f"The request was cancelled by {ACTOR}.")
    done = letter(endpoint(now, "f"), now, "completed")
    refused = ask("POST", f"{REQUESTS}/{done.id}/cancel")
    assert (refused.status, refused.code) == (400, "ValidationException")


def test_dead_letters_come_oldest_first_with_their_last_error_and_are_counted(plane: Plane, ask: Ask) -> None:
    now = plane.clock.now()
    at = endpoint(now)
    rows = [letter(at, now + timedelta(seconds=second)) for second in range(3)]
    late = letter(at, now + timedelta(seconds=9), "expired", outcome_text="Too late.")
    letter(at, now, "completed")
    listed = ask("GET", LETTERS).body
    assert ids(listed) == [str(row.id) for row in [*rows, late]]
    assert [row["FailureReason"] for row in listed["AsyncRequests"]] == ["It went wrong."] * 3 + ["Too late."]
    counted = ask("GET", f"{COUNTS}?EndpointName=e").body["DeadLetterCounts"]
    assert [(each["FailureKind"], each["Status"], each["Count"]) for each in counted] == [
        ("model_server_error", "failed", 3),
        ("expired", "expired", 1),
    ]
    assert ask("GET", f"{COUNTS}?EndpointName=none").body["DeadLetterCounts"] == []
    assert ask("GET", f"{LETTERS}?Status=completed").code == "ValidationException"


def test_a_class_is_put_back_after_a_dry_run_that_counts(plane: Plane, ask: Ask) -> None:
    now = plane.clock.now()
    at = endpoint(now)
    rows = [letter(at, now) for _ in range(3)]
    other = letter(at, now, "expired")
    wish = {"FailureKind": ["model_server_error"], "Limit": 2}
    path = "/api/v1/endpoints/e/redrives"
    assert ask("POST", path, {**wish, "DryRun": True}).body == {"Matching": 3, "Redriven": 2, "Skipped": 0}
    assert states(rows) == ["failed"] * 3
    assert ask("POST", path, wish).body == {"Matching": 3, "Redriven": 2, "Skipped": 0}
    assert sorted(states(rows)) == ["failed", "redriving", "redriving"]
    assert ask("POST", path).body == {"Matching": 2, "Redriven": 2, "Skipped": 0}
    assert states([other]) == ["redriving"]
    assert "Could not find endpoint" in ask("POST", "/api/v1/endpoints/none/redrives", {}).body["message"]


@pytest.mark.parametrize(
    "body", [{"Limit": 0}, {"Limit": 10001}, {"Status": ["completed"]}, {"FailureKind": "x"}, {"Kind": []}, {"DryRun": 7}]
)
def test_a_class_that_makes_no_sense_is_refused(plane: Plane, ask: Ask, body: object) -> None:
    row = letter(endpoint(plane.clock.now()), plane.clock.now())
    assert ask("POST", "/api/v1/endpoints/e/redrives", body).code == "ValidationException"
    assert states([row]) == ["failed"]


def test_another_account_sees_and_changes_nothing(plane: Plane, ask: Ask) -> None:
    now = plane.clock.now()
    row = letter(endpoint(now), now, inference_id="shared")
    waiting = letter(endpoint(now, "f"), now, "queued")
    endpoint(now, account=OTHER_ACCOUNT)
    for query in ("", "?EndpointName=e", "?InferenceId=shared", "?Status=failed"):
        assert ids(ask("GET", f"{REQUESTS}{query}", account=OTHER_ACCOUNT).body) == []
    assert ids(ask("GET", LETTERS, account=OTHER_ACCOUNT).body) == []
    assert ask("GET", COUNTS, account=OTHER_ACCOUNT).body == {"DeadLetterCounts": []}
    for method, path in (("GET", ""), ("POST", "/redrive"), ("POST", "/cancel")):
        for each in (row.id, waiting.id, uuid4()):
            found = ask(method, f"{REQUESTS}/{each}{path}", account=OTHER_ACCOUNT)
            assert (found.status, found.code) == (400, "ResourceNotFound")
            assert found.body["message"] == f"There is no asynchronous request {each}."
    assert ask("POST", "/api/v1/endpoints/e/redrives", {}, account=OTHER_ACCOUNT).body["Redriven"] == 0
    assert states([row, waiting]) == ["failed", "queued"]
    assert not AsyncInvocation.objects.exclude(failure_kind__in=("", "model_server_error")).exists()


def test_a_page_s_token_of_one_account_is_nothing_to_another(plane: Plane, ask: Ask) -> None:
    now = plane.clock.now()
    for second in range(2):
        letter(endpoint(now, f"e{second}"), now + timedelta(seconds=second))
    token = ask("GET", f"{REQUESTS}?MaxResults=1").body["NextToken"]
    query = urlencode({"MaxResults": 1, "NextToken": token})
    assert ask("GET", f"{REQUESTS}?{query}").status == 200
    assert ask("GET", f"{REQUESTS}?{query}", account=OTHER_ACCOUNT).code == "ValidationException"


@pytest.mark.parametrize("path", ["/nothing", "/00000000", "/0e2b1f6c-4a3d-4c55-9a70-3c1f5b7d9e11/redrive"])
def test_what_is_no_request_has_the_wire_s_form(plane: Plane, ask: Ask, path: str) -> None:
    assert ask("GET", REQUESTS + path).body["__type"] == "UnknownOperationException"
