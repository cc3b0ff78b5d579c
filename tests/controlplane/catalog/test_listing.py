"""Pages over the real database: order, filters, and tokens that continue their own listing and no other."""

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.signing import Signer

from controlplane.auth.models import Account
from controlplane.catalog import listing
from controlplane.catalog.models import EndpointConfig, Model
from controlplane.catalog.operations import SORT_COLUMNS
from controlplane.core.errors import ValidationException
from controlplane.core.ids import new_uuid
from controlplane.wire.model import load_service
from controlplane.wire.parse import parse_json
from controlplane.wire.serialize import to_json

pytestmark = pytest.mark.django_db

ACCOUNT = "111122223333"
START = datetime(2026, 11, 1, 12, 0, 0, 123987, tzinfo=UTC)
ROW = "0e2b1f6c-4a3d-4c55-9a70-3c1f5b7d9e11"
REFUSED = 'Invalid pagination token because "{0}".'


def add(name: str, minutes: float, kind: type[Model] | type[EndpointConfig] = Model) -> Any:
    """A resource created some minutes after START."""
    account, _ = Account.objects.get_or_create(account_id=ACCOUNT, defaults={"created_at": START})
    at = START + timedelta(minutes=minutes)
    return kind.objects.create(id=new_uuid(), account=account, name=name, request={}, created_at=at)


@pytest.fixture
def five() -> list[Any]:
    """Five models, one a minute, whose names run against the time; the two last at once."""
    return [add("e-One", 0), add("d-one", 1), add("c-two", 2), add("b-two", 3), add("a-TWO", 3)]


def page(**params: Any) -> listing.Page:
    """One page of the account's models."""
    return listing.page(Model.objects.filter(account_id=ACCOUNT), params, SORT_COLUMNS)


def names(**params: Any) -> list[str]:
    """The names on one page."""
    return [row.name for row in page(**params).rows]


def pages(**params: Any) -> Iterator[list[str]]:
    """The names on each page, token after token."""
    while True:
        found = page(**params)
        yield [row.name for row in found.rows]
        if found.next_token is None:
            return
        params["NextToken"] = found.next_token


def refusal(**params: Any) -> str:
    """Why a page is refused."""
    with pytest.raises(ValidationException) as caught:
        page(**params)
    return caught.value.message


@pytest.mark.usefixtures("five")
def test_the_newest_come_first_unless_asked_otherwise() -> None:
    assert set(names()[:2]) == {"a-TWO", "b-two"}
    assert names()[2:] == ["c-two", "d-one", "e-One"]
    assert names(SortOrder="Ascending") == names()[::-1]
    assert names(SortBy="Name") == ["e-One", "d-one", "c-two", "b-two", "a-TWO"]
    assert names(SortBy="Name", SortOrder="Ascending") == ["a-TWO", "b-two", "c-two", "d-one", "e-One"]


@pytest.mark.usefixtures("five")
@pytest.mark.parametrize("sort_by", ["Name", "CreationTime"])
@pytest.mark.parametrize("order", ["Ascending", "Descending"])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_pages_put_together_are_the_whole_listing(sort_by: str, order: str, size: int) -> None:
    found = list(pages(SortBy=sort_by, SortOrder=order, MaxResults=size))
    assert [name for each in found for name in each] == names(SortBy=sort_by, SortOrder=order)
    assert [len(each) for each in found[:-1]] == [size] * (len(found) - 1)
    assert found[-1]


@pytest.mark.usefixtures("five")
@pytest.mark.parametrize("size", [5, 6])
def test_the_last_page_has_no_token(size: int) -> None:
    assert page(MaxResults=size).next_token is None


def test_a_page_holds_ten_unless_asked_otherwise() -> None:
    for number in range(11):
        add(f"m{number}", number)
    assert [len(each) for each in pages()] == [10, 1]


@pytest.mark.usefixtures("five")
def test_rows_that_come_and_go_between_pages_neither_repeat_nor_hide_others() -> None:
    first = page(SortBy="Name", SortOrder="Ascending", MaxResults=2)
    Model.objects.filter(name__in=["a-TWO", "b-two"]).delete()
    add("aa", 9)
    add("cc", 9)
    rest = names(SortBy="Name", SortOrder="Ascending", NextToken=first.next_token)
    assert rest == ["c-two", "cc", "d-one", "e-One"]


