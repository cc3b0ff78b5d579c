"""API tokens on the runtime paths of the running gateway: who holds one may do what its role says, and no more."""

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import uuid4

import openai
import pytest

from controlplane.auth.roles import Role
from controlplane.core import clock
from tests.controlplane.gateway.site import PAYLOAD_LIMIT_BYTES, Answer, Container, NewContainer, Site, wait_for
from tests.engines_plugin import ACCOUNT

OTHER_ACCOUNT = "777777777777"


@pytest.fixture(autouse=True)
def _clean(site: Site) -> Iterator[None]:
    """No test finds the gateway still knowing the instances of the one before."""
    yield
    site.bury("held")


@pytest.fixture
def one(site: Site, containers: NewContainer) -> Container:
    """The endpoint `held`, served by one container."""
    running = containers("one")
    site.publish("held", running.target)
    return running


def make(site: Site, role: Role = Role.OPERATOR, **columns: Any) -> str:
    """The secret of a new token."""
    secret, now = f"hr_{uuid4().hex}", clock.now()
    row = {
        "id": uuid4(),
        "account_id": ACCOUNT,
        "name": "ci",
        "role": role,
        "digest": hashlib.sha256(secret.encode()).hexdigest(),
        "prefix": secret[:10],
        "created_at": now,
        "created_by": "operator alice",
        "expires_at": now + timedelta(days=1),
        **columns,
    }
    names, places = ", ".join(row), ", ".join(["%s"] * len(row))
    with site.database() as connection:
        connection.execute(f"INSERT INTO identity_apitoken ({names}) VALUES ({places})", list(row.values()))
    return secret


def user(site: Site, group: str = "", **columns: Any) -> int:
    """The id of a new user, of a group if one is named."""
    row = {
        "username": uuid4().hex[:20],
        "password": "!",
        "first_name": "",
        "last_name": "",
        "email": "",
        "is_superuser": False,
        "is_staff": True,
        "is_active": True,
        "date_joined": clock.now(),
        **columns,
    }
    names, places = ", ".join(row), ", ".join(["%s"] * len(row))
    member = "INSERT INTO auth_user_groups (user_id, group_id) SELECT %s, id FROM auth_group WHERE name = %s"
    with site.database() as connection:
        made = connection.execute(f"INSERT INTO auth_user ({names}) VALUES ({places}) RETURNING id", list(row.values()))
        (user_id,) = made.fetchone() or (0,)
        connection.execute(member, [user_id, group])
    return int(user_id)


def ask(site: Site, secret: str, verb: str = "invocations", scheme: str = "Bearer") -> Answer:
    """One call of `held` with the token and nothing else."""
    return site.request("POST", f"/endpoints/held/{verb}", b"hello", {"Authorization": f"{scheme} {secret}"})


def code(answer: Answer) -> tuple[int, str]:
    assert answer.json["__type"] == answer.headers["x-amzn-errortype"]
    return answer.status, answer.headers["x-amzn-errortype"]


def last_used(site: Site, secret: str) -> Any:
    digest = hashlib.sha256(secret.encode()).hexdigest()
    with site.database() as connection:
        found = connection.execute("SELECT last_used_at FROM identity_apitoken WHERE digest = %s", [digest]).fetchone()
    assert found is not None
    return found[0]


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.ADMINISTRATOR], ids=["operator", "administrator"])
def test_a_token_that_was_just_made_calls_a_model(site: Site, one: Container, role: Role) -> None:
    secret = make(site, role)
    for scheme in ("Bearer", "bearer"):
        answer = ask(site, secret, scheme=scheme)
        assert (answer.status, answer.body) == (200, b"hello")
    assert "authorization" not in one.received()[-1]["headers"], "a container is told no secret of its callers"
    streamed = ask(site, secret, "invocations-response-stream")
    assert streamed.status == 200
    assert streamed.headers["content-type"] == "application/vnd.amazon.eventstream"


def test_a_token_queues_asynchronous_requests(site: Site) -> None:
    site.publish("held-later", failure_path="")
    headers = {"Authorization": f"Bearer {make(site)}", "Content-Type": "text/plain"}
    answer = site.request("POST", "/endpoints/held-later/async-invocations", b"hello", headers)
    assert answer.status == 202
    with site.database() as connection:
        found = connection.execute(
            "SELECT account_id FROM invocations_asyncinvocation WHERE inference_id = %s", [answer.json["InferenceId"]]
        ).fetchone()
    assert found == (ACCOUNT,)


def test_a_token_is_a_key_of_openai_s_client(site: Site, one: Container) -> None:
    base = f"{site.url}/endpoints/held/openai/v1"
    with openai.OpenAI(base_url=base, api_key=make(site), max_retries=0) as client:
        said = client.chat.completions.create(model="", messages=[{"role": "user", "content": "hello"}])
        assert said.choices[0].message.content
    viewer = make(site, Role.VIEWER)
    with openai.OpenAI(base_url=base, api_key=viewer, max_retries=0) as client, pytest.raises(openai.PermissionDeniedError):
        client.chat.completions.create(model="", messages=[{"role": "user", "content": "hello"}])


