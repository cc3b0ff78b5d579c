"""Failures that others met in public, replayed on the resource paths and, where it differs, on the AWS door.

The numbers are those of the collection of public failures. What concerns the gateway alone (smuggling, slow clients) and
the fetching of inputs is tested beside them.
"""

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from django.conf import settings
from django.test import Client

from controlplane.auth import access_keys, bearer
from controlplane.auth.models import AccessKey
from controlplane.auth.roles import Role
from controlplane.auth.sigv4 import Key
from controlplane.rest import events
from tests.controlplane.rest.conftest import SECRET, Ask
from tests.controlplane.rest.people import CSRF, browser_of, holding, token_of, user_of
from tests.workers.plane import Plane

ENDPOINTS = "/api/v1/endpoints"
KEY = f"KEY{settings.HEADRACE.account_id}"
HASH_OF_NOTHING = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@dataclass(frozen=True)
class Sent:
    """A request on its way."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes = b""

    def having(self, **headers: str) -> "Sent":
        """The same with other headers; underscores stand for hyphens."""
        return replace(self, headers=self.headers | {name.replace("_", "-"): value for name, value in headers.items()})

    def rewritten(self, old: str, new: str) -> "Sent":
        """The same with another Authorization header."""
        authorization = self.headers["Authorization"]
        assert old in authorization
        return self.having(Authorization=authorization.replace(old, new))

    def answer(self) -> tuple[int, str]:
        """Send it: the status and the code."""
        headers = {name: value for name, value in self.headers.items() if name != "Content-Type"}
        kind = self.headers.get("Content-Type", "")
        found = Client(headers=headers).generic(self.method, self.path, self.body, content_type=kind)
        return found.status_code, found.json().get("__type", "")


def signed(method: str = "GET", path: str = ENDPOINTS, body: object = None, **headers: str) -> Sent:
    """A request signed by botocore."""
    content = b"" if body is None else json.dumps(body).encode()
    given = {"Content-Type": "application/json"} if content else {}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    request = AWSRequest(method=method, url=f"http://testserver{path}", data=content, headers=given)
    SigV4Auth(Credentials(KEY, SECRET), "sagemaker", "us-east-1").add_auth(request)
    return Sent(method, path, {"Host": "testserver", **dict(request.headers.items())}, content)


def last_digit_changed(sent: Sent) -> Sent:
    authorization = sent.headers["Authorization"]
    return sent.having(Authorization=authorization[:-1] + ("0" if authorization[-1] != "0" else "1"))


def today(sent: Sent) -> str:
    return sent.headers["X-Amz-Date"][:8]


def another_second(time: str) -> str:
    """The same minute, and not the same second."""
    return time[:-2] + ("0Z" if time[-2] != "0" else "1Z")


TAMPERINGS: dict[str, Callable[[Sent], Sent]] = {
    "signature": last_digit_changed,
    "upper-case signature": lambda sent: sent.having(
        Authorization="Signature=".join(
            part.upper() if place else part for place, part in enumerate(sent.headers["Authorization"].split("Signature="))
        )
    ),
    "body": lambda sent: replace(sent, body=sent.body.replace(b"mine", b"mind")),
    "method": lambda sent: replace(sent, method="PUT"),
    "path": lambda sent: replace(sent, path="/api/v1/models"),
    "query": lambda sent: replace(sent, path=sent.path + "?MaxResults=1"),
    "host": lambda sent: sent.having(Host="evil.example"),
    "date": lambda sent: sent.having(X_Amz_Date=another_second(sent.headers["X-Amz-Date"])),
    "no date": lambda sent: replace(sent, headers={k: v for k, v in sent.headers.items() if k != "X-Amz-Date"}),
    "content type": lambda sent: sent.having(Content_Type="text/plain"),
    "order of signed headers": lambda sent: sent.rewritten(
        "SignedHeaders=content-type;host", "SignedHeaders=host;content-type"
    ),
    "case of signed headers": lambda sent: sent.rewritten("SignedHeaders=content-type", "SignedHeaders=Content-Type"),
    "date of the scope": lambda sent: sent.rewritten(f"/{today(sent)}/", "/20200101/"),
    "region of the scope": lambda sent: sent.rewritten("/us-east-1/", "/eu-west-1/"),
    "service of the scope": lambda sent: sent.rewritten("/sagemaker/", "/s3/"),
    "case of the algorithm": lambda sent: sent.rewritten("AWS4-HMAC-SHA256", "aws4-hmac-sha256"),
    "another algorithm": lambda sent: sent.rewritten("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256"),
    "unknown key": lambda sent: sent.rewritten(KEY, "AKIANOBODY"),
    "no signature": lambda sent: sent.having(Authorization=sent.headers["Authorization"].partition(", Signature")[0]),
    "added header of meaning": lambda sent: sent.having(X_Amz_Target="SageMaker.DeleteEndpoint"),
    "session token": lambda sent: sent.having(X_Amz_Security_Token="abc"),
    "account": lambda sent: sent.having(Headrace_Account="210987654321"),
    "account that another parameter claims to cover": lambda sent: sent.having(Headrace_Account="210987654321").rewritten(
        "AWS4-HMAC-SHA256 ", "AWS4-HMAC-SHA256 X=SignedHeaders=host;headrace-account, "
    ),
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_bl_154_whatever_is_changed_after_signing_is_refused_and_has_no_effect(ask: Ask, plane: Plane, name: str) -> None:
    plane.configure("mine")
    sent = signed("POST", ENDPOINTS, {"EndpointName": "mine", "EndpointConfigName": "mine"})
    status, code = TAMPERINGS[name](sent).answer()
    assert status == 403
    assert code in (
        "InvalidSignatureException",
        "IncompleteSignatureException",
        "UnrecognizedClientException",
    )
    assert not plane.exists("mine")
    assert sent.answer()[0] == 201, "the request itself was good"


def test_bl_154_a_key_that_is_off_or_gone_signs_nothing_from_the_next_request_on(ask: Ask, plane: Plane) -> None:
    access_keys.create(settings.HEADRACE.account_id, plane.clock.now())
    assert signed().answer()[0] == 200
    AccessKey.objects.filter(pk=KEY).update(is_active=False)
    assert signed().answer() == (403, "UnrecognizedClientException")
    AccessKey.objects.filter(pk=KEY).update(is_active=True)
    access_keys.delete(settings.HEADRACE.account_id, KEY, plane.clock.now())
    assert signed().answer() == (403, "UnrecognizedClientException")


@pytest.mark.parametrize("kept", ["x-amz-date", "host"])
def test_bl_156_a_signature_that_leaves_out_host_or_date_is_refused(ask: Ask, plane: Plane, kept: str) -> None:
    assert signed().rewritten("SignedHeaders=host;x-amz-date", f"SignedHeaders={kept}").answer() == (
        403,
        "InvalidSignatureException",
    )


@pytest.mark.parametrize(
    "declared",
    [
        "UNSIGNED-PAYLOAD",
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
        "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        HASH_OF_NOTHING,
        HASH_OF_NOTHING.upper(),
        "",
    ],
)
def test_bl_157_a_marker_in_place_of_the_body_s_hash_is_refused(ask: Ask, plane: Plane, declared: str) -> None:
    plane.configure("mine")
    body = {"EndpointName": "mine", "EndpointConfigName": "mine"}
    sent = signed("POST", ENDPOINTS, body, X_Amz_Content_SHA256=declared)
    assert sent.answer() == (403, "InvalidSignatureException")
    assert not plane.exists("mine")


@pytest.mark.parametrize("minutes", [-1440, -60, -16, -6, 6, 16, 60, 1440])
def test_bl_158_a_clock_that_is_off_is_told_so_in_words_that_sdks_know(ask: Ask, plane: Plane, minutes: int) -> None:
    sent = signed()
    plane.clock.step(-60 * minutes)
    found = Client(headers=sent.headers).get(ENDPOINTS)
    assert (found.status_code, found.json()["__type"]) == (403, "InvalidSignatureException")
    assert ("not yet current" if minutes > 0 else "Signature expired") in found.json()["message"]


@pytest.mark.parametrize("minutes", [-4, 4])
def test_bl_158_a_clock_that_is_a_little_off_does_not_matter(ask: Ask, plane: Plane, minutes: int) -> None:
    sent = signed()
    plane.clock.step(-60 * minutes)
    assert sent.answer()[0] == 200


def test_bl_160_a_token_of_the_openai_paths_does_not_open_the_control_plane(ask: Ask, plane: Plane) -> None:
    key = Key(KEY, SECRET, settings.HEADRACE.account_id)
    token = bearer.issue(key, region="us-east-1", service="sagemaker", now=plane.clock.now())
    for spelling in ("Bearer ", "bearer ", "Bearer  ", "", "AWS4-HMAC-SHA256 ", "Basic "):
        client = Client(headers={"Authorization": spelling + token})
        assert client.get(ENDPOINTS).status_code == 403
        door = client.post(
            "/", b"{}", content_type="application/x-amz-json-1.1", headers={"X-Amz-Target": "SageMaker.ListModels"}
        )
        assert door.status_code == 400
        assert json.loads(door.content)["__type"] in ("IncompleteSignatureException", "MissingAuthenticationTokenException")


def test_bl_160_an_api_token_does_not_open_the_aws_door(ask: Ask, plane: Plane) -> None:
    secret = token_of(Role.ADMINISTRATOR)
    headers = {"Authorization": f"Bearer {secret}", "X-Amz-Target": "SageMaker.ListModels"}
    found = Client().post("/", b"{}", content_type="application/x-amz-json-1.1", headers=headers)
    assert (found.status_code, json.loads(found.content)["__type"]) == (400, "IncompleteSignatureException")
    assert secret not in found.content.decode()


def test_bl_161_no_credential_gets_into_a_log_or_an_answer_even_when_everything_fails(
    ask: Ask, plane: Plane, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("it breaks")

    caplog.set_level(logging.DEBUG)
    secret = token_of(Role.ADMINISTRATOR)
    asked = holding(secret)
    made_token = asked("POST", "/api/v1/tokens", {"Name": "x"}).body["Secret"]
    made_key = asked("POST", "/api/v1/access-keys").body["SecretAccessKey"]
    sent = signed("GET", "/api/v1/events")
    assert sent.answer()[0] == 200
    monkeypatch.setattr(events, "page", fail)
    broken = asked("GET", "/api/v1/events")
    assert (broken.status, broken.code) == (500, "InternalFailure")
    assert "it breaks" not in broken.body["message"]
    assert sent.answer()[0] == 500
    session = browser_of(user_of(Role.ADMINISTRATOR))
    assert session.get("/api/v1/events").status_code == 500
    signature = sent.headers["Authorization"].partition("Signature=")[2]
    ours = [record for record in caplog.records if not record.name.startswith("botocore")]  # the client's own log
    written = "".join(f"{record.getMessage()} {record.__dict__}" for record in ours)
    assert "it breaks" in written
    for hidden in (secret, made_token, made_key, SECRET, signature, session.cookies["sessionid"].value):
        assert hidden not in written


@pytest.mark.parametrize(
    "url",
    [
        "https://169.254.169.254/latest/meta-data/",
        "https://localhost:5432/",
        "https://[::ffff:127.0.0.1]/",
        "https://127.1/",
        "file:///etc/passwd",
        "http://10.0.0.5/model.tar.gz",
        "gopher://x/",
    ],
)
def test_bl_163_no_location_of_the_control_plane_s_own_may_name_a_host(ask: Ask, plane: Plane, url: str) -> None:
    model = {"ModelName": "m", "PrimaryContainer": {"Image": "headrace/reference", "ModelDataUrl": url}}
    assert ask("POST", "/api/v1/models", model).code == "ValidationException"
    plane.configure("mine")
    variant = {"VariantName": "v", "ModelName": "mine", "InitialInstanceCount": 1, "InstanceType": "ml.m5.large"}
    for output in ({"S3OutputPath": url}, {"S3OutputPath": "s3://a/b", "S3FailurePath": url}):
        body = {
            "EndpointConfigName": "c",
            "ProductionVariants": [variant],
            "AsyncInferenceConfig": {"OutputConfig": output},
        }
        assert ask("POST", "/api/v1/endpoint-configs", body).code == "ValidationException"


def test_bl_168_a_cookie_alone_opens_no_path_of_the_aws_door_and_changes_nothing(ask: Ask, plane: Plane) -> None:
    plane.create()
    browser = browser_of(user_of(Role.ADMINISTRATOR))
    target = {"X-Amz-Target": "SageMaker.DeleteEndpoint"}
    body = b'{"EndpointName": "e"}'
    for headers in (target, {**target, "X-CSRFToken": CSRF}):
        door = browser.post("/", body, content_type="application/x-amz-json-1.1", headers=headers)
        assert json.loads(door.content)["__type"] == "MissingAuthenticationTokenException"
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json"):
        found = browser.post(ENDPOINTS, body, content_type=kind)
        assert (found.status_code, found.json()["__type"]) == (403, "AccessDeniedException")
        assert browser.delete(f"{ENDPOINTS}/e").status_code == 403
    assert plane.status() == "Creating"


def test_bl_168_a_form_of_another_site_cannot_name_a_method(ask: Ask, plane: Plane) -> None:
    plane.create()
    browser = browser_of(user_of(Role.ADMINISTRATOR))
    for name in ("_method", "X-HTTP-Method-Override"):
        form = browser.post(f"{ENDPOINTS}/e", {name: "DELETE"}, headers={"X-HTTP-Method-Override": "DELETE"})
        assert form.status_code == 403
    assert plane.exists()


def test_a_token_outlives_no_day_too_many(ask: Ask, plane: Plane) -> None:
    secret = token_of(Role.VIEWER, days=365)
    plane.clock.step(timedelta(days=365).total_seconds() - 1)
    assert holding(secret)("GET", ENDPOINTS).status == 200
    plane.clock.step(1)
    assert holding(secret)("GET", ENDPOINTS).status == 401
