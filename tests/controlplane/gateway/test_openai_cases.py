"""Public failures of other gateways, replayed on the OpenAI-style paths: odd bodies, slow events, errors and retries."""

import hashlib
import json
import threading
from typing import Any

import openai
import pytest

from controlplane.core import clock
from controlplane.routing.table import Target
from tests.controlplane.gateway.chatting import ask, calling, chaos, refused, say, token
from tests.controlplane.gateway.site import HASTY_SECONDS, Answer, Container, Site
from tests.controlplane.routing.peers import free_port

pytestmark = pytest.mark.usefixtures("chatty_ends")

MESSAGES = b'"messages": [{"role":"user","content":"hello  you"}]'
EVENTS = "text/event-stream"


def carried(site: Site, chatty: Container, body: bytes) -> Answer:
    """The answer to a body, of which not one byte was changed on its way to the container."""
    answer = ask(site, body)
    (received,) = chatty.received()
    assert (received["length"], received["sha256"]) == (len(body), hashlib.sha256(body).hexdigest())
    return answer


def data_of(answer: Answer) -> list[str]:
    """What its events say, in order."""
    assert answer.headers["content-type"].startswith(EVENTS)
    events = answer.body.decode().split("\n\n")
    assert events.pop() == ""
    return [event.removeprefix("data: ") for event in events]


# What a body says is for the container alone.


@pytest.mark.parametrize("model", ["", "chatty", "gpt-4o", "org/model:tag", "m" * 300, "\u00e4\x00", None, 5])
def test_the_model_named_is_the_container_s_affair(site: Site, chatty: Container, model: str | int | None) -> None:
    answer = carried(site, chatty, b'{  "model":%s,%s}' % (json.dumps(model).encode(), MESSAGES))
    assert (answer.status, answer.json["model"]) == (200, model)


def test_a_body_without_a_model_is_carried_too(site: Site, chatty: Container) -> None:
    assert carried(site, chatty, b"{%s}" % MESSAGES).status == 200


@pytest.mark.parametrize(
    ("options", "has_usage"),
    [
        (b"", False),
        (b',"stream_options": null', False),
        (b',"stream_options": {"include_usage": false}', False),
        (b',"stream_options": {"include_usage": true}', True),
        (b',"stream_options": {"include_usage": true, "continuous_usage_stats": true}', True),
    ],
)
def test_usage_is_told_if_and_only_if_the_container_tells_it(
    site: Site, chatty: Container, options: bytes, has_usage: bool
) -> None:
    *chunks, done = data_of(carried(site, chatty, b'{%s,"stream": true%s}' % (MESSAGES, options)))
    assert done == "[DONE]"
    parsed = [json.loads(chunk) for chunk in chunks]
    assert ["usage" in chunk for chunk in parsed] == [False] * (len(parsed) - 1) + [has_usage]
    assert [chunk["choices"] == [] for chunk in parsed] == ["usage" in chunk for chunk in parsed]


@pytest.mark.parametrize(
    ("members", "is_stream"),
    [
        (b'"stream": "true"', True),
        (b'"stream": 1', True),
        (b'"stream": true, "n": 0', True),
        (b'"stream": false, "stream": true', True),
        (b'"stream": true, "stream": false', False),
        (b'"stream": true, "chaos": "sha"', False),
        (b'"stream": false, "chaos": "events:1"', True),
    ],
)
def test_whether_an_answer_is_a_stream_is_for_the_container_to_say(
    site: Site, chatty: Container, members: bytes, is_stream: bool
) -> None:
    answer = carried(site, chatty, b"{%s, %s}" % (MESSAGES, members))
    assert answer.status == 200
    assert answer.headers["content-type"].startswith(EVENTS) == is_stream
    assert ("content-length" in answer.headers) == (not is_stream)
    assert answer.body.endswith(b"data: [DONE]\n\n") == is_stream


# Slow events.


def test_a_pause_in_the_midst_of_an_event_adds_nothing_to_it(hasty_site: Site, chatty: Container) -> None:
    """A stream may pause for longer than a whole answer may take; no sign of life is put between its bytes."""
    pause = 1.5 * HASTY_SECONDS
    began = clock.monotonic()
    answer = carried(hasty_site, chatty, b'{%s, "chaos": "events:1:%f"}' % (MESSAGES, pause))
    assert clock.monotonic() - began >= pause
    assert answer.body == b': waiting\r\n\r\nid: 0\ndata: {"number": 0}\n\ndata: [DONE]\n\n'


def test_a_client_understands_comments_ids_and_pauses(site: Site, chatty: Container) -> None:
    with calling(site, token(site)) as client:
        assert len(list(say(client, stream=True, **chaos("events:2:0.5")))) == 2


# Errors, and how often a call is made.


@pytest.mark.parametrize("kind", ["html", "empty", "nonutf8", "nul", "10MB"])
@pytest.mark.parametrize("status", [400, 500])
def test_whatever_a_failing_container_says_is_quoted_in_the_envelope(
    site: Site, chatty: Container, status: int, kind: str
) -> None:
    answer = carried(site, chatty, b'{%s, "chaos": "http:%d:%s"}' % (MESSAGES, status, kind.encode()))
    message = refused(answer, status, "model_error")
    assert str(status) in message
    assert ("<html><body>no</body></html>" in message) == (kind == "html")


def test_an_endpoint_that_is_being_created_is_told_in_the_envelope(site: Site, chatty: Container) -> None:
    site.publish("chatty-to-be", status="Creating")
    refused(ask(site, b"{}", "/endpoints/chatty-to-be/openai/v1/chat/completions"), 400, "validation_error")


def test_a_container_that_is_down_was_asked_nothing_and_may_be_asked_again(site: Site) -> None:
    site.publish("chatty-down", Target("gone", f"127.0.0.1:{free_port()}", "ml.m5.large", False))
    answer = ask(site, b"{}", "/endpoints/chatty-down/openai/v1/chat/completions")
    assert "can be reached" in refused(answer, 503, "service_unavailable")
    assert 0 < int(answer.headers["retry-after"]) <= 60


@pytest.mark.parametrize(("status", "calls"), [(400, 1), (404, 1), (422, 1), (429, 3), (500, 3), (503, 3)])
def test_a_refused_call_reaches_the_container_once_for_each_try_of_the_client(
    site: Site, chatty: Container, status: int, calls: int
) -> None:
    with calling(site, token(site), max_retries=2) as client, pytest.raises(openai.APIStatusError) as caught:
        say(client, **chaos(f"http:{status}"))
    assert (caught.value.status_code, len(chatty.received())) == (status, calls)


def test_a_client_that_comes_again_as_it_is_told_finds_the_instance_that_came(site: Site, chatty: Container) -> None:
    site.publish("chatty-cold")
    arrival = threading.Timer(1.0, site.publish, ["chatty-cold", chatty.target])
    options: dict[str, Any] = {"base_url": f"{site.url}/endpoints/chatty-cold/openai/v1", "api_key": token(site)}
    with openai.OpenAI(max_retries=10, **options) as client:
        arrival.start()
        assert say(client).choices[0].message.content == "hello  you"
    assert len(chatty.received()) == 1
