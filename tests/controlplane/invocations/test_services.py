"""Redrive and cancel: what may be put back or ended, what becomes of it, and who is told."""

import threading
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import close_old_connections, connection

from controlplane.core.errors import ApiError, ResourceNotFound, ValidationException
from controlplane.endpoints.models import Endpoint
from controlplane.invocations import services
from controlplane.invocations.models import AsyncInvocation, AsyncPayload, InvocationState
from controlplane.invocations.search import Filter
from controlplane.invocations.steps import LIMIT
from controlplane.observability.models import Event
from tests.controlplane.invocations.letters import ACCOUNT, endpoint, letter, states, steps
from tests.fakes.clock import START

pytestmark = pytest.mark.django_db

LATER = START + timedelta(days=1)
OTHER = "999999999999"


def redrive(row: AsyncInvocation, **options: object) -> AsyncInvocation:
    """By the account's key KEY, a day later."""
    return services.redrive(row.account_id, row.id, actor="KEY", now=LATER, **options)  # type: ignore[arg-type]


def cancel(row: AsyncInvocation) -> AsyncInvocation:
    """By the account's key KEY."""
    return services.cancel(row.account_id, row.id, actor="KEY", now=LATER)


def redrive_all(name: str = "e", **options: object) -> services.Redriven:
    """The whole of an endpoint, unless the options say otherwise."""
    which = options.pop("which", Filter(ACCOUNT, name))
    limit = options.pop("limit", 100)
    return services.redrive_class(which, limit=limit, actor="KEY", now=LATER, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("state", ["failed", "expired"])
def test_a_dead_letter_waits_for_its_failure_object_to_go_before_it_is_queued(state: str) -> None:
    row = redrive(letter(endpoint(START), START, state, attempts=3))
    assert (row.state, row.attempts, row.redrives, row.failure_kind, row.outcome_text) == ("redriving", 0, 1, "", "")
    assert (row.ended_at, row.due_at, row.expires_at) == (None, LATER, LATER + timedelta(seconds=3600))
    assert AsyncPayload.objects.filter(pk=row.id).exists()
    [event] = Event.objects.all()
    assert (event.reason, event.subject_name, event.detail["actor"]) == ("AsyncRequestRedriven", "e", "KEY")
    assert row.timeline == [[LATER.isoformat(), "redriven", 3, "by KEY"]]


def test_what_was_promised_no_failure_object_is_queued_at_once() -> None:
    assert redrive(letter(endpoint(START), START, failure_location="")).state == "queued"


def test_each_redrive_gives_the_first_time_to_live_again_or_the_one_asked_for() -> None:
    row = letter(endpoint(START), START)
    for day, asked, given in ((1, None, 3600), (2, 120, 120), (3, None, 120)):
        now = START + timedelta(days=day)
        asked_for = timedelta(seconds=asked) if asked else None
        row = services.redrive(ACCOUNT, row.id, actor="KEY", now=now, time_to_live=asked_for)
        assert row.expires_at == now + timedelta(seconds=given)
        AsyncInvocation.objects.filter(pk=row.pk).update(state="expired", failure_kind="expired")
    assert row.redrives == 3


def test_a_time_to_live_never_outgrows_what_a_request_may_ask_for() -> None:
    row = letter(endpoint(START), START, expires_at=START + timedelta(days=3))
    assert redrive(row).expires_at == LATER + timedelta(hours=6)


@pytest.mark.parametrize("state", ["queued", "running", "completed", "cancelled", "redriving"])
def test_only_what_failed_or_expired_is_redriven(state: str) -> None:
    row = letter(endpoint(START), START, state)
    with pytest.raises(ValidationException, match=f"is {state}: only failed and expired"):
        redrive(row)
    assert redrive_all() == services.Redriven(0, 0, 0)
    assert states([row]) == [state]


@pytest.mark.parametrize("phase", ["Deleting", "Failed", None])
def test_nothing_is_redriven_to_an_endpoint_that_is_gone(phase: str | None) -> None:
    at = endpoint(START)
    row = letter(at, START)
    if phase is None:
        Endpoint.objects.all().delete()
    else:
        Endpoint.objects.update(phase=phase)
    with pytest.raises(ValidationException, match="was deleted or has failed"):
        redrive(row)
    with pytest.raises(ValidationException):
        redrive_all()
    assert states([row]) == ["failed"]


def test_an_endpoint_made_again_never_gets_the_earlier_one_s_requests() -> None:
    old = endpoint(START)
    earlier = letter(old, START)
    late = letter(old, START + timedelta(hours=2))
    Endpoint.objects.all().delete()
    own = letter(endpoint(START + timedelta(hours=1)), START + timedelta(hours=3))
    with pytest.raises(ValidationException):
        redrive(earlier)
    assert redrive_all() == services.Redriven(matching=2, redriven=1, skipped=1)
    assert states([earlier, late, own]) == ["failed", "failed", "redriving"]


def test_without_its_payload_a_request_cannot_be_redriven_unless_it_has_an_input_location() -> None:
    at = endpoint(START)
    lost, kept = letter(at, START, payload=None), letter(at, START, payload=None, input_location="s3://b/in")
    with pytest.raises(ValidationException, match="payload is no longer kept"):
        redrive(lost)
    assert redrive(kept).state == "redriving"


def test_a_class_is_put_back_oldest_first_up_to_the_limit() -> None:
    at = endpoint(START)
    rows = [letter(at, START + timedelta(seconds=second)) for second in range(4)]
    others = [letter(at, START, failure_kind="timeout"), letter(at, START, "expired"), letter(endpoint(START, "f"), START)]
    which = Filter(ACCOUNT, "e", failure_kinds=("model_server_error",))
    assert redrive_all(which=which, limit=3, dry_run=True) == services.Redriven(4, 3, 0)
    assert states(rows) == ["failed"] * 4
    assert not Event.objects.exists()
    assert redrive_all(which=which, limit=3) == services.Redriven(4, 3, 0)
    assert states(rows) == ["redriving"] * 3 + ["failed"]
    assert states(others) == ["failed", "expired", "failed"]
    [event] = Event.objects.all()
    assert (event.reason, event.detail["redriven"], event.detail["actor"]) == ("AsyncRequestsRedriven", 3, "KEY")
    assert redrive_all(which=which) == services.Redriven(1, 1, 0)


def test_those_that_cannot_be_put_back_do_not_stand_in_the_way_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "SLICE", 2)
    at = endpoint(START)
    for second in range(5):
        letter(at, START + timedelta(seconds=second), payload=None)
    row = letter(at, START + timedelta(seconds=9))
    assert redrive_all(limit=1, dry_run=True) == services.Redriven(6, 1, 5)
    assert redrive_all(limit=1) == services.Redriven(6, 1, 5)
    assert states([row]) == ["redriving"]


