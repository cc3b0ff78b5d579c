"""The story of a real small language model: two instances, streams, and a cache that only helps who comes back to it.

Asked with boto3 and the OpenAI SDK alone; every step checks the value it shows and raises StoryFailed when it is not the
right one. The model is a base model of 270 million weights: what it says is no answer, that it says it is the point.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, WaiterError

from deploy.demo.story import Say, StoryFailed

NAME, IMAGE, TYPE = "demo-llm", "headrace/llama:latest", "ml.c5.xlarge"
INSTANCES, CONVERSATIONS_LIMIT, TURNS = 2, 6, 3
PATIENCE_SECONDS = 180
ROUTING = {
    "RoutingStrategy": "PREFIX_AWARE",
    "PrefixAwareRoutingConfig": {"PrefixLength": 1024, "ConcurrencyThreshold": 8},
}
CACHED_SHARE = 0.8
"""Of a later turn's prompt that must have been in the instance's cache."""

Ask = Callable[[dict[str, Any]], dict[str, Any]]
"""One streamed chat with the OpenAI SDK; see `llm_client`."""

Meters = Callable[[], dict[str, int]]
"""By instance: prompt tokens that it has computed, as its own metrics say."""


class LlmStory:
    """One telling; `ask` and `meters` are the means that the API does not give."""

    def __init__(self, url: str, keys: dict[str, str], say: Say, ask: Callable[[], Ask], meters: Meters) -> None:
        session = boto3.Session(**keys, region_name="us-east-1")
        patient = Config(read_timeout=PATIENCE_SECONDS)
        self._sagemaker = session.client("sagemaker", endpoint_url=url)
        self._runtime = session.client("sagemaker-runtime", endpoint_url=url, config=patient)
        self._say = say
        self._ask = ask
        self._meters = meters

    def tell(self) -> None:
        """Tell it from the beginning to the end, leaving nothing behind."""
        self._clean()
        self._start_the_model()
        self._stream_natively()
        self._converse()
        self._clean()
        self._say("Deleted, with everything it ran on.")

    def _start_the_model(self) -> None:
        self._say(f"1. Create an endpoint of {INSTANCES} instances, each with the model loaded, routed by prefix.")
        self._sagemaker.create_model(ModelName=NAME, PrimaryContainer={"Image": IMAGE})
        variant = {
            "VariantName": "main",
            "ModelName": NAME,
            "InitialInstanceCount": INSTANCES,
            "InstanceType": TYPE,
            "RoutingConfig": ROUTING,
        }
        self._sagemaker.create_endpoint_config(EndpointConfigName=NAME, ProductionVariants=[variant])
        started = time.monotonic()
        self._sagemaker.create_endpoint(EndpointName=NAME, EndpointConfigName=NAME)
        try:
            self._sagemaker.get_waiter("endpoint_in_service").wait(
                EndpointName=NAME, WaiterConfig={"Delay": 1, "MaxAttempts": PATIENCE_SECONDS}
            )
        except WaiterError as error:
            described = self._sagemaker.describe_endpoint(EndpointName=NAME)
            raise StoryFailed(described.get("FailureReason", str(error))) from error
        self._say(f"   InService after {time.monotonic() - started:.1f} s.")

    def _stream_natively(self) -> None:
        self._say("2. boto3: InvokeEndpointWithResponseStream, piece by piece as the model makes them.")
        body = {"prompt": "Water runs down the", "max_tokens": 16, "temperature": 0, "stream": True}
        started = time.monotonic()
        answer = self._runtime.invoke_endpoint_with_response_stream(
            EndpointName=NAME, ContentType="application/json", Body=json.dumps(body)
        )
        times, text = [], ""
        for words in _words(answer["Body"]):
            times.append(time.monotonic() - started)
            text += words
        self._say(f'   "{body["prompt"]}{text}"')
        self._say(f"   {len(times)} pieces; the first after {times[0] * 1000:.0f} ms, the last after {times[-1]:.1f} s.")
        _check(len(times) >= 8 and times[-1] > times[0], "the answer came in one piece")

    def _converse(self) -> None:
        self._say("3. OpenAI SDK: conversations, each with a long text of its own; a later turn finds it in the cache.")
        self._say("   conversation  turn  prompt  cached  first words after  pieces")
        ask, served = self._ask(), set[str]()
        for number in range(1, CONVERSATIONS_LIMIT + 1):
            served.add(self._conversation(ask, number))
            if number >= INSTANCES and len(served) == INSTANCES:
                break
        self._say(f"   {number} conversations on {len(served)} instances: {', '.join(sorted(served))}.")
        _check(len(served) == INSTANCES, "all conversations went to one instance")

    def _conversation(self, ask: Ask, number: int) -> str:
        """Its turns; returns the one instance that had them all."""
        before, messages, firsts = self._meters(), [{"role": "system", "content": _text(number)}], list[float]()
        for turn in range(1, TURNS + 1):
            messages.append({"role": "user", "content": f"Question {turn}: where does it go?"})
            answer = ask({"messages": messages, "max_tokens": 12})
            messages.append({"role": "assistant", "content": answer["text"]})
            firsts.append(answer["first_seconds"])
            prompt, cached = answer["prompt_tokens"], answer["cached_tokens"]
            first, pieces = f"{firsts[-1] * 1000:,.0f} ms", answer["pieces"]
            self._say(f"   {number:>12}  {turn:>4}  {prompt:>6}  {cached:>6}  {first:>17}  {pieces:>6}")
            if turn > 1:
                _check(cached > CACHED_SHARE * prompt, f"only {cached} of {prompt} tokens were cached")
        _check(max(firsts[1:]) < firsts[0], "the cache made no later turn faster")
        after = self._meters()
        busy = [name for name in after if after[name] > before.get(name, 0)]
        _check(len(busy) == 1, f"the turns of one conversation went to {busy}")
        return busy[0]

    def _clean(self) -> None:
        with suppress(ClientError):
            self._sagemaker.delete_endpoint(EndpointName=NAME)
        with suppress(ClientError):
            self._sagemaker.delete_endpoint_config(EndpointConfigName=NAME)
        with suppress(ClientError):
            self._sagemaker.delete_model(ModelName=NAME)
        deadline, pause = time.monotonic() + PATIENCE_SECONDS, threading.Event()
        while self._exists():
            _check(time.monotonic() < deadline, "the endpoint was not deleted")
            pause.wait(0.2)

    def _exists(self) -> bool:
        return bool(self._sagemaker.list_endpoints(NameContains=NAME)["Endpoints"])


def _words(stream: Any) -> Iterator[str]:
    """The words of each server-sent event in an event stream of parts, which may break an event anywhere."""
    held = b""
    for part in stream:
        held += part["PayloadPart"]["Bytes"]
        while b"\n\n" in held:
            event, _, held = held.partition(b"\n\n")
            data = event.removeprefix(b"data: ")
            if data != b"[DONE]" and (text := json.loads(data)["choices"][0].get("text")):
                yield text


def _text(number: int) -> str:
    """A text of some 1,400 characters that shares no beginning with another number's."""
    lines = (f"Weir {number}-{line} sends {line * number} barrels of water down channel {line}." for line in range(1, 25))
    return f"Mill number {number}. " + " ".join(lines)


def _check(is_right: bool, words: str) -> None:
    if not is_right:
        raise StoryFailed(words)
