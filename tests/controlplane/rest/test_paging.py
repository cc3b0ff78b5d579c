"""Pages of lists: together they are the list, whatever their size, and a token goes with one listing alone."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.errors import ValidationException
from controlplane.rest.paging import page_of

NAMES = st.lists(st.text(min_size=1, max_size=8), unique=True, max_size=40).map(sorted)


def token_of(listing: str, **filters: Any) -> str:
    token = page_of(["a", "b"], listing, {"MaxResults": 1, **filters}, str).next_token
    assert token is not None
    return token


@given(NAMES, st.integers(1, 50))
def test_pages_are_the_list_in_order_and_none_is_empty_but_the_only_one(names: list[str], size: int) -> None:
    found, members = [], {"MaxResults": size}
    while True:
        page = page_of(names, "l", members, str)
        assert len(page.rows) <= size
        assert page.rows or not names
        found += page.rows
        if page.next_token is None:
            break
        members = {"MaxResults": size, "NextToken": page.next_token}
    assert found == names


@given(NAMES.filter(lambda names: len(names) > 2), st.data())
def test_what_comes_or_goes_between_two_pages_neither_repeats_nor_hides_others(
    names: list[str], data: st.DataObject
) -> None:
    size = data.draw(st.integers(1, len(names) - 1))
    first = page_of(names, "l", {"MaxResults": size}, str)
    gone = data.draw(st.sampled_from(names))
    left = sorted({*names, "new"} - {gone})
    rest = page_of(left, "l", {"MaxResults": 100, "NextToken": first.next_token}, str).rows
    assert not set(rest) & set(first.rows)
    assert set(names[size:]) - {gone} <= set(rest)


def test_a_token_of_another_list_or_of_nobody_is_refused() -> None:
    for token in ("", "x", "\ud800", token_of("other"), token_of("l", Role="viewer"), token_of("l") + "x"):
        with pytest.raises(ValidationException, match="NextToken"):
            page_of(["a", "b"], "l", {"MaxResults": 1, "NextToken": token}, str)


def test_the_size_of_a_page_may_change_between_pages() -> None:
    assert page_of(["a", "b", "c"], "l", {"MaxResults": 9, "NextToken": token_of("l")}, str).rows == ["b", "c"]
