"""The resource paths over a control plane in one process, called with requests that botocore signs.

Every answer is held against the OpenAPI document that the same process serves: one that drifts from it fails the test.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from django.conf import settings
from django.test import Client

from controlplane.auth.models import AccessKey, Account
from controlplane.auth.secrets import encrypt
from controlplane.core import clock
from tests.contract import openapi
from tests.fakes.clock import FakeClock
from tests.workers.conftest import plane
from tests.workers.plane import Plane

__all__ = ["plane"]

OTHER_ACCOUNT = "999999999999"
SECRET = "a-secret-of-the-tests"


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    code: str
    body: Any
    content: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


Ask = Callable[..., Answer]


@lru_cache(maxsize=1)
def document() -> openapi.Document:
    """What the resource paths say of themselves."""
    return openapi.Document(json.loads(Client().get("/api/v1/schema/").content))


def told(method: str, path: str, answer: Any) -> Answer:
    """The answer, once it was found to be one that the document describes."""
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    headers = {name.lower(): value for name, value in answer.headers.items()}
    document().check(method, path, openapi.Answer(answer.status_code, headers, content))
    is_json = "json" in headers.get("content-type", "")
    return Answer(
        answer.status_code,
        answer.headers.get("x-amzn-ErrorType", ""),
        json.loads(content) if content and is_json else None,
        content,
        answer.headers,
    )


@pytest.fixture
def fake_clock() -> Iterator[FakeClock]:
    """Starts at the real time, by which botocore signs."""
    fake = FakeClock(clock.SystemClock().now())
    previous = clock.use(fake)
    yield fake
    clock.use(previous)


@pytest.fixture
def ask(plane: Plane) -> Ask:
    """Send a request signed by an account: `ask("GET", "/api/v1/...", body, account=..., secret=...)`.

    Headers that are `added` are signed, those that are `slipped_in` come after the signature.
    """
    for account in (settings.HEADRACE.account_id, OTHER_ACCOUNT):
        Account.objects.get_or_create(account_id=account, defaults={"created_at": plane.clock.now()})
        encrypted = encrypt(SECRET, settings.HEADRACE.secret_key)
        now = plane.clock.now()
        AccessKey.objects.create(
            access_key_id=f"KEY{account}", account_id=account, secret_encrypted=encrypted, created_at=now
        )

    def send(method: str, path: str, body: object = None, **options: Any) -> Answer:
        content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if content else {}
        headers.update(options.get("added", {}))
        signed = AWSRequest(method=method, url=f"http://testserver{path}", data=content, headers=headers)
        key = options.get("key") or f"KEY{options.get('account', settings.HEADRACE.account_id)}"
        SigV4Auth(Credentials(key, options.get("secret", SECRET)), "sagemaker", "us-east-1").add_auth(signed)
        sent = {name: value for name, value in signed.headers.items() if name != "Content-Type"}
        sent.update(options.get("slipped_in", {}))
        answer = Client(headers={"Host": "testserver", **sent}).generic(
            method, path, options.get("sent", content), content_type="application/json" if content else ""
        )
        return told(method, path, answer)

    return send
