"""Who may ask what: three kinds of credentials, three roles, and every path there is."""

from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from controlplane.auth import tokens
from controlplane.auth.models import ApiToken
from controlplane.auth.roles import Role
from controlplane.core import actor
from controlplane.observability.models import Event
from controlplane.rest.authentication import SESSION_ACCOUNT
from tests.controlplane.rest.conftest import OTHER_ACCOUNT, Ask
from tests.controlplane.rest.every_path import CHANGES, READS, READS_BY_POST, filled, is_administration
from tests.controlplane.rest.people import CSRF, browser_of, holding, logged_in, token_of, user_of
from tests.controlplane.rest.tenants import fingerprint, rows_of
from tests.fakes.clock import FakeClock
from tests.workers.plane import Plane

ENDPOINTS = "/api/v1/endpoints"
ACCOUNT = settings.HEADRACE.account_id


def test_the_paths_are_all_there() -> None:
    assert len(READS) > 25
    assert len(CHANGES) > 30
    assert {path for method, path in READS if method == "POST"} == READS_BY_POST


@pytest.mark.parametrize(("method", "path"), [*READS, *CHANGES])
def test_without_a_credential_nothing_is_told_and_nothing_done(
    db: None, fake_clock: FakeClock, method: str, path: str
) -> None:
    found = Client().generic(method, filled(path))
    assert (found.status_code, found.json()["__type"]) == (403, "MissingAuthenticationTokenException")
    assert found.headers["x-amzn-ErrorType"] == "MissingAuthenticationTokenException"
    assert not Event.objects.exists()


@pytest.mark.parametrize(("method", "path"), CHANGES)
def test_a_viewer_changes_nothing(db: None, fake_clock: FakeClock, method: str, path: str) -> None:
    secret = token_of(Role.VIEWER)
    events = Event.objects.count()
    found = holding(secret)(method, filled(path), {})
    assert (found.status, found.code) == (403, "AccessDeniedException")
    needed = "administrator" if is_administration(path) else "operator"
    assert found.body["message"] == f"token viewer has the role viewer; this takes the role {needed}."
    assert Event.objects.count() == events


@pytest.mark.parametrize(("method", "path"), READS)
def test_a_viewer_reads_everything(db: None, fake_clock: FakeClock, method: str, path: str) -> None:
    found = holding(token_of(Role.VIEWER))(method, filled(path), {} if method == "POST" else None)
    assert found.status in (200, 400, 404), found.body
    assert found.code not in ("AccessDeniedException", "InternalFailure")


@pytest.mark.parametrize(("method", "path"), CHANGES)
def test_an_operator_changes_everything_but_what_is_an_administrator_s(
    db: None, fake_clock: FakeClock, method: str, path: str
) -> None:
    found = holding(token_of(Role.OPERATOR))(method, filled(path), {})
    assert (found.code == "AccessDeniedException") == is_administration(path)
    assert found.code != "InternalFailure"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        each
        for each in CHANGES
        if "price" in each[1] or "quota" in each[1] or "simulated" in each[1] or "confirm" in each[1]
    ],
)
def test_what_all_accounts_share_is_not_a_tenant_s_to_change(ask: Ask, method: str, path: str) -> None:
    found = ask(method, filled(path), {"Limit": 1000, "Slots": 0, "HourlyPrice": 0.0}, account=OTHER_ACCOUNT)
    assert (found.status, found.code) == (403, "AccessDeniedException")
    assert "installation's own account" in found.body["message"]


def test_a_token_acts_by_its_name_and_a_signature_by_its_key(plane: Plane, ask: Ask) -> None:
    plane.create()
    scale = [{"VariantName": "v", "DesiredInstanceCount": 2}]
    path, body = f"{ENDPOINTS}/e/weights-and-capacities", {"DesiredWeightsAndCapacities": scale}
    plane.settle()
    assert holding(token_of(Role.OPERATOR))("POST", path, body).status == 200
    assert Event.objects.filter(actor="token operator", subject_name="e").exists()
    plane.settle()
    scale[0]["DesiredInstanceCount"] = 1
    assert ask("POST", path, body).status == 200
    assert Event.objects.filter(actor=f"key KEY{ACCOUNT}", subject_name="e").exists()
    assert actor.current() == actor.HEADRACE, "nobody acts once the request is answered"