def test_a_viewer_s_token_calls_nothing(site: Site, one: Container) -> None:
    answer = ask(site, make(site, Role.VIEWER))
    assert code(answer) == (403, "AccessDeniedException")
    assert "is viewer; calling a model takes an operator" in answer.json["Message"]
    assert one.received() == []


@pytest.mark.parametrize(
    ("column", "ago", "expected"),
    [
        ("expires_at", timedelta(seconds=5), "ExpiredTokenException"),
        ("expires_at", timedelta(days=40), "UnrecognizedClientException"),
        ("revoked_at", timedelta(0), "UnrecognizedClientException"),
    ],
    ids=["expired", "long-expired", "revoked"],
)
def test_a_token_that_has_ended_is_refused(site: Site, one: Container, column: str, ago: timedelta, expected: str) -> None:
    secret = make(site, **{column: clock.now() - ago})
    assert code(ask(site, secret)) == (403, expected)
    assert one.received() == []


def test_a_token_that_is_revoked_ends_within_seconds(site: Site, one: Container) -> None:
    secret = make(site)
    assert ask(site, secret).status == 200
    with site.database() as connection:
        connection.execute("UPDATE identity_apitoken SET revoked_at = now() WHERE prefix = %s", [secret[:10]])
    wait_for(lambda: ask(site, secret).status == 403)


@pytest.mark.parametrize(
    "secret", ["hr_", "hr_nobody", "hr_\xe9", "hr_" + "x" * 4000], ids=["bare", "wrong", "odd", "long"]
)
def test_a_token_that_nobody_made_is_refused_before_its_body_is_read(site: Site, one: Container, secret: str) -> None:
    headers = {"Authorization": f"Bearer {secret}", "Content-Length": str(PAYLOAD_LIMIT_BYTES)}
    answer = site.request("POST", "/endpoints/held/invocations", b"", headers)
    assert code(answer) == (403, "UnrecognizedClientException")


def test_tokens_that_are_made_and_used_in_one_second_are_all_known(site: Site, one: Container) -> None:
    with ThreadPoolExecutor(8) as pool:
        strangers = [pool.submit(ask, site, f"hr_{number}") for number in range(8)]
        holders = [pool.submit(lambda: ask(site, make(site))) for _ in range(8)]
    assert [each.result().status for each in strangers] == [403] * 8
    assert [each.result().status for each in holders] == [200] * 8


def test_a_token_counts_in_the_header_alone(site: Site, one: Container) -> None:
    secret = make(site)
    for query in (f"access_token={secret}", f"Authorization=Bearer%20{secret}"):
        answer = site.request("POST", f"/endpoints/held/invocations?{query}", b"hello")
        assert code(answer) == (403, "MissingAuthenticationTokenException")
    assert code(ask(site, secret, scheme="Basic"))[0] == 403


def test_a_token_of_another_account_finds_no_endpoint_of_this_one(site: Site, one: Container) -> None:
    with site.database() as connection:
        connection.execute(
            "INSERT INTO identity_account (account_id, created_at) VALUES (%s, now()) ON CONFLICT DO NOTHING",
            [OTHER_ACCOUNT],
        )
    answer = ask(site, make(site, account_id=OTHER_ACCOUNT))
    assert code(answer) == (400, "ValidationError")
    assert f"of account {OTHER_ACCOUNT} not found" in answer.json["Message"]


@pytest.mark.parametrize(
    ("group", "columns", "status"),
    [
        ("operator", {}, 200),
        ("administrator", {}, 200),
        ("", {"is_superuser": True}, 200),
        ("viewer", {}, 403),
        ("", {}, 403),
        ("operator", {"is_active": False}, 403),
        ("operator", {"is_staff": False}, 403),
    ],
    ids=["operator", "administrator", "superuser", "viewer", "nobody", "inactive", "no-staff"],
)
def test_a_user_s_token_may_do_no_more_than_the_user(
    site: Site, one: Container, group: str, columns: dict[str, Any], status: int
) -> None:
    secret = make(site, Role.ADMINISTRATOR, user_id=user(site, group, **columns))
    assert ask(site, secret).status == status


def test_the_role_of_a_superuser_s_token_is_its_own(site: Site, one: Container) -> None:
    secret = make(site, Role.VIEWER, user_id=user(site, is_superuser=True))
    assert code(ask(site, secret)) == (403, "AccessDeniedException")


def test_use_is_noted_and_at_most_once_a_minute(site: Site, one: Container) -> None:
    lately = clock.now() - timedelta(seconds=30)
    first, again, viewer = make(site), make(site, last_used_at=lately), make(site, Role.VIEWER)
    started = clock.now()
    assert [ask(site, secret).status for secret in (again, viewer, first)] == [200, 403, 200]
    noted = wait_for(lambda: last_used(site, first))
    assert started <= noted <= clock.now()
    assert last_used(site, again) == lately
    assert last_used(site, viewer) is None
