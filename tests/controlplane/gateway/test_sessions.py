"""Sticky sessions: through the running gateway to real containers, and what is read of a container's headers by itself."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from controlplane.gateway.sessions import DEFAULT_LIFE, read_new
from controlplane.routing.table import Target, VariantRoute
from tests.controlplane.gateway.site import LEAST, NewContainer, Site, wait_for

NOW = datetime(2026, 11, 3, 12, 0, 0, tzinfo=UTC)


def call(site: Site, endpoint: str, session: str, body: bytes = b"", **members: Any) -> dict[str, Any]:
    """One call in a session; containers are told to make ones of a minute."""
    given = {"CustomAttributes": "mode=session:60", **members}
    answer: dict[str, Any] = site.client().invoke_endpoint(EndpointName=endpoint, SessionId=session, Body=body, **given)
    answer["Body"] = answer["Body"].read()
    return answer


def opened(site: Site, endpoint: str, **members: Any) -> str:
    """The id of a new session."""
    session_id, _, end = call(site, endpoint, "NEW_SESSION", **members)["NewSessionId"].partition("; ")
    assert end.startswith("Expires=")
    return str(session_id)


def refusal(site: Site, endpoint: str, session: str, **members: Any) -> str:
    """The message of a refused call."""
    with pytest.raises(ClientError) as caught:
        call(site, endpoint, session, **members)
    assert caught.value.response["Error"]["Code"] == "ValidationError"
    return str(caught.value.response["Error"]["Message"])


def test_a_session_stays_with_its_instance_until_it_is_closed(site: Site, containers: NewContainer) -> None:
    running = [containers(name) for name in ("a", "b", "c")]
    site.publish("sticky", *[each.target for each in running])
    sessions = [opened(site, "sticky") for _ in range(4)]
    for calls in range(2, 6):
        assert [json.loads(call(site, "sticky", each)["Body"])["calls"] for each in sessions] == [calls] * 4
    assert call(site, "sticky", sessions[0], b"CLOSE")["ClosedSessionId"] == sessions[0]
    assert "was not found or has ended" in refusal(site, "sticky", sessions[0])
    assert json.loads(call(site, "sticky", sessions[1])["Body"])["calls"] == 6


def test_a_session_wins_over_the_variant_that_is_asked_for(site: Site, containers: NewContainer) -> None:
    first, second = containers("first"), containers("second")
    variants = tuple(VariantRoute(name, 1.0, LEAST, (each.target,)) for name, each in (("a", first), ("b", second)))
    site.publish("sticky-variants", variants=variants)
    session = opened(site, "sticky-variants", TargetVariant="b")
    assert call(site, "sticky-variants", session, TargetVariant="a")["InvokedProductionVariant"] == "b"


def test_a_stream_goes_to_its_session_but_opens_none(site: Site, containers: NewContainer) -> None:
    running = [containers(name) for name in ("a", "b", "c")]
    site.publish("sticky-streams", *[each.target for each in running])
    session = opened(site, "sticky-streams")
    stream = site.client().invoke_endpoint_with_response_stream
    common = {"EndpointName": "sticky-streams", "Body": b"", "CustomAttributes": "mode=session:60"}
    for calls in range(2, 6):
        pieces = stream(SessionId=session, **common)["Body"]
        assert json.loads(b"".join(each["PayloadPart"]["Bytes"] for each in pieces)) == {"calls": calls}
    with pytest.raises(ClientError, match="sessionId"):
        stream(SessionId="NEW_SESSION", **common)


def test_a_session_survives_the_gateway_and_is_known_to_its_siblings(
    new_site: Callable[..., Site], containers: NewContainer
) -> None:
    site, sibling = new_site(), new_site()
    running = [containers(name) for name in ("a", "b", "c")]
    site.publish("sticky-kept", *[each.target for each in running])
    wait_for(lambda: site.post("/endpoints/sticky-kept/invocations").status == 200)
    wait_for(lambda: sibling.post("/endpoints/sticky-kept/invocations").status == 200)
    sessions = [opened(site, "sticky-kept") for _ in range(4)]
    assert [json.loads(call(sibling, "sticky-kept", each)["Body"])["calls"] for each in sessions] == [2] * 4
    site.stop()
    site.start()
    wait_for(lambda: site.post("/endpoints/sticky-kept/invocations").status == 200)
    assert [json.loads(call(site, "sticky-kept", each)["Body"])["calls"] for each in sessions] == [3] * 4


def test_a_session_ends_when_its_container_said_it_would(site: Site, containers: NewContainer) -> None:
    site.publish("sticky-short", containers("a").target)
    session = opened(site, "sticky-short", CustomAttributes="mode=session:1")

    def has_ended() -> bool:
        answer = site.post("/endpoints/sticky-short/invocations", b"", {"X-Amzn-SageMaker-Session-Id": session})
        return answer.status == 400 and b"has ended" in answer.body

    wait_for(has_ended)


def test_a_session_goes_with_its_instance(site: Site, containers: NewContainer) -> None:
    holder, other = containers("holder"), containers("other")
    site.publish("sticky-gone", holder.target)
    session = opened(site, "sticky-gone")
    draining = Target(holder.instance_id, holder.address, "ml.m5.large", True)
    site.publish("sticky-gone", draining, other.target)
    path, header = "/endpoints/sticky-gone/invocations", {"X-Amzn-SageMaker-Session-Id": session}
    wait_for(lambda: b"has ended" in site.post(path, b"", header).body)
    assert len(other.received()) == 0


def test_an_unreachable_holder_is_no_reason_to_go_elsewhere(site: Site, containers: NewContainer) -> None:
    holder, other = containers("holder"), containers("other")
    site.publish("sticky-down", holder.target)
    session = opened(site, "sticky-down")
    site.publish("sticky-down", holder.target, other.target)
    holder.process.kill()
    holder.process.wait()
    answer = site.post("/endpoints/sticky-down/invocations", b"", {"X-Amzn-SageMaker-Session-Id": session})
    assert (answer.status, answer.json["OriginalStatusCode"]) == (424, 0)
    assert len(other.received()) == 0


@pytest.mark.parametrize("session", ["nobody", "a" * 256])
def test_an_unknown_session_is_refused(site: Site, containers: NewContainer, session: str) -> None:
    site.publish("sticky-unknown", containers("a").target)
    assert "was not found or has ended" in refusal(site, "sticky-unknown", session)


@pytest.mark.parametrize("session", ["NEW-SESSION_", "a b", "a" * 257])
def test_an_id_of_another_form_is_refused(site: Site, containers: NewContainer, session: str) -> None:
    site.publish("sticky-unknown", containers("a").target)
    assert "sessionId" in refusal(site, "sticky-unknown", session)


# What is read of a container's header.


def test_the_end_of_a_session_is_read() -> None:
    assert read_new("abc-1; Expires=2026-11-03T12:20:00Z", NOW) == ("abc-1", NOW + timedelta(minutes=20))


@pytest.mark.parametrize("text", ["abc-1", "abc-1; Expires=soon", "abc-1;Expires=2026-99-01T00:00:00Z"])
def test_a_session_without_a_readable_end_has_the_usual_life(text: str) -> None:
    assert read_new(text, NOW) == ("abc-1", NOW + DEFAULT_LIFE)


@given(st.text(max_size=300))
def test_whatever_a_container_says_is_read_or_passed_over(text: str) -> None:
    found = read_new(text, NOW)
    if found is not None:
        session_id, end = found
        assert text.strip().startswith(session_id)
        assert 0 < len(session_id) <= 256
        assert end.tzinfo is not None