@pytest.mark.parametrize("spelling", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_s_case_does_not_matter(plane: Plane, spelling: str) -> None:
    assert holding(token_of(Role.VIEWER), spelling)("GET", ENDPOINTS).status == 200


def test_a_token_that_is_revoked_expired_or_unknown_is_challenged(plane: Plane) -> None:
    revoked, expired = token_of(Role.VIEWER), token_of(Role.VIEWER, days=1)
    tokens.revoke(ACCOUNT, ApiToken.objects.get(prefix=revoked[:10]).pk, plane.clock.now())
    plane.clock.step(86_400)
    for secret, code in (
        (revoked, "UnrecognizedClientException"),
        (expired, "ExpiredTokenException"),
        ("hr_" + "x" * 43, "UnrecognizedClientException"),
        ("hr_", "UnrecognizedClientException"),
    ):
        found = holding(secret)("GET", ENDPOINTS)
        assert (found.status, found.code) == (401, code)
        assert found.headers["WWW-Authenticate"] == 'Bearer realm="headrace", error="invalid_token"'


@pytest.mark.parametrize("secret", ["", "sagemaker-api-key-abc", "hr-x", "Basic"])
def test_other_bearer_tokens_open_nothing_here(plane: Plane, secret: str) -> None:
    found = holding(secret)("GET", ENDPOINTS)
    assert (found.status, found.code) == (403, "IncompleteSignatureException")


@pytest.mark.parametrize("name", ["token", "access_token", "api_key", "Authorization", "Bearer"])
def test_a_token_in_the_query_is_not_looked_at(plane: Plane, name: str) -> None:
    secret = token_of(Role.ADMINISTRATOR)
    found = Client().get(f"{ENDPOINTS}?{name}={secret}")
    assert (found.status_code, found.json()["__type"]) == (403, "MissingAuthenticationTokenException")
    assert secret not in found.content.decode()
    assert Client().get(f"{ENDPOINTS}?{name}=Bearer%20{secret}").status_code == 403


def test_an_operator_s_session_has_their_role_and_name(plane: Plane) -> None:
    asked = logged_in(user_of(Role.ADMINISTRATOR))
    made = asked("POST", "/api/v1/tokens", {"Name": "ci"})
    assert made.status == 201
    assert made.body["CreatedBy"] == "operator alice"
    viewer = logged_in(user_of(Role.VIEWER, "bob"))
    assert viewer("GET", ENDPOINTS).status == 200
    refused = viewer("DELETE", f"{ENDPOINTS}/e")
    assert (refused.status, refused.code) == (403, "AccessDeniedException")
    assert refused.body["message"] == "operator bob has the role viewer; this takes the role operator."
    nobody = logged_in(user_of(None, "carol"))("GET", ENDPOINTS)
    assert (nobody.status, nobody.code) == (403, "AccessDeniedException")
    assert "has no role" in nobody.body["message"]


@pytest.mark.parametrize(
    "headers",
    [{}, {"X-CSRFToken": "d" * 32}, {"X-CSRFToken": ""}, {"X-CSRFToken": CSRF, "Origin": "https://evil.example"}],
    ids=["none", "another", "empty", "foreign origin"],
)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_a_session_changes_nothing_without_its_csrf_token(plane: Plane, method: str, headers: dict[str, str]) -> None:
    plane.create()
    browser = browser_of(user_of(Role.ADMINISTRATOR))
    path = ENDPOINTS if method == "POST" else f"{ENDPOINTS}/e"
    found = browser.generic(method, path, "{}", content_type="application/json", headers=headers)
    assert (found.status_code, found.json()["__type"]) == (403, "AccessDeniedException")
    assert "CSRF" in found.json()["message"]
    assert plane.exists()
    form = browser.post(ENDPOINTS, {"EndpointName": "x"}, headers=headers)
    assert form.status_code == 403


def test_a_session_counts_for_nothing_beside_another_credential(plane: Plane) -> None:
    browser = browser_of(user_of(Role.ADMINISTRATOR))
    assert browser.get(ENDPOINTS).status_code == 200
    found = browser.get(ENDPOINTS, headers={"Authorization": "Bearer hr_wrong"})
    assert found.status_code == 401


def test_a_logged_out_session_is_nobody_s(plane: Plane) -> None:
    browser = browser_of(user_of(Role.ADMINISTRATOR))
    cookie = browser.cookies[settings.SESSION_COOKIE_NAME].value
    browser.logout()
    browser.cookies[settings.SESSION_COOKIE_NAME] = cookie
    assert browser.get(ENDPOINTS).json()["__type"] == "MissingAuthenticationTokenException"


def test_an_operator_looks_at_the_account_of_the_session_or_the_header(plane: Plane, ask: Ask) -> None:
    plane.create()
    browser = browser_of(user_of(Role.VIEWER))
    assert [row["EndpointName"] for row in browser.get(ENDPOINTS).json()["Endpoints"]] == ["e"]
    assert browser.get(ENDPOINTS, headers={"Headrace-Account": OTHER_ACCOUNT}).json()["Endpoints"] == []
    session = browser.session
    session[SESSION_ACCOUNT] = OTHER_ACCOUNT
    session.save()
    assert browser.get(ENDPOINTS).json()["Endpoints"] == []
    assert browser.get(ENDPOINTS, headers={"Headrace-Account": ACCOUNT}).json()["Endpoints"] != []
    for wrong in ("123", "0" * 12, OTHER_ACCOUNT + "1", "'"):
        refused = browser.get(ENDPOINTS, headers={"Headrace-Account": wrong})
        assert (refused.status_code, refused.json()["__type"]) == (400, "ValidationException")


def test_a_tenant_speaks_for_its_own_account_alone(plane: Plane, ask: Ask) -> None:
    plane.create()
    tenant = holding(token_of(Role.ADMINISTRATOR, OTHER_ACCOUNT))
    found = tenant("GET", ENDPOINTS, **{"Headrace-Account": ACCOUNT})
    assert (found.status, found.code) == (403, "AccessDeniedException")
    assert tenant("GET", ENDPOINTS, **{"Headrace-Account": OTHER_ACCOUNT}).body["Endpoints"] == []
    own = holding(token_of(Role.VIEWER))
    assert own("GET", ENDPOINTS, **{"Headrace-Account": OTHER_ACCOUNT}).body["Endpoints"] == []


def test_the_account_that_a_signed_request_names_must_be_covered_by_the_signature(ask: Ask, plane: Plane) -> None:
    plane.create()
    signed = ask("GET", ENDPOINTS, added={"Headrace-Account": OTHER_ACCOUNT})
    assert (signed.status, signed.body["Endpoints"]) == (200, [])
    slipped_in = ask("GET", ENDPOINTS, slipped_in={"Headrace-Account": OTHER_ACCOUNT})
    assert (slipped_in.status, slipped_in.code) == (403, "InvalidSignatureException")
    assert "headrace-account" in slipped_in.body["message"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "GET"])