@pytest.mark.usefixtures("five")
def test_names_are_found_by_a_part_in_any_case() -> None:
    assert names(NameContains="tWo", SortBy="Name", SortOrder="Ascending") == ["a-TWO", "b-two", "c-two"]
    assert names(NameContains="-") == names()
    assert names(NameContains="three") == []


@pytest.mark.usefixtures("five")
def test_after_includes_its_moment_and_before_excludes_it() -> None:
    moment = START + timedelta(minutes=2)
    assert set(names(CreationTimeAfter=moment)) == {"c-two", "b-two", "a-TWO"}
    assert set(names(CreationTimeBefore=moment)) == {"d-one", "e-One"}
    assert names(CreationTimeAfter=moment, CreationTimeBefore=moment + timedelta(microseconds=1)) == ["c-two"]
    assert names(CreationTimeAfter=moment, CreationTimeBefore=moment) == []


def test_a_time_as_it_is_shown_filters_as_the_moment_itself() -> None:
    row = add("m", 0)
    model = load_service("sagemaker").operation_model("DescribeModel")
    shown = json.loads(to_json(model.output_shape, {"CreationTime": row.created_at}))["CreationTime"]
    for member, expected in (("CreationTimeAfter", ["m"]), ("CreationTimeBefore", [])):
        shape = load_service("sagemaker").operation_model("ListModels").input_shape
        assert names(**parse_json(json.dumps({member: shown}).encode(), shape)) == expected


@pytest.mark.usefixtures("five")
@pytest.mark.parametrize(
    "other",
    [
        {"SortBy": "CreationTime"},
        {"SortOrder": "Ascending"},
        {"NameContains": "one"},
        {"CreationTimeAfter": START},
        {"CreationTimeBefore": START},
    ],
)
def test_a_token_continues_no_listing_of_other_parameters(other: dict[str, Any]) -> None:
    params = {"SortBy": "Name", "SortOrder": "Descending", "NameContains": "o"}
    token = page(**params, MaxResults=2).next_token
    assert names(**params, NextToken=token, MaxResults=1) == ["c-two"]
    assert refusal(**{**params, **other}, NextToken=token) == REFUSED


@pytest.mark.usefixtures("five")
def test_a_token_continues_no_listing_of_other_resources() -> None:
    for number in range(3):
        add(f"c{number}", number, EndpointConfig)
    token = page(MaxResults=1).next_token
    configs = EndpointConfig.objects.filter(account_id=ACCOUNT)
    with pytest.raises(ValidationException):
        listing.page(configs, {"NextToken": token, "MaxResults": 1}, SORT_COLUMNS)


def encoded(document: object) -> str:
    """A document in the dress of a token, as somebody outside could make it."""
    return base64.urlsafe_b64encode(json.dumps(document).encode()).decode().rstrip("=")


@pytest.mark.usefixtures("five")
@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        ":",
        "::",
        "\u00e9",
        "\U0001f600:\U0001f600",
        "a" * 8192,
        encoded(["2026-11-01T12:00:00", ROW]),
        encoded(["2026-11-01T12:00:00+00:00", ROW]) + ":signature",
        base64.urlsafe_b64encode(b"[" * 6000).decode(),
        base64.urlsafe_b64encode(b"[" * 6000).decode() + ":s",
        Signer(salt="another").sign_object(["2026-11-01T12:00:00+00:00", ROW]),
    ],
    ids=lambda token: f"{len(token)} characters",  # some of them hold a signature by this run's key
)
def test_a_token_that_was_not_handed_out_is_refused(token: str) -> None:
    assert refusal(NextToken=token) == REFUSED


@pytest.mark.usefixtures("five")
def test_a_token_with_one_character_changed_is_refused() -> None:
    token = str(page(MaxResults=1).next_token)
    for place in range(0, len(token), 7):
        other = "A" if token[place] != "A" else "B"
        assert refusal(NextToken=token[:place] + other + token[place + 1 :]) == REFUSED


@pytest.mark.usefixtures("five")
def test_a_token_fits_the_member_that_carries_it() -> None:
    add("z" * 63, 5)
    token = page(SortBy="Name", MaxResults=1, NameContains="z" * 63).next_token
    assert token is None
    assert len(str(page(SortBy="Name", MaxResults=1).next_token)) < 300
