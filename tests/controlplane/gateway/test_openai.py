"""The OpenAI-style paths through the running gateway: an unmodified openai client, and raw requests where bytes matter."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from http.client import HTTPConnection, IncompleteRead
from typing import Any

import openai
import pytest

from controlplane.core import clock
from controlplane.routing.table import Target, VariantRoute
from tests.controlplane.gateway.chatting import BASE, CHAT, HELLO, ask, calling, chaos, refused, say, token
from tests.controlplane.gateway.held import held
from tests.controlplane.gateway.site import (
    LEAST,
    PATIENCE_SECONDS,
    PAYLOAD_LIMIT_BYTES,
    Container,
    NewContainer,
    Site,
    wait_for,
)
from tests.controlplane.gateway.test_counting import total
from tests.controlplane.routing.peers import free_port

pytestmark = pytest.mark.usefixtures("chatty_ends")

EVENTS = (*(b'data: {"number": %d}\n\n' % number for number in range(4)), b"data: [DONE]\n\n")


@pytest.fixture
def client(site: Site) -> Iterator[openai.OpenAI]:
    """An unmodified client that does not try again."""
    with calling(site, token(site)) as made:
        yield made


# What goes through.


def test_a_chat_is_answered(client: openai.OpenAI, chatty: Container) -> None:
    answer = say(client)
    assert answer.choices[0].message.content == "hello  you"
    assert answer.usage.total_tokens > 0
    assert answer._request_id


def test_a_chat_is_streamed_with_its_usage_as_asked(client: openai.OpenAI, chatty: Container) -> None:
    chunks = list(say(client, stream=True, stream_options={"include_usage": True}))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "hello  you"
    assert chunks[-1].usage.total_tokens > 0
    assert all(chunk.usage is None for chunk in say(client, stream=True))


def test_completions_and_models_are_served(client: openai.OpenAI, chatty: Container) -> None:
    assert client.completions.create(model="any", prompt="once upon").choices[0].text == "once upon"
    assert [model.id for model in client.models.list()] == ["reference"]


@pytest.mark.parametrize("base", [f"{BASE}/", f"{BASE}//"])
def test_a_base_url_may_end_in_slashes(site: Site, chatty: Container, base: str) -> None:
    with openai.OpenAI(base_url=site.url + base, api_key=token(site), max_retries=0) as client:
        assert say(client).choices


@pytest.mark.parametrize("path", [f"{BASE}//chat/completions", f"{CHAT}/"])
def test_slashes_too_many_are_forgiven(site: Site, chatty: Container, path: str) -> None:
    assert ask(site, json.dumps({"messages": HELLO}).encode(), path).status == 200


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":[{"content":"\xc3\xa4"}],  "model": null}',
        b'{"stream":"true"}',
        b"not JSON",
        b"",
        b"[1]",
        b"x" * 500_000,
    ],
)
def test_the_body_reaches_the_container_as_it_is(site: Site, chatty: Container, body: bytes) -> None:
    status = ask(site, body).status
    (received,) = chatty.received()
    assert (received["path"], received["length"]) == ("/v1/chat/completions", len(body))
    assert status == (200 if b"messages" in body else 400)
    assert received["headers"]["content-length"] == str(len(body))
    assert "authorization" not in received["headers"]


def test_events_pass_byte_for_byte(site: Site, chatty: Container) -> None:
    answer = ask(site, json.dumps({"messages": HELLO, "chaos": "events:3:0.05"}).encode())
    events = "".join(f'id: {number}\ndata: {{"number": {number}}}\n\n' for number in range(3))
    assert answer.body.decode() == f": waiting\r\n\r\n{events}data: [DONE]\n\n"
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-amzn-invoked-production-variant"] == "main"
    assert answer.headers["x-amzn-requestid"] == answer.headers["x-request-id"]


def test_events_go_out_as_they_come(site: Site, client: openai.OpenAI) -> None:
    came = 0
    with held(*EVENTS, free=1, content_type="text/event-stream") as instance:
        site.publish("chatty", instance.target)
        for _ in say(client, stream=True):
            came += 1
            instance.allow()
    assert came == 4


def test_members_of_the_native_path_are_understood(site: Site, containers: NewContainer) -> None:
    first, second = containers("first"), containers("second")
    variants = tuple(VariantRoute(each, 1.0, LEAST, (running.target,)) for each, running in (("a", first), ("b", second)))
    site.publish("chatty", variants=variants)
    body = json.dumps({"messages": HELLO}).encode()
    named = {"X-Amzn-SageMaker-Target-Variant": "b", "X-Amzn-SageMaker-Inference-Id": "id-1"}
    shown = Counter(ask(site, body, headers=named).headers["x-amzn-invoked-production-variant"] for _ in range(8))
    assert shown == {"b": 8}
    assert {line["inference_id"] for line in second.received()} == {"id-1"}


def test_calls_are_counted_and_balanced_until_their_last_byte(site: Site) -> None:
    address = f"{site.url}/endpoints/chatty-balanced/openai/v1"
    with ExitStack() as stack:
        running = [stack.enter_context(held(*EVENTS, free=1, content_type="text/event-stream")) for _ in range(2)]
        site.publish("chatty-balanced", *[each.target for each in running])
        client = stack.enter_context(openai.OpenAI(base_url=address, api_key=token(site), max_retries=0))
        streams = [iter(say(client, stream=True)) for _ in range(4)]
        for stream in streams:
            next(stream)
        assert [each.received for each in running] == [2, 2]
        for each in running:
            each.allow(2 * len(EVENTS))
        assert [len(list(stream)) for stream in streams] == [3] * 4
    wait_for(lambda: total(site, "chatty-balanced", "Invocations") == 4)
    assert total(site, "chatty-balanced", "InvocationModelErrors") == 0


def test_a_client_that_hangs_up_ends_the_work_of_the_container(client: openai.OpenAI, chatty: Container) -> None:
    stream = say(client, stream=True, **chaos("events:100000:0.05"))
    for _ in range(3):
        next(stream)
    stream.close()
    wait_for(lambda: [line["event"] for line in chatty.journal()] == ["received", "client-abort"])


# Who may call.


def test_without_a_token_nothing_is_read_or_carried(site: Site, chatty: Container) -> None:
    answer = site.request("POST", CHAT, b"{}")
    assert (answer.status, answer.json["error"]["code"]) == (401, "missing_authentication_token")
    with calling(site, "sk-123") as client, pytest.raises(openai.PermissionDeniedError, match="not of the form"):
        say(client)
    assert chatty.received() == []


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"now": clock.now() - timedelta(days=400)}, "expired"),
        ({"region": "eu-west-1"}, "eu-west-1"),
    ],
)
def test_a_token_that_is_not_good_is_refused(site: Site, chatty: Container, changes: dict[str, Any], text: str) -> None:
    with calling(site, token(site, **changes)) as client, pytest.raises(openai.PermissionDeniedError, match=text):
        say(client)
    assert chatty.received() == []


def test_a_signed_request_is_taken_where_the_switch_is_on(
    site: Site, new_site: Callable[..., Site], chatty: Container
) -> None:
    body = json.dumps({"messages": HELLO}).encode()
    assert refused(site.post(CHAT, body), 403, "incomplete_signature")
    taking = new_site(HEADRACE_OPENAI_SIGV4="1")
    assert wait_for(lambda: taking.post(CHAT, body).status == 200)


# What is refused, and how.


def test_an_endpoint_that_does_not_serve_is_a_bad_request(site: Site, chatty: Container) -> None:
    path = "/endpoints/nobody/openai/v1/chat/completions"
    assert "not found" in refused(ask(site, b"{}", path), 400, "validation_error")
    site.publish("chatty", chatty.target, status="Deleting")
    assert wait_for(lambda: ask(site, b"{}").status == 400)


def test_an_asynchronous_endpoint_is_a_bad_request(site: Site, chatty: Container) -> None:
    site.publish("chatty", chatty.target, failure_path="")
    wait_for(lambda: ask(site, b"{}").status == 400 and b"inference type" in ask(site, b"{}").body)


def test_inference_components_are_refused_by_path_and_by_header(site: Site, chatty: Container) -> None:
    path = "/endpoints/chatty/inference-components/part/openai/v1/chat/completions"
    assert f"has no inference components; call it as {CHAT}" in refused(ask(site, b"{}", path), 400, "validation_error")
    named = {"X-Amzn-SageMaker-Inference-Component": "part"}
    assert "Inference Component" in refused(ask(site, b"{}", headers=named), 400, "validation_error")
    assert chatty.received() == []


def test_other_paths_and_methods_are_told_in_the_envelope(site: Site, chatty: Container) -> None:
    for path in (f"{BASE}/embeddings", BASE, "/endpoints/chatty/openai", f"{BASE}/../v1/models"):
        assert refused(ask(site, b"{}", path), 404, "unknown_operation")
    answer = ask(site, b"", method="GET")
    assert "use POST" in refused(answer, 405, "unknown_operation")
    assert answer.headers["allow"] == "POST"


def test_a_body_beyond_the_limit_is_refused(site: Site, chatty: Container) -> None:
    assert refused(ask(site, b"x" * (PAYLOAD_LIMIT_BYTES + 1)), 413, "request_entity_too_large")


def test_no_instance_is_told_with_when_to_come_again(site: Site, chatty: Container, client: openai.OpenAI) -> None:
    site.publish("chatty", Target("going", chatty.address, "ml.m5.large", True))
    answer = wait_for(lambda: (got := ask(site, b"{}")).status == 503 and got)
    refused(answer, 503, "service_unavailable")
    assert 0 < int(answer.headers["retry-after"]) <= 60
    with pytest.raises(openai.InternalServerError):
        say(client)


@pytest.mark.parametrize(
    ("status", "raised"),
    [
        (400, openai.BadRequestError),
        (404, openai.NotFoundError),
        (422, openai.UnprocessableEntityError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
        (503, openai.InternalServerError),
    ],
)
def test_a_container_that_says_no_keeps_its_status(
    client: openai.OpenAI, chatty: Container, status: int, raised: type[openai.APIStatusError]
) -> None:
    with pytest.raises(raised) as caught:
        say(client, **chaos(f"http:{status}"))
    assert caught.value.code == "model_error"
    assert "the model says no" in caught.value.message
    assert len(chatty.received()) == 1


def test_a_long_answer_that_says_no_is_quoted_in_part(site: Site, chatty: Container) -> None:
    body = json.dumps({"messages": HELLO, "chaos": "http:500:10MB"}).encode()
    assert refused(ask(site, body), 500, "model_error").count("x" * 1000) == 1


@pytest.mark.parametrize("mode", ["crash", "garbage", "hang:60", "lie", "events-cut:0", "redirect:http://127.0.0.1:1/"])
def test_a_container_that_gives_no_answer_is_a_model_error_that_is_not_repeated(
    hasty_site: Site, chatty: Container, mode: str
) -> None:
    site = hasty_site
    with calling(site, token(site), max_retries=2) as client, pytest.raises(openai.APIStatusError) as caught:
        say(client, **chaos(mode))
    assert (caught.value.status_code, caught.value.code) == (424, "model_error")
    assert len(chatty.received()) == 1


def test_an_instance_that_cannot_be_reached_is_passed_over(site: Site, chatty: Container, client: openai.OpenAI) -> None:
    site.publish("chatty", Target("gone", f"127.0.0.1:{free_port()}", "ml.m5.large", False), chatty.target)
    assert all(say(client).choices for _ in range(8))


def test_a_stream_that_breaks_is_cut_off_and_nothing_is_added(site: Site, chatty: Container) -> None:
    body = json.dumps({"messages": HELLO, "chaos": "events-cut:2"}).encode()
    connection = HTTPConnection("127.0.0.1", site.port, timeout=PATIENCE_SECONDS)
    connection.request("POST", CHAT, body, {"Authorization": f"Bearer {token(site)}"})
    answer = connection.getresponse()
    with pytest.raises(IncompleteRead) as caught:
        answer.read()
    connection.close()
    assert caught.value.partial == b'data: {"number": 0}\n\ndata: {"number": 1}\n\n'