def test_a_body_over_the_cap_is_refused_before_a_byte_of_it_is_read(plane: Plane, method: str) -> None:
    class Unreadable:
        """A body that nobody may touch."""

        def read(self, *_: Any) -> bytes:
            raise AssertionError("the body was read")

        readline = read

    length = {"CONTENT_LENGTH": str(4 * 1024 * 1024 + 1), "wsgi.input": Unreadable()}
    path = f"{ENDPOINTS}/e" if method != "POST" else ENDPOINTS
    operator = browser_of(user_of(Role.ADMINISTRATOR))
    token = Client(headers={"Authorization": f"Bearer {token_of(Role.ADMINISTRATOR)}"})
    signed = Client(headers={"Authorization": "AWS4-HMAC-SHA256 Credential=x"})
    for client in (operator, token, signed):
        found = client.generic(method, path, content_type="application/json", **length)
        assert (found.status_code, found.json()["__type"]) == (413, "RequestEntityTooLargeException")
    assert Client().generic(method, path, content_type="application/json", **length).status_code in (403, 413)


def test_no_session_is_looked_up_where_no_cookie_is_sent(plane: Plane, django_assert_max_num_queries: Any) -> None:
    asked = holding(token_of(Role.VIEWER))
    asked("GET", "/api/v1/capacity-marks")
    with django_assert_max_num_queries(4) as found:
        assert asked("GET", "/api/v1/capacity-marks").status == 200
    assert not [query for query in found.captured_queries if "django_session" in query["sql"]]


def test_a_tenant_never_sees_or_changes_what_is_another_s(plane: Plane, ask: Ask) -> None:
    """Every path, asked by another account about rows that exist."""
    name = "mine"
    plane.create(name)
    plane.settle()
    values = rows_of(plane, name, ask)
    before = fingerprint()
    for method, template in [*READS, *CHANGES]:
        if template.startswith("/api/v1/capacity-marks"):
            continue  # all accounts share what is remembered of refusals
        found = ask(method, filled(template, values), {} if method in ("POST", "PUT") else None, account=OTHER_ACCOUNT)
        assert found.code != "InternalFailure", template
        if found.status < 300:
            told = found.content.decode()
            assert name not in told, template
            assert not any(value in told for key, value in values.items() if key.endswith("_id") and len(value) > 5)
        elif "{" in template:
            assert found.status in (400, 403, 404), template
    assert fingerprint() == before