def test_another_account_finds_nothing_to_redrive_or_cancel() -> None:
    row = letter(endpoint(START), START)
    endpoint(START, account=OTHER)
    for deed in (services.get_request, services.redrive, services.cancel):
        options = {} if deed is services.get_request else {"actor": "KEY", "now": LATER}
        with pytest.raises(ResourceNotFound, match=str(row.id)):
            deed(OTHER, row.id, **options)  # type: ignore[operator]
    assert redrive_all(which=Filter(OTHER, "e")) == services.Redriven(0, 0, 0)
    assert states([row]) == ["failed"]
    with pytest.raises(ResourceNotFound):
        services.get_request(ACCOUNT, uuid4())


@pytest.mark.parametrize("state", ["queued", "running"])
def test_what_waits_or_runs_is_cancelled_by_deciding_its_outcome(state: str) -> None:
    token = uuid4()
    row = cancel(letter(endpoint(START), START, state, lease_token=token, instance_id=uuid4(), attempts=1))
    assert (row.state, row.failure_kind, row.outcome_text) == ("queued", "cancelled", "The request was cancelled by KEY.")
    assert (row.lease_token, row.instance_id, row.due_at) == (None, None, START)
    assert row.timeline == [[LATER.isoformat(), "cancelled", 1, "by KEY"]]
    assert not AsyncPayload.objects.exists()
    [event] = Event.objects.all()
    assert (event.reason, event.detail["was"]) == ("AsyncRequestCancelled", state)


def test_a_cancelled_redrive_stays_with_the_worker_that_removes_its_failure_object() -> None:
    token = uuid4()
    row = cancel(letter(endpoint(START), START, "redriving", lease_token=token))
    assert (row.state, row.failure_kind, row.lease_token) == (InvocationState.REDRIVING, "cancelled", token)


def test_cancelling_again_changes_nothing() -> None:
    row = cancel(letter(endpoint(START), START, "queued"))
    assert cancel(row).timeline == row.timeline
    assert Event.objects.count() == 1


@pytest.mark.parametrize(
    ("state", "members", "sentence"),
    [
        ("completed", {}, "it is completed"),
        ("failed", {}, "it is failed"),
        ("expired", {}, "it is expired"),
        ("running", {"is_storing": True}, "its answer is being stored"),
        ("queued", {"failure_kind": "abandoned"}, "it has failed"),
    ],
)
def test_it_is_too_late_once_there_is_an_outcome(state: str, members: dict[str, object], sentence: str) -> None:
    row = letter(endpoint(START), START, state, **members)
    with pytest.raises(ValidationException, match=sentence):
        cancel(row)
    assert states([row]) == [state]
    assert AsyncPayload.objects.exists()


def test_a_timeline_at_its_limit_keeps_its_beginning_and_its_end() -> None:
    full = [[START.isoformat(), "retried", place, ""] for place in range(LIMIT)]
    row = redrive(letter(endpoint(START), START, timeline=full))
    assert len(row.timeline) == LIMIT
    assert row.timeline[:32] == full[:32]
    assert row.timeline[32:-1] == full[33:]
    assert steps(row.id)[-1] == "redriven"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_class", [False, True])
def test_of_redrives_at_the_same_moment_one_acts(is_class: bool) -> None:
    at = endpoint(START)
    rows = [letter(at, START) for _ in range(20 if is_class else 1)]
    start, done, refused = threading.Barrier(4), [], []

    def act() -> None:
        try:
            start.wait()
            done.append(redrive_all().redriven if is_class else redrive(rows[0]).redrives)
        except ApiError as error:
            refused.append(error.message)
        finally:
            close_old_connections()
            connection.close()

    threads = [threading.Thread(target=act) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(done) == len(rows)
    assert len(refused) == (0 if is_class else 3)
    assert states(rows) == ["redriving"] * len(rows)
    assert {row.redrives for row in AsyncInvocation.objects.all()} == {1}
    assert [steps(row.id) for row in rows] == [["redriven"]] * len(rows)
