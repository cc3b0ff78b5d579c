"""What ended long ago goes, in batches; what has not ended never does."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection

from controlplane.invocations import services
from controlplane.invocations.models import AsyncInvocation, AsyncNotification, AsyncPayload
from tests.controlplane.invocations.letters import ACCOUNT, endpoint, letter, states
from tests.controlplane.invocations.test_search import many
from tests.fakes.clock import START
from workers.invocations import retention
from workers.sweep import retention as every_hour

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _days(monkeypatch: pytest.MonkeyPatch) -> None:
    env = replace(settings.HEADRACE, async_retention_days=7, async_payload_retention_days=2)
    monkeypatch.setattr(settings, "HEADRACE", env)


def days(count: float) -> timedelta:
    """So many days."""
    return timedelta(days=count)


def test_requests_go_after_their_days_and_only_those_that_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    at = endpoint(START)
    old = [letter(at, START, state) for state in ("completed", "failed", "expired", "cancelled")]
    young = letter(at, START + days(1))
    open_ones = [letter(at, START, state) for state in ("queued", "running", "redriving")]
    every_hour.sweep(START + days(7))
    assert "gone" not in states(old), "to the second"
    every_hour.sweep(START + days(7) + timedelta(seconds=1))
    assert states(old) == ["gone"] * 4
    assert states([young, *open_ones]) == ["failed", "queued", "running", "redriving"]
    retention.sweep(START + days(3650))
    assert states([young, *open_ones]) == ["gone", "queued", "running", "redriving"]
    assert AsyncPayload.objects.count() == 3, "those of what is open"


def test_payloads_of_dead_letters_go_first_and_then_they_cannot_be_redriven() -> None:
    at = endpoint(START)
    dead, waiting, young = letter(at, START), letter(at, START, "queued"), letter(at, START + days(1))
    retention.sweep(START + days(2) + timedelta(seconds=1))
    kept = set(AsyncPayload.objects.values_list("pk", flat=True))
    assert kept == {waiting.pk, young.pk}
    assert states([dead]) == ["failed"], "its story is told until its own days are over"
    with pytest.raises(services.ValidationException, match="no longer kept"):
        services.redrive(ACCOUNT, dead.id, actor="KEY", now=START + days(2))


def test_a_redriven_request_is_young_again_once_it_ends() -> None:
    row = letter(endpoint(START), START)
    services.redrive(ACCOUNT, row.id, actor="KEY", now=START + days(6))
    retention.sweep(START + days(8))
    assert states([row]) == ["redriving"]
    AsyncInvocation.objects.filter(pk=row.pk).update(state="failed", ended_at=START + days(6))
    retention.sweep(START + days(12))
    assert states([row]) == ["failed"]


def test_messages_that_nobody_took_go_with_the_requests_of_their_time() -> None:
    for given_up_at in (None, START, START + days(1)):
        AsyncNotification.objects.create(
            account_id=ACCOUNT,
            endpoint_id=endpoint(START, f"e{given_up_at:%d}" if given_up_at else "e").id,
            endpoint_name="e",
            kind="result",
            topic="arn:aws:sns:us-east-1:123456789012:t",
            message="{}",
            created_at=START,
            due_at=START,
            given_up_at=given_up_at,
        )
    retention.sweep(START + days(7.5))
    assert [row.given_up_at for row in AsyncNotification.objects.order_by("id")] == [None, START + days(1)]


def test_however_many_there_are_no_statement_takes_more_than_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    at = endpoint(START)
    for _ in range(11):
        letter(at, START)
    taken: list[int] = []

    def counting(execute: object, sql: str, params: object, many: bool, context: dict[str, object]) -> object:
        result = execute(sql, params, many, context)  # type: ignore[operator]
        if "DELETE FROM invocations_asyncinvocation" in sql:
            taken.append(context["cursor"].rowcount)  # type: ignore[attr-defined]
        return result

    with connection.execute_wrapper(counting):
        assert retention.sweep(START + days(8), batch=4) == 11
    assert taken == [4, 4, 3]
    monkeypatch.setattr(retention, "MOST_BATCHES", 2)
    for _ in range(11):
        letter(at, START)
    assert retention.sweep(START + days(8), batch=4) == 8, "the rest waits for the next sweep"


def test_a_sweep_that_finds_nothing_reads_next_to_nothing_of_many() -> None:
    many(20_000)
    plans: list[str] = []

    def explained(execute: object, sql: str, params: object, many: bool, context: dict[str, object]) -> object:
        with connection.connection.cursor() as raw:
            plans.extend(row[0] for row in raw.execute(f"EXPLAIN {sql}", params).fetchall())
        return execute(sql, params, many, context)  # type: ignore[operator]

    with connection.execute_wrapper(explained):
        assert retention.sweep(START + days(1)) == 0
    plan = "\n".join(plans)
    assert "Seq Scan on invocations_asyncinvocation" not in plan, plan
    assert "invocation_ended" in plan
    assert "invocation_dead" in plan
