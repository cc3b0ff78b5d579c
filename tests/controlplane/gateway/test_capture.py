"""Data capture: through the running gateway into the store, and its bounds by themselves."""

import asyncio
import json
import os
import random
import re
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from uuid import uuid4

import openai
import pytest
from botocore.exceptions import ClientError, EventStreamError

from controlplane.core import clock
from controlplane.gateway import capture, capture_store
from controlplane.gateway.capture import Capturer, Recording
from controlplane.gateway.capture_record import Record
from controlplane.gateway.capture_store import CaptureStore
from controlplane.routing.table import Capture, Route, Target, VariantRoute
from tests import aws
from tests.controlplane.gateway.chatting import token
from tests.controlplane.gateway.site import LEAST, NewContainer, Site, wait_for
from tests.engines_plugin import ACCOUNT
from tests.fakes.clock import FakeClock

TYPES: dict[str, Any] = {"csv_types": ("text/csv",), "json_types": ("application/json",)}


@pytest.fixture
def bucket() -> str:
    """A bucket of the test's own in the store."""
    name = f"kept-{uuid4().hex[:8]}"
    store().create_bucket(Bucket=name)
    return name


def store() -> Any:
    return aws.client("s3", endpoint_url=os.environ["HEADRACE_S3_ENDPOINT_URL"], region_name="us-east-1")


def kept(bucket: str) -> list[tuple[str, dict[str, Any]]]:
    """What was captured: the object's key and the line, in order."""
    client, found = store(), []
    for each in client.list_objects_v2(Bucket=bucket).get("Contents", []):
        # The store lists an object a moment before it can be read.
        with suppress(client.exceptions.NoSuchKey):
            body = client.get_object(Bucket=bucket, Key=each["Key"])["Body"].read()
            found += [(each["Key"], json.loads(row)) for row in body.splitlines()]
    return found


def variant(bucket: str, *targets: Target, percentage: int = 100, **changes: Any) -> tuple[VariantRoute, ...]:
    given = {"takes_input": True, "takes_output": True, **TYPES, **changes}
    return (VariantRoute("main", 1.0, LEAST, targets, capture=Capture(f"s3://{bucket}/in", percentage, **given)),)


# Through the gateway.


def test_calls_of_every_path_are_captured(site: Site, containers: NewContainer, bucket: str) -> None:
    began = clock.now()
    site.publish("captured", variants=variant(bucket, containers("a").target))
    runtime = site.client()
    runtime.invoke_endpoint(EndpointName="captured", Body=b"1,2", ContentType="text/csv", InferenceId="id-1")["Body"].read()
    stream = runtime.invoke_endpoint_with_response_stream(EndpointName="captured", Body=b"\xff" * 5000, InferenceId="id-2")
    list(stream["Body"])
    with openai.OpenAI(base_url=f"{site.url}/endpoints/captured/openai/v1", api_key=token(site)) as client:
        list(client.chat.completions.create(model="", messages=[{"role": "user", "content": "hi"}], stream=True))
    wait_for(lambda: len(kept(bucket)) == 3)
    lines = {line["eventMetadata"].get("inferenceId", "chat"): line["captureData"] for _, line in kept(bucket)}
    sides = {name: (each["endpointInput"], each["endpointOutput"]) for name, each in lines.items()}
    assert [(side["encoding"], side["data"]) for side in sides["id-1"]] == [("CSV", "1,2")] * 2
    assert sides["id-2"][0]["encoding"] == "BASE64"
    assert sides["id-2"][0]["data"] == sides["id-2"][1]["data"]
    assert json.loads(sides["chat"][0]["data"])["stream"] is True
    assert sides["chat"][1]["observedContentType"] == "text/event-stream"
    assert {"/".join(key.split("/")[:3]) for key, _ in kept(bucket)} == {"in/captured/main"}
    hours = {at.strftime("%Y/%m/%d/%H") for at in (began, clock.now())}
    assert {"/".join(key.split("/")[3:7]) for key, _ in kept(bucket)} <= hours


def test_calls_that_fail_or_are_not_drawn_are_not_captured(site: Site, containers: NewContainer, bucket: str) -> None:
    running, runtime = containers("a"), site.client()
    site.publish("uncaptured", variants=variant(bucket, running.target))
    with pytest.raises(ClientError):
        runtime.invoke_endpoint(EndpointName="uncaptured", Body=b"", CustomAttributes="mode=http:500")
    broken = runtime.invoke_endpoint_with_response_stream(
        EndpointName="uncaptured", Body=b"", CustomAttributes="mode=cut-after:2"
    )
    with pytest.raises(EventStreamError):
        list(broken["Body"])
    site.publish("undrawn", variants=variant(bucket, running.target, percentage=0))
    for _ in range(5):
        runtime.invoke_endpoint(EndpointName="undrawn", Body=b"")["Body"].read()
    site.publish("drawn", variants=variant(bucket, running.target, takes_input=False))
    runtime.invoke_endpoint(EndpointName="drawn", Body=b"x")["Body"].read()
    wait_for(lambda: kept(bucket))
    ((key, line),) = kept(bucket)
    assert key.startswith("in/drawn/main/")
    assert set(line["captureData"]) == {"endpointOutput"}


def test_a_store_that_says_no_is_nobodys_trouble(site: Site, containers: NewContainer) -> None:
    site.publish("unkept", variants=variant("there-is-no-such-bucket", containers("a").target))
    for _ in range(3):
        assert site.client().invoke_endpoint(EndpointName="unkept", Body=b"x")["Body"].read() == b"x"
    lost = re.compile(r"(\d+) of them lost: s3://there-is-no-such-bucket/")
    wait_for(lambda: sum(map(int, lost.findall(site.log()))) == 3)


