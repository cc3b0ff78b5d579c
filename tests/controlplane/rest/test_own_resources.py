"""Headrace's own resources: keys, tokens, events, types and prices, quotas, spend, and what is remembered of refusals."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from controlplane.auth.roles import Role
from controlplane.core.actor import acting
from controlplane.core.offerings import ON_DEMAND, SPOT
from controlplane.fleet.models import CapacityMark
from controlplane.fleet.selectors import stays_of
from controlplane.observability.models import Event
from tests.controlplane.rest.conftest import OTHER_ACCOUNT, Ask
from tests.controlplane.rest.people import holding, logged_in, user_of
from tests.workers.plane import FIRST, SECOND, THIRD, Plane

KEYS, TOKENS, EVENTS, TYPES = "/api/v1/access-keys", "/api/v1/tokens", "/api/v1/events", "/api/v1/instance-types"
QUOTAS, SPEND, MARKS = "/api/v1/quotas", "/api/v1/spend", "/api/v1/capacity-marks"


def pages(ask: Ask, path: str, member: str, **query: Any) -> Iterator[list[Any]]:
    """The rows of a list, page by page."""
    token = None
    while True:
        members = {**query, **({"NextToken": token} if token else {})}
        found = ask("GET", f"{path}?" + urlencode(members, doseq=True, quote_via=quote))
        assert found.status == 200, found.body
        yield found.body[member]
        token = found.body["NextToken"]
        if token is None:
            return


def test_a_key_made_here_signs_and_its_secret_is_told_once(ask: Ask, plane: Plane) -> None:
    made = ask("POST", KEYS)
    assert (made.status, made.headers["Cache-Control"]) == (201, "no-store")
    key, secret = made.body["AccessKeyId"], made.body["SecretAccessKey"]
    assert ask("GET", KEYS, key=key, secret=secret).status == 200
    assert secret not in ask("GET", KEYS).content.decode()
    assert secret not in ask("GET", EVENTS).content.decode()
    assert ask("PUT", f"{KEYS}/{key}", {"IsActive": False}).body["IsActive"] is False
    assert ask("GET", KEYS, key=key, secret=secret).code == "UnrecognizedClientException"
    assert ask("PUT", f"{KEYS}/{key}", {"IsActive": True}).status == 200
    assert ask("DELETE", f"{KEYS}/{key}").status == 204
    assert ask("DELETE", f"{KEYS}/{key}").code == "ResourceNotFound"


def test_a_key_cannot_lock_its_account_out(ask: Ask, plane: Plane) -> None:
    [[only]] = list(pages(ask, KEYS, "AccessKeys"))
    for found in (
        ask("DELETE", f"{KEYS}/{only['AccessKeyId']}"),
        ask("PUT", f"{KEYS}/{only['AccessKeyId']}", {"IsActive": False}),
    ):
        assert found.code == "ResourceInUse"
        assert "Make another first" in found.body["message"]


@pytest.mark.parametrize(
    "body", [{}, {"IsActive": "perhaps"}, {"IsActive": True, "Extra": 1}, {"IsActive": None}, [], "x"], ids=str
)
def test_a_change_of_a_key_that_makes_no_sense_is_refused(ask: Ask, plane: Plane, body: object) -> None:
    assert ask("PUT", f"{KEYS}/AKIANONE", body).status == 400


def test_a_token_made_here_opens_what_its_role_allows_and_is_listed_without_its_secret(ask: Ask, plane: Plane) -> None:
    user_of(Role.OPERATOR)
    made = ask("POST", TOKENS, {"Name": "ci", "Role": "operator", "Days": 7, "Operator": "alice"})
    assert (made.status, made.headers["Cache-Control"]) == (201, "no-store")
    secret, asked = made.body["Secret"], holding(made.body["Secret"])
    assert asked("GET", "/api/v1/endpoints").status == 200
    assert asked("POST", TOKENS, {"Name": "more"}).code == "AccessDeniedException"
    [[listed]] = list(pages(ask, TOKENS, "Tokens"))
    assert secret not in str(listed)
    assert (listed["Role"], listed["Status"], listed["Operator"]) == ("operator", "Active", "alice")
    assert listed["LastUsedAt"] is not None
    path = f"{TOKENS}/{listed['TokenId']}"
    assert ask("GET", path).body == listed
    plane.clock.step(timedelta(days=7).total_seconds() + 1)
    watching = logged_in(user_of(Role.ADMINISTRATOR, "carol"))
    assert watching("GET", path).body["Status"] == "Expired"
    assert watching("DELETE", path).status == 204
    assert watching("GET", path).body["Status"] == "Revoked"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({}, "Name"),
        ({"Name": "a\u0000"}, "Name"),
        ({"Name": "x", "Role": "root"}, "Role"),
        ({"Name": "x", "Days": 366}, "Days"),
        ({"Name": "x", "Days": 0}, "Days"),
        ({"Name": "x", "Operator": "nobody"}, "no operator"),
        ({"Name": "x", "Account": "1"}, "Account: not known here"),
        ({"Name": "x", "Days": 366, "Role": "root"}, "Days"),
    ],
    ids=str,
)
def test_a_token_that_makes_no_sense_is_refused(ask: Ask, plane: Plane, body: object, sentence: str) -> None:
    found = ask("POST", TOKENS, body)
    assert (found.status, found.code) == (400, "ValidationException")
    assert sentence in found.body["message"]


def test_a_tenant_learns_no_operator_s_name(ask: Ask, plane: Plane) -> None:
    user_of(Role.OPERATOR)
    for name in ("alice", "nobody"):
        found = ask("POST", TOKENS, {"Name": "x", "Operator": name}, account=OTHER_ACCOUNT)
        assert (found.status, found.code) == (403, "AccessDeniedException")


def test_lists_go_page_by_page_and_a_token_continues_its_own_list_alone(ask: Ask, plane: Plane) -> None:
    for number in range(5):
        assert ask("POST", TOKENS, {"Name": f"n{number}"}).status == 201
    found = list(pages(ask, TOKENS, "Tokens", MaxResults=2))
    assert [len(page) for page in found] == [2, 2, 1]
    assert {row["Name"] for page in found for row in page} == {f"n{number}" for number in range(5)}
    token = ask("GET", f"{TOKENS}?MaxResults=2").body["NextToken"]
    for path in (f"{EVENTS}?", f"{KEYS}?", f"{TYPES}?"):
        wrong = ask("GET", path + urlencode({"NextToken": token}))
        assert (wrong.status, wrong.code) == (400, "ValidationException")
    assert ask("GET", f"{TOKENS}?" + urlencode({"NextToken": token}), account=OTHER_ACCOUNT).status == 400
    assert ask("GET", f"{TOKENS}?" + urlencode({"NextToken": token + "x"})).status == 400


def test_events_of_the_account_are_found_by_subject_reason_actor_and_time(ask: Ask, plane: Plane) -> None:
    plane.create()
    plane.settle()
    before = plane.clock.now()
    plane.clock.step(60)
    ask("POST", TOKENS, {"Name": "ci"})
    [page] = list(pages(ask, EVENTS, "Events", MaxResults=500))
    assert [row["At"] for row in page] == sorted((row["At"] for row in page), reverse=True)
    assert page[0]["Reason"] == "ApiTokenCreated"
    assert page[0]["Actor"].startswith("key KEY")

    def reasons(**query: Any) -> set[str]:
        return {row["Reason"] for rows in pages(ask, EVENTS, "Events", **query) for row in rows}

    assert reasons(SubjectName="ci") == reasons(SubjectKind="api-token") == {"ApiTokenCreated"}
    assert reasons(Since=(before + timedelta(seconds=1)).isoformat()) == {"ApiTokenCreated"}
    assert "ApiTokenCreated" not in reasons(Before=before.isoformat())
    assert reasons(Actor="headrace") == set(plane.story())
    assert reasons(Reason=["LaunchRequested", "ApiTokenCreated"]) == {"LaunchRequested", "ApiTokenCreated"}
    assert reasons(Actor="operator alice") == set()
    assert ask("GET", EVENTS, account=OTHER_ACCOUNT).body["Events"] == []
    for wrong in ("Since=yesterday", "Reasons=x", "MaxResults=501", "SubjectName=%00"):
        assert ask("GET", f"{EVENTS}?{wrong}").code == "ValidationException"


def test_a_price_set_here_wins_for_launches_from_then_on_until_it_is_dropped(ask: Ask, plane: Plane) -> None:
    plane.create()
    plane.settle()

    def price(market: str = ON_DEMAND) -> tuple[float | None, str]:
        prices = ask("GET", f"{TYPES}/{FIRST}").body["Prices"]
        [found] = [each for each in prices if each["Market"] == market]
        return found["HourlyPrice"], found["PriceSource"]

    assert (price(), price(SPOT)) == ((1.212, "list"), (None, "unknown"))
    assert ask("PUT", f"{TYPES}/{FIRST}/price", {"HourlyPrice": 0.5}).status == 200
    assert ask("PUT", f"{TYPES}/{FIRST}/price", {"HourlyPrice": 0.2, "Market": SPOT}).status == 200
    assert (price(), price(SPOT)) == ((0.5, "operator"), (0.2, "operator"))
    plane.scale("e", 2)
    plane.settle()
    rows = ask("GET", "/api/v1/endpoints/e/instances").body["Instances"]
    assert [row["HourlyPrice"] for row in rows] == [1.212, 0.5], "what runs keeps the price of its launch"
    assert ask("DELETE", f"{TYPES}/{FIRST}/price").status == 204
    assert (price(), price(SPOT)) == ((1.212, "list"), (0.2, "operator"))
    assert ask("DELETE", f"{TYPES}/{FIRST}/price").code == "ResourceNotFound"
    told = Event.objects.filter(reason__startswith="Price").order_by("id")
    assert [row.reason for row in told] == ["PriceSet", "PriceSet", "PriceDropped"]


@pytest.mark.parametrize(
    "body", [{}, {"HourlyPrice": -1}, {"HourlyPrice": 1, "Market": "x"}, {"HourlyPrice": 1e9}], ids=str
)
def test_a_price_that_makes_no_sense_is_refused(ask: Ask, plane: Plane, body: object) -> None:
    assert ask("PUT", f"{TYPES}/{FIRST}/price", body).code == "ValidationException"
    assert ask("PUT", f"{TYPES}/ml.no.such/price", {"HourlyPrice": 1}).code == "ResourceNotFound"


def test_a_price_that_is_no_number_of_json_is_refused(ask: Ask, plane: Plane) -> None:
    for text in (b'{"HourlyPrice": NaN}', b'{"HourlyPrice": Infinity}', b'{"HourlyPrice": 1e999}'):
        assert ask("PUT", f"{TYPES}/{FIRST}/price", text).status == 400


def test_instance_types_are_listed_with_their_prices(ask: Ask, plane: Plane) -> None:
    names = [row["InstanceType"] for rows in pages(ask, TYPES, "InstanceTypes", MaxResults=100) for row in rows]
    assert names == sorted(names)
    assert len(names) == len(set(names)) > 100
    assert {FIRST, SECOND, THIRD} <= set(names)
    [[only]] = list(pages(ask, TYPES, "InstanceTypes", NameContains="g5.2xlarge"))
    assert only["IsOperatorDefined"] is False
    unpriced = [row for rows in pages(ask, TYPES, "InstanceTypes", HasPrice="false", MaxResults=500) for row in rows]
    assert unpriced
    assert all(price["HourlyPrice"] is None for row in unpriced for price in row["Prices"])


def test_a_quota_set_here_holds_until_it_is_dropped(ask: Ask, plane: Plane) -> None:
    plane.create(count=2, types=(FIRST,))
    plane.settle()
    assert ask("GET", QUOTAS).body["Quotas"] == []
    assert ask("PUT", f"{QUOTAS}/{FIRST}", {"Limit": 2}).body == {
        "QuotaName": FIRST,
        "Limit": 2,
        "Used": 2,
        "IsOwn": True,
    }
    assert ask("PUT", f"{QUOTAS}/total", {"Limit": 5}).status == 200
    [listed] = list(pages(ask, QUOTAS, "Quotas"))
    assert [(row["QuotaName"], row["Used"]) for row in listed] == [(FIRST, 2), ("total", 2)]
    scale = {"DesiredWeightsAndCapacities": [{"VariantName": "v", "DesiredInstanceCount": 3}]}
    refused = ask("POST", "/api/v1/endpoints/e/weights-and-capacities", scale)
    assert refused.code == "ResourceLimitExceeded"
    assert ask("DELETE", f"{QUOTAS}/{FIRST}").status == 204
    assert ask("DELETE", f"{QUOTAS}/{FIRST}").code == "ResourceNotFound"
    assert ask("POST", "/api/v1/endpoints/e/weights-and-capacities", scale).status == 200
    assert ask("GET", QUOTAS).body["Quotas"][0]["QuotaName"] == "total"


def test_an_administrator_of_the_installation_sets_a_tenant_s_quota(ask: Ask, plane: Plane) -> None:
    asked = logged_in(user_of(Role.ADMINISTRATOR))
    assert asked("PUT", f"{QUOTAS}/{FIRST}", {"Limit": 1}, **{"Headrace-Account": OTHER_ACCOUNT}).status == 200
    assert ask("GET", QUOTAS).body["Quotas"] == []
    [quota] = ask("GET", QUOTAS, account=OTHER_ACCOUNT).body["Quotas"]
    assert (quota["QuotaName"], quota["Limit"]) == (FIRST, 1)
    event = Event.objects.get(reason="QuotaSet")
    assert (event.account_id, event.actor) == (OTHER_ACCOUNT, "operator alice")


@pytest.mark.parametrize("body", [{}, {"Limit": -1}, {"Limit": 1.5}, {"Limit": 10**9}, {"Limit": None}], ids=str)
def test_a_quota_that_makes_no_sense_is_refused(ask: Ask, plane: Plane, body: object) -> None:
    assert ask("PUT", f"{QUOTAS}/{FIRST}", body).code == "ValidationException"
    assert ask("PUT", f"{QUOTAS}/ml.no.such", {"Limit": 1}).code == "ResourceNotFound"


def test_spend_is_told_by_endpoint_and_pool(ask: Ask, plane: Plane) -> None:
    for name in ("a", "b", "c"):
        plane.create(name)
    plane.settle()
    plane.clock.step(240)
    found = [row for rows in pages(ask, SPEND, "Endpoints", MaxResults=2) for row in rows]
    assert [row["EndpointName"] for row in found] == ["a", "b", "c"]
    [only] = ask("GET", f"{SPEND}?EndpointName=B").body["Endpoints"]
    assert only == {**found[1], **only}
    pool = only["SpendByPool"][0]
    assert (pool["InstanceType"], pool["VariantName"]) == (FIRST, "v")
    assert only["Spend"]["Dollars"] == pytest.approx(only["Spend"]["InstanceHours"] * 1.212)
    assert len(stays_of(plane_endpoint("b"))) == 1
    whole = ask("GET", SPEND).body
    assert whole["PageSpend"]["Running"] == 3
    assert ask("GET", SPEND, account=OTHER_ACCOUNT).body["Endpoints"] == []


def plane_endpoint(name: str) -> Any:
    """The id of an endpoint."""
    return Event.objects.filter(subject_name=name, subject_kind="endpoint").values_list("subject_id", flat=True)[0]


def test_marks_are_found_by_type_and_forgotten_together(ask: Ask, plane: Plane) -> None:
    plane.world.set_capacity(FIRST, 0)
    plane.world.set_capacity(SECOND, 0)
    plane.create()
    plane.settle(10)
    [marks] = list(pages(ask, MARKS, "CapacityMarks", InstanceType=FIRST))
    assert {row["InstanceType"] for row in marks} == {FIRST}
    assert ask("GET", f"{MARKS}?Market=spot").body["CapacityMarks"] == []
    assert ask("DELETE", MARKS).code == "ValidationException", "forgetting everything at once is a slip"
    with acting("nobody in particular"):
        assert ask("DELETE", f"{MARKS}?InstanceType={FIRST}").body == {"Forgotten": len(marks)}
    assert not CapacityMark.objects.filter(instance_type=FIRST).exists()
    assert CapacityMark.objects.filter(instance_type=SECOND).exists()
    assert Event.objects.filter(reason="MarkForgotten", actor__startswith="key KEY").count() == len(marks)
