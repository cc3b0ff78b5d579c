"""Time and queries of every page of the console and of the main lists of the API, over a full database."""

import json
import statistics
from collections.abc import Callable

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from controlplane.auth.models import AccessKey
from controlplane.auth.roles import Role
from controlplane.auth.secrets import encrypt
from controlplane.core import clock
from controlplane.invocations.models import AsyncInvocation
from tests.controlplane.console.people import logged_in
from tests.perf.console_rows import fill

ROUNDS = 5
LIMIT_SECONDS = 3.0
"""No page may take longer, however much there is."""

SECRET = "a-secret-of-the-benchmark"
PAGES = (
    *("", "?by=type", "front/now/", "front/comb/", "front/history/", "front/waits/", "front/spend/", "front/latest/"),
    *("capacity/", "orphans/", "access-keys/", "tokens/", "console/operator/"),
    *("events/", "events/?reason=Scaled", "events/?reason=Seldom", "events/?subject=endpoint-77", "events/?actor=nobody"),
    *("endpoints/", "endpoints/?q=endpoint-9", "endpoints/?search=endpoint-9", "endpoints/?phase=Failed"),
    *("requests/", "requests/?endpoint=endpoint-7", "requests/?state=failed", "requests/?inference_id=inference-777"),
    *("requests/dead/", "fleet/instance/", "fleet/instance/?stage__exact=ready", "fleet/launchattempt/"),
    *("catalog/model/", "catalog/endpointconfig/", "endpoints/endpoint/", "search/?extended=1&s=endpoint-99"),
)
RESOURCES = (
    *("async-requests", "async-requests?EndpointName=endpoint-7", "async-requests?Status=failed", "dead-letters"),
    *("dead-letter-counts", "capacity-marks", "events", "events?Reason=Scaled", "orphans", "spend", "instance-types"),
    *("quotas", "access-keys", "tokens", "endpoints", "models", "endpoint-configs", "endpoints/endpoint-77/explanation"),
    *("endpoints/endpoint-77/events", "endpoints/endpoint-77/instances"),
)
LISTS = (
    ("ListEndpoints", {}),
    ("ListEndpoints", {"NameContains": "99", "SortBy": "Name"}),
    ("ListEndpoints", {"StatusEquals": "Failed"}),
    ("ListModels", {}),
    ("ListEndpointConfigs", {"SortBy": "Name"}),
    ("DescribeEndpoint", {"EndpointName": "endpoint-77"}),
)


def run(endpoints: int, requests: int) -> None:
    """Fill, measure, print; exits with 1 where a page takes longer than LIMIT_SECONDS."""
    print(f"Filling: {endpoints:,} endpoints, {requests:,} asynchronous requests and as many events", flush=True)
    fill(endpoints, requests)
    client = logged_in(Role.ADMINISTRATOR)
    print(f"{'':52} {'status':>6} {'queries':>7} {'ms':>8} {'KiB':>7}")
    slow = [
        f"/admin/{path}" for path in PAGES if _measure(f"/admin/{path}", lambda path=path: client.get(f"/admin/{path}"))
    ]
    request = AsyncInvocation.objects.order_by("id").values_list("id", flat=True)[0]
    account = settings.HEADRACE.account_id
    for path in (f"/admin/endpoints/{account}/endpoint-7/", f"/admin/requests/{request}/"):
        slow += [path] if _measure(path, lambda path=path: client.get(path)) else []
    _make_key()
    for path in RESOURCES:
        slow += [path] if _measure(f"/api/v1/{path}", lambda path=path: _signed("GET", f"/api/v1/{path}")) else []
    for name, params in LISTS:
        label = f"{name} {json.dumps(params) if params else ''}"
        slow += [label] if _measure(label, lambda name=name, params=params: _call(name, params)) else []
    if slow:
        raise SystemExit(f"Slower than {LIMIT_SECONDS} s: {', '.join(slow)}")


def _measure(label: str, ask: Callable[[], object]) -> bool:
    """Print the median of some rounds; whether it is too slow."""
    with CaptureQueriesContext(connection) as queries:
        answer = ask()
    count = len(queries)  # counted now: the next request begins the log anew
    if answer.status_code == 404:
        print(f"{label[:52]:52} {404:>6}")
        return False
    times = []
    for _ in range(ROUNDS):
        began = clock.monotonic()
        answer = ask()
        times.append(clock.monotonic() - began)
    median = statistics.median(times)
    size = len(answer.content) / 1024
    print(f"{label[:52]:52} {answer.status_code:>6} {count:>7} {median * 1000:>8.1f} {size:>7.1f}", flush=True)
    return median > LIMIT_SECONDS


def _make_key() -> None:
    encrypted = encrypt(SECRET, settings.HEADRACE.secret_key)
    facts = {"account_id": settings.HEADRACE.account_id, "secret_encrypted": encrypted, "created_at": clock.now()}
    AccessKey.objects.create(access_key_id="AKIABENCH", **facts)


def _call(operation: str, params: dict[str, str]) -> object:
    headers = {"X-Amz-Target": f"SageMaker.{operation}", "Content-Type": "application/x-amz-json-1.1"}
    return _signed("POST", "/", json.dumps(params).encode(), headers)


def _signed(method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> object:
    request = AWSRequest(method=method, url=f"http://testserver{path}", data=body, headers=headers or {})
    SigV4Auth(Credentials("AKIABENCH", SECRET), "sagemaker", settings.HEADRACE.region).add_auth(request)
    sent = {name: value for name, value in request.headers.items() if name != "Content-Type"}
    kind = (headers or {}).get("Content-Type", "")
    return Client(headers={"Host": "testserver", **sent}).generic(method, path, body, content_type=kind)