def test_a_gateway_that_is_stopped_writes_what_it_has(
    new_site: Callable[..., Site], containers: NewContainer, bucket: str
) -> None:
    site = new_site(HEADRACE_CAPTURE_SECONDS="600")
    site.publish("farewell", variants=variant(bucket, containers("a").target))
    wait_for(lambda: site.post("/endpoints/farewell/invocations", b"x").status == 200)
    assert kept(bucket) == []
    site.stop()
    assert len(kept(bucket)) == 1


def test_many_records_of_an_hour_share_an_object_until_it_is_large(
    bucket: str, monkeypatch: pytest.MonkeyPatch, fake_clock: FakeClock
) -> None:
    monkeypatch.setattr(capture_store, "OBJECT_BYTES", 100)
    shelf = CaptureStore(os.environ["HEADRACE_S3_ENDPOINT_URL"], "us-east-1")
    capturer = Capturer(shelf, 1.0)
    for size in (30, 40, 40, 300, 1, 2):
        begun = capturer.begin(ROUTE, variant(bucket)[0], {"Body": b"x" * size})
        assert begun is not None
        asyncio.run(_deliver(begun, [], is_cut=False))
    written(capturer)
    found: dict[str, int] = {}
    for key, _ in kept(bucket):
        found[key] = found.get(key, 0) + 1
    assert sorted(found.values()) == [1, 1, 2, 2]


# The bounds.


class _Shelf(CaptureStore):
    """A store that fails as often as it is told."""

    def __init__(self, failures: int = 0) -> None:
        super().__init__("", "us-east-1")
        self.failures = failures
        self.written: list[Record] = []

    def write(self, records: Iterable[Record]) -> tuple[list[Record], str]:
        if self.failures:
            self.failures -= 1
            return list(records), "no"
        self.written += records
        return [], ""


ROUTE = Route("e", ACCOUNT, "one", "InService", True, None, ())


def recorded(capturer: Capturer, body: bytes, *pieces: bytes, is_cut: bool = False) -> None:
    """One call that is recorded, if it is; cut off before its last piece or not."""
    begun = capturer.begin(ROUTE, variant("b")[0], {"Body": body})
    if begun is not None:
        asyncio.run(_deliver(begun, pieces, is_cut=is_cut))
        begun.close()


async def _deliver(recording: Recording, pieces: Iterable[bytes], *, is_cut: bool) -> None:
    async def answer() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    passed = [piece async for piece in _some(recording.tap(answer(), "x/y"), is_cut=is_cut)]
    assert is_cut or passed == list(pieces)


async def _some(pieces: AsyncIterator[bytes], *, is_cut: bool) -> AsyncIterator[bytes]:
    async for piece in pieces:
        yield piece
        if is_cut:
            return


def written(capturer: Capturer) -> None:
    with ThreadPoolExecutor(1) as thread:
        asyncio.run(capturer.write(thread))


def test_what_is_written_is_no_longer_held() -> None:
    shelf = _Shelf()
    capturer = Capturer(shelf, 1.0)
    recorded(capturer, b"in", b"out", b"put")
    recorded(capturer, b"cut", b"off", b"here", is_cut=True)
    assert capturer.held_bytes == capture.RECORD_BYTES + 8
    written(capturer)
    assert [(each.input.data, each.output.data) for each in shelf.written if each.input and each.output] == [
        (b"in", b"output")
    ]
    assert capturer.held_bytes == 0


@pytest.mark.parametrize(("failures", "is_kept"), [(1, True), (2, True), (3, False)])
def test_a_record_is_tried_three_times(failures: int, is_kept: bool) -> None:
    shelf = _Shelf(failures)
    capturer = Capturer(shelf, 1.0)
    recorded(capturer, b"in", b"out")
    for _ in range(failures + 1):
        written(capturer)
    assert (len(shelf.written), capturer.held_bytes) == (is_kept, 0)


def test_memory_is_bounded_and_what_does_not_fit_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "HELD_LIMIT_BYTES", 5000)
    shelf = _Shelf()
    capturer = Capturer(shelf, 1.0)
    for _ in range(4):
        recorded(capturer, b"x" * 1000, b"y" * 500, b"z" * 700)
    assert capturer.held_bytes <= 5000
    written(capturer)
    assert len(shelf.written) == 1
    assert capturer.held_bytes == 0


def test_a_side_that_is_too_large_is_left_out_of_its_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "SIDE_LIMIT_BYTES", 100)
    shelf = _Shelf()
    capturer = Capturer(shelf, 1.0)
    recorded(capturer, b"x" * 101, b"y")
    recorded(capturer, b"x", b"y" * 60, b"y" * 60)
    written(capturer)
    assert [(each.input is None, each.output is None) for each in shelf.written] == [(True, False), (False, True)]
    assert capturer.held_bytes == 0


@pytest.mark.parametrize("percentage", [0, 20, 100])
def test_the_share_that_is_asked_for_is_drawn(percentage: int) -> None:
    capturer = Capturer(_Shelf(), 1.0, random.Random(7))
    chosen = variant("b", percentage=percentage)[0]
    begun = [capturer.begin(ROUTE, chosen, {"Body": b""}) for _ in range(2000)]
    count = sum(each is not None for each in begun)
    assert abs(count - 20 * percentage) < 100
    for each in begun:
        if each is not None:
            each.close()
    assert capturer.held_bytes == 0
