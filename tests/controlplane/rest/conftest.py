"""The resource paths over a control plane in one process, called with requests that botocore signs."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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


Ask = Callable[..., Answer]


@pytest.fixture
def fake_clock() -> Iterator[FakeClock]:
    """Starts at the real time, by which botocore signs."""
    fake = FakeClock(clock.SystemClock().now())
    previous = clock.use(fake)
    yield fake
    clock.use(previous)


@pytest.fixture
def ask(plane: Plane) -> Ask:
    """Send a request signed by an account: `ask("GET", "/api/v1/...", body, account=..., secret=...)`."""
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
        signed = AWSRequest(method=method, url=f"http://testserver{path}", data=content, headers=headers)
        key = f"KEY{options.get('account', settings.HEADRACE.account_id)}"
        SigV4Auth(Credentials(key, options.get("secret", SECRET)), "sagemaker", "us-east-1").add_auth(signed)
        sent = {name: value for name, value in signed.headers.items() if name != "Content-Type"}
        answer = Client(headers={"Host": "testserver", **sent}).generic(
            method, path, options.get("sent", content), content_type="application/json" if content else ""
        )
        document = json.loads(answer.content) if answer.content else None
        return Answer(answer.status_code, answer.headers.get("x-amzn-ErrorType", ""), document)

    return send
