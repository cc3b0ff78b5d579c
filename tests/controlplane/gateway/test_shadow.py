"""Shadow variants through the running gateway: copies reach them, and nothing of theirs reaches the caller."""

import json
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import openai
import pytest
from botocore.exceptions import ClientError

from controlplane.core import clock
from controlplane.routing.table import Capture, Route, Target, VariantRoute, encode
from tests.controlplane.gateway.chatting import token
from tests.controlplane.gateway.site import (
    INVOCATION_TIMEOUT_SECONDS,
    LEAST,
    PAYLOAD_LIMIT_BYTES,
    Container,
    NewContainer,
    Site,
    wait_for,
)
from tests.controlplane.gateway.test_capture import bucket, kept  # noqa: F401 - a fixture
from tests.controlplane.gateway.test_counting import total
from tests.controlplane.routing.peers import free_port
from tests.engines_plugin import ACCOUNT


def publish(site: Site, name: str, production: Target, shadow: Target, weight: float = 1.0, **changes: Any) -> None:
    """Let an endpoint serve from one instance, with another as its shadow."""
    endpoint_id = site.publish(name, production)
    variants = (VariantRoute("main", 1.0, LEAST, (production,)),)
    shadows = (replace(VariantRoute("new", weight, LEAST, (shadow,)), **changes),)
    route = Route(str(endpoint_id), ACCOUNT, name, "InService", True, None, variants, shadows)
    site.write_document(endpoint_id, name, encode(route))
    wait_for(lambda: site.post(f"/endpoints/{name}/invocations", b"warm-up").status == 200)


def call(site: Site, name: str, mode: str = "name", **members: Any) -> tuple[bytes, str]:
    answer = site.client().invoke_endpoint(EndpointName=name, CustomAttributes=f"mode={mode}", **members)
    return answer["Body"].read(), answer["InvokedProductionVariant"]


def bodies(container: Container) -> list[int]:
    """The lengths of the bodies that reached a container."""
    return [line["length"] for line in container.received()]


def test_a_shadow_gets_copies_and_the_caller_never_hears_of_it(site: Site, containers: NewContainer) -> None:
    main, new = containers("production"), containers("shadow")
    publish(site, "shadowed", main.target, new.target)
    lengths = list(range(100, 110))
    for length in lengths:
        assert call(site, "shadowed", Body=b"x" * length, InferenceId=f"id-{length}") == (b"production", "main")
    wait_for(lambda: set(lengths) <= set(bodies(new)))
    assert set(lengths) <= set(bodies(main))
    assert {f"id-{length}" for length in lengths} <= {line["inference_id"] for line in new.received()}
    wait_for(lambda: total(site, "shadowed", "Invocations", "new") >= 10)
    with pytest.raises(ClientError, match="not found"):
        call(site, "shadowed", Body=b"", TargetVariant="new")


def test_streams_and_chats_are_copied_too(site: Site, containers: NewContainer) -> None:
    main, new = containers("production"), containers("shadow")
    publish(site, "shadowed-streams", main.target, new.target)
    stream = site.client().invoke_endpoint_with_response_stream(
        EndpointName="shadowed-streams", Body=b"s" * 500, CustomAttributes="mode=chunked"
    )
    assert b"".join(each["PayloadPart"]["Bytes"] for each in stream["Body"]) == b"s" * 500
    with openai.OpenAI(base_url=f"{site.url}/endpoints/shadowed-streams/openai/v1", api_key=token(site)) as client:
        client.chat.completions.create(model="", messages=[{"role": "user", "content": "hi"}])
        client.models.list()
    wait_for(lambda: {"/invocations", "/v1/chat/completions"} <= {line["path"] for line in new.received()})
    assert "/v1/models" not in {line["path"] for line in new.received()}


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_a_share_of_the_calls_is_copied(site: Site, containers: NewContainer, weight: float) -> None:
    main, new = containers("production"), containers("shadow")
    name = f"shadowed-share-{int(weight * 10)}"
    publish(site, name, main.target, new.target, weight)
    for _ in range(120):
        call(site, name, Body=b"x" * 77)
    count = bodies(main).count(77)
    assert count == 120
    wait_for(lambda: total(site, name, "Invocations") >= count)
    copied = (
        wait_for(lambda: total(site, name, "Invocations", "new") == len(new.received()) and len(new.received()) + 1) - 1
    )
    assert copied == 0 if weight == 0 else 30 < copied < 91


@pytest.mark.parametrize("trouble", ["gone", "silent"])
def test_a_shadow_in_trouble_is_not_the_callers(site: Site, containers: NewContainer, trouble: str) -> None:
    main, new = containers("production"), containers("shadow")
    gone = Target("gone", f"127.0.0.1:{free_port()}", "ml.m5.large", False)
    publish(site, f"shadowed-{trouble}", main.target, gone if trouble == "gone" else new.target)
    new.process.send_signal(signal.SIGSTOP)
    began = clock.monotonic()
    for _ in range(10):
        assert call(site, f"shadowed-{trouble}", Body=b"x") == (b"production", "main")
    assert clock.monotonic() - began < INVOCATION_TIMEOUT_SECONDS, "no call waited for the shadow"


def test_copies_beyond_the_limit_are_dropped_and_the_calls_are_not(
    new_site: Callable[..., Site], containers: NewContainer
) -> None:
    site = new_site()
    main, new = containers("production"), containers("shadow")
    publish(site, "shadowed-flood", main.target, new.target)
    new.process.send_signal(signal.SIGSTOP)
    with ThreadPoolExecutor(8) as callers:
        answers = list(callers.map(lambda _: call(site, "shadowed-flood", Body=b"x" * PAYLOAD_LIMIT_BYTES), range(48)))
    assert answers == [(b"production", "main")] * 48
    assert "copies were dropped" in site.log()


def test_a_session_is_not_copied(site: Site, containers: NewContainer) -> None:
    main, new = containers("production"), containers("shadow")
    publish(site, "shadowed-session", main.target, new.target)
    call(site, "shadowed-session", "session:60", Body=b"x" * 33, SessionId="NEW_SESSION")
    call(site, "shadowed-session", Body=b"x" * 34)
    wait_for(lambda: 34 in bodies(new))
    assert 33 not in bodies(new)


def test_what_a_shadow_answers_is_captured_as_its_own(
    site: Site,
    containers: NewContainer,
    bucket: str,  # noqa: F811 - the fixture
) -> None:
    main, new = containers("production"), containers("shadow")
    capture = Capture(f"s3://{bucket}", 100, True, True, ("text/plain",))
    publish(site, "shadowed-kept", main.target, new.target, capture=capture)
    assert call(site, "shadowed-kept", Body=b"q", InferenceId="kept-1")[0] == b"production"

    def line() -> Any:
        return [each for each in kept(bucket) if each[1]["eventMetadata"].get("inferenceId") == "kept-1"]

    ((key, document),) = wait_for(line)
    assert key.startswith("shadowed-kept/new/")
    assert document["captureData"]["endpointOutput"]["data"] == "shadow"
    assert json.dumps(document)
