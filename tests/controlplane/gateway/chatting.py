"""The OpenAI-style paths of the endpoint `chatty` (see `conftest`): how tests call them, and how they are refused."""

from collections.abc import Mapping
from typing import Any

import openai

from controlplane.auth import bearer
from controlplane.auth.sigv4 import Key
from controlplane.core import clock
from tests.controlplane.gateway.site import Answer, Site
from tests.engines_plugin import ACCOUNT

BASE = "/endpoints/chatty/openai/v1"
CHAT = f"{BASE}/chat/completions"
HELLO = [{"role": "user", "content": "hello  you"}]


def token(site: Site, **changes: Any) -> str:
    """A token of the bootstrap key."""
    key = Key(site.env["HEADRACE_ACCESS_KEY_ID"], site.env["HEADRACE_SECRET_ACCESS_KEY"], ACCOUNT)
    options = {"region": "us-east-1", "service": "sagemaker", "now": clock.now(), "seconds": 600, **changes}
    return bearer.issue(key, **options)


def calling(site: Site, api_key: str, max_retries: int = 0) -> openai.OpenAI:
    """An unmodified client."""
    return openai.OpenAI(base_url=site.url + BASE, api_key=api_key, max_retries=max_retries)


def chaos(mode: str) -> dict[str, Any]:
    """What makes the container act up."""
    return {"extra_body": {"chaos": mode}}


def say(client: openai.OpenAI, **options: Any) -> Any:
    """Say hello."""
    return client.chat.completions.create(model="", messages=HELLO, **options)


def ask(
    site: Site, body: bytes, path: str = CHAT, method: str = "POST", headers: Mapping[str, str] | None = None
) -> Answer:
    """One raw request with a good token."""
    given = {"Authorization": f"Bearer {token(site)}", "Content-Type": "application/json", **(headers or {})}
    return site.request(method, path, body, given)


def refused(answer: Answer, status: int, code: str) -> str:
    """The message of an error in OpenAI's envelope."""
    error = answer.json["error"]
    assert (answer.status, set(error), error["code"]) == (status, {"message", "type", "param", "code"}, code)
    assert error["type"] == ("server_error" if status >= 500 or code == "model_error" else "invalid_request_error")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-amzn-requestid"]
    message: str = error["message"]
    return message
