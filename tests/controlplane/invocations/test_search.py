"""Search: every filter, in both orders, page by page, and by indexes alone."""

from datetime import timedelta
from itertools import product
from uuid import uuid4

import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.core.errors import ValidationException
from controlplane.invocations import search
from controlplane.invocations.models import AsyncInvocation
from controlplane.invocations.search import Filter
from tests.controlplane.invocations.letters import ACCOUNT, endpoint, letter
from tests.fakes.clock import START

pytestmark = pytest.mark.django_db

OTHER = "999999999999"
CLASSES = [
    ("queued", ""),
    ("running", ""),
    ("completed", ""),
    ("failed", "timeout"),
    ("failed", "no_answer"),
    ("expired", "expired"),
]


def populate() -> list[AsyncInvocation]:
    """Requests of every class at two endpoints of two accounts; several are accepted at the same moment."""
    rows = []
    for account, name in product((ACCOUNT, OTHER), ("a", "b")):
        at = endpoint(START, name, account=account)
        for place, (state, kind) in enumerate(CLASSES * 3):
            moment = START + timedelta(seconds=place // 2)
            rows.append(letter(at, moment, state, failure_kind=kind, inference_id=f"i{place % 4}", payload=None))
    return rows


def meant(rows: list[AsyncInvocation], which: Filter) -> list[AsyncInvocation]:
    """The same search, told naively."""
    return [
        row
        for row in rows
        if row.account_id == which.account_id
        and which.endpoint_name in ("", row.endpoint_name)
        and (not which.states or row.state in which.states)
        and (not which.failure_kinds or row.failure_kind in which.failure_kinds)
        and which.inference_id in ("", row.inference_id)
        and (which.accepted_after is None or row.accepted_at >= which.accepted_after)
        and (which.accepted_before is None or row.accepted_at < which.accepted_before)
    ]


moments = st.none() | st.integers(-1, 10).map(lambda seconds: START + timedelta(seconds=seconds))
filters = st.builds(
    Filter,
    st.sampled_from([ACCOUNT, OTHER, "000000000000"]),
    endpoint_name=st.sampled_from(["", "a", "b", "c"]),
    states=st.lists(st.sampled_from(sorted({state for state, _ in CLASSES})), max_size=3).map(tuple),
    failure_kinds=st.lists(st.sampled_from(["", "timeout", "no_answer", "expired", "abandoned"]), max_size=2).map(tuple),
    inference_id=st.sampled_from(["", "i0", "i3", "none"]),
    accepted_after=moments,
    accepted_before=moments,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(which=filters, oldest_first=st.booleans(), limit=st.integers(1, 7))
def test_pages_hold_exactly_what_is_meant_in_order(db: None, which: Filter, oldest_first: bool, limit: int) -> None:
    rows = list(AsyncInvocation.objects.all()) or populate()
    wanted = sorted(meant(rows, which), key=lambda row: (row.accepted_at, row.id), reverse=not oldest_first)
    found, token = [], ""
    while token is not None:
        page = search.find(which, limit=limit, oldest_first=oldest_first, token=token)
        assert len(page.rows) == limit or page.next_token is None
        found += page.rows
        token = page.next_token
    assert [row.id for row in found] == [row.id for row in wanted]


def test_counts_are_by_endpoint_and_class_with_the_oldest() -> None:
    rows = populate()
    which = Filter(ACCOUNT, states=search.DEAD_STATES)
    found = search.counts(which)
    assert sum(each.count for each in found) == len(meant(rows, which))
    assert [each.endpoint_name for each in found] == ["a"] * 3 + ["b"] * 3
    for each in found:
        alike = [
            row.accepted_at for row in meant(rows, Filter(ACCOUNT, each.endpoint_name, (each.state,), (each.failure_kind,)))
        ]
        assert (each.count, each.oldest_at) == (len(alike), min(alike))


def test_a_page_goes_on_where_it_was_although_requests_come_and_go() -> None:
    at = endpoint(START)
    rows = [letter(at, START + timedelta(seconds=second)) for second in range(6)]
    first = search.find(Filter(ACCOUNT), limit=3)
    letter(at, START + timedelta(seconds=60))
    rows[3].delete()
    second = search.find(Filter(ACCOUNT), limit=3, token=first.next_token or "")
    assert [row.id for row in second.rows] == [row.id for row in reversed(rows[:3])]


@pytest.mark.parametrize("token", ["x", "a:b", "W10:abc"])
def test_a_token_that_was_not_handed_out_is_refused(token: str) -> None:
    with pytest.raises(ValidationException, match="Invalid pagination token"):
        search.find(Filter(ACCOUNT), token=token)


def test_a_token_belongs_to_its_account_its_filters_and_its_order() -> None:
    at = endpoint(START)
    for second in range(3):
        letter(at, START + timedelta(seconds=second))
    token = search.find(Filter(ACCOUNT), limit=1).next_token or ""
    assert search.find(Filter(ACCOUNT), limit=1, token=token).rows
    for which, oldest_first in ((Filter(OTHER), False), (Filter(ACCOUNT, "e"), False), (Filter(ACCOUNT), True)):
        with pytest.raises(ValidationException):
            search.find(which, limit=1, oldest_first=oldest_first, token=token)


@pytest.mark.parametrize("name", ["%", "{endpoint}", "' OR 1=1", "\\"])
def test_a_filter_is_never_read_as_anything_else(name: str) -> None:
    letter(endpoint(START), START)
    assert search.find(Filter(ACCOUNT, endpoint_name=name, inference_id=name)).rows == []
    assert search.counts(Filter(ACCOUNT, endpoint_name=name)) == []


MANY = """
INSERT INTO invocations_asyncinvocation (
  id, account_id, endpoint_id, endpoint_name, variant_name, inference_id, content_type, accept, custom_attributes,
  input_location, state, accepted_at, expires_at, timeout_seconds, attempts, due_at, output_location, failure_location,
  delivery, is_storing, outcome_text, failure_kind, timeline, redrives, ended_at)
SELECT gen_random_uuid(), %(account)s, %(endpoint)s, 'e' || n %% 20, '', 'i' || n %% 5000, '', '', '', '',
  CASE WHEN n %% 1000 = 0 THEN 'failed' ELSE 'completed' END, %(now)s - n * interval '1 second', %(now)s, 900, 1, %(now)s,
  's3://b/o', '', '{}', false, '', CASE WHEN n %% 1000 = 0 THEN 'timeout' ELSE '' END, '[]', 0, %(now)s
FROM generate_series(1, %(count)s) AS n
"""


def many(count: int) -> None:
    """So many requests at twenty endpoints, one in a thousand of them failed."""
    with connection.cursor() as cursor:
        cursor.execute(MANY, {"account": ACCOUNT, "endpoint": uuid4(), "now": START, "count": count})
        cursor.execute("ANALYZE invocations_asyncinvocation")


@pytest.mark.parametrize(
    "which",
    [
        Filter(ACCOUNT),
        Filter(ACCOUNT, "e3"),
        Filter(ACCOUNT, states=("failed",)),
        Filter(ACCOUNT, "e0", ("failed",), ("timeout",)),
        Filter(ACCOUNT, inference_id="i77"),
        Filter(ACCOUNT, accepted_after=START - timedelta(seconds=100)),
    ],
)
def test_a_page_touches_few_rows_of_many_and_none_in_sequence(which: Filter) -> None:
    many(20_000)
    plans: list[str] = []

    def explained(execute: object, sql: str, params: object, many: bool, context: dict[str, object]) -> object:
        with connection.connection.cursor() as raw:
            plans.extend(row[0] for row in raw.execute(f"EXPLAIN (ANALYZE, TIMING OFF) {sql}", params).fetchall())
        return execute(sql, params, many, context)  # type: ignore[operator]

    with connection.execute_wrapper(explained):
        search.keys(which, 51, oldest_first=False)
    plan = "\n".join(plans)
    assert "Seq Scan on invocations_asyncinvocation" not in plan, plan
    assert "invocation_search" in plan or "invocation_by_inference_id" in plan
    assert max(int(line.split("rows=")[-1].split(" ")[0].split(".")[0]) for line in plans if "actual" in line) <= 2500, plan
