"""API tokens: what is kept of them, how long they are good, and for whom."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group

from controlplane.auth import tokens
from controlplane.auth.models import Account, ApiToken
from controlplane.auth.roles import Role
from controlplane.core.actor import acting
from controlplane.core.errors import (
    AccessDeniedException,
    ExpiredToken,
    ResourceLimitExceeded,
    ResourceNotFound,
    UnrecognizedClient,
    ValidationException,
)
from controlplane.observability.models import Event
from tests.controlplane.auth.meanwhile import is_refused_meanwhile
from tests.fakes.clock import FakeClock

ACCOUNT, OTHER = "111111111111", "222222222222"

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def accounts(fake_clock: FakeClock) -> None:
    for account in (ACCOUNT, OTHER):
        Account.objects.create(account_id=account, created_at=fake_clock.now())


def made(fake_clock: FakeClock, role: Role = Role.OPERATOR, **options: Any) -> tuple[ApiToken, str]:
    return tokens.create(ACCOUNT, "ci", role, now=fake_clock.now(), **options)


def operator(*roles: Role) -> Any:
    user = get_user_model().objects.create_user("alice", is_staff=True)
    user.groups.set([Group.objects.get_or_create(name=role.group)[0] for role in roles])
    return user


def test_a_token_is_recognised_by_its_secret_of_which_only_a_digest_is_kept(fake_clock: FakeClock) -> None:
    token, secret = made(fake_clock)
    rights = tokens.recognise(secret, fake_clock.now())
    assert (rights.token.pk, rights.role) == (token.pk, Role.OPERATOR)
    assert secret.startswith("hr_")
    assert len(secret) == 46
    kept = [str(value) for row in ApiToken.objects.values() for value in row.values()]
    assert not any(secret in value for value in kept)
    assert secret.startswith(token.prefix)
    assert secret not in "".join(Event.objects.values_list("sentence", flat=True))


@pytest.mark.parametrize("change", ["x", " ", "\ud800"])
def test_another_secret_is_nobody_s(fake_clock: FakeClock, change: str) -> None:
    _, secret = made(fake_clock)
    for other in (secret + change, secret[:-1] + change, change, "hr_"):
        with pytest.raises(UnrecognizedClient, match="not known, or was revoked"):
            tokens.recognise(other, fake_clock.now())


def test_a_token_is_good_for_ninety_days_unless_it_says_otherwise(fake_clock: FakeClock) -> None:
    token, secret = made(fake_clock)
    assert token.expires_at - token.created_at == timedelta(days=90)
    fake_clock.step(timedelta(days=90).total_seconds() - 1)
    tokens.recognise(secret, fake_clock.now())
    fake_clock.step(1)
    with pytest.raises(ExpiredToken, match="has expired at"):
        tokens.recognise(secret, fake_clock.now())


@pytest.mark.parametrize("days", [0, -1, 366])
def test_a_token_is_good_for_a_year_at_most(fake_clock: FakeClock, days: int) -> None:
    made(fake_clock, days=365)
    with pytest.raises(ValidationException, match="1 to 365 days"):
        made(fake_clock, days=days)


@pytest.mark.parametrize("name", ["", "   ", "a\nb", "x" * 64, "\x00"])
def test_a_name_is_short_and_printable(fake_clock: FakeClock, name: str) -> None:
    with pytest.raises(ValidationException, match="printable"):
        tokens.create(ACCOUNT, name, Role.VIEWER, now=fake_clock.now())


def test_a_revoked_token_opens_nothing_and_stays_revoked(fake_clock: FakeClock) -> None:
    token, secret = made(fake_clock)
    first = tokens.revoke(ACCOUNT, token.pk, fake_clock.now()).revoked_at
    fake_clock.step(10)
    assert tokens.revoke(ACCOUNT, token.pk, fake_clock.now()).revoked_at == first
    with pytest.raises(UnrecognizedClient):
        tokens.recognise(secret, fake_clock.now())
    assert Event.objects.filter(reason="ApiTokenRevoked").count() == 1


def test_another_account_cannot_revoke_it(fake_clock: FakeClock) -> None:
    token, secret = made(fake_clock)
    with pytest.raises(ResourceNotFound):
        tokens.revoke(OTHER, token.pk, fake_clock.now())
    tokens.recognise(secret, fake_clock.now())


def test_use_is_written_at_most_once_a_minute(fake_clock: FakeClock, django_assert_num_queries: Any) -> None:
    token, secret = made(fake_clock)
    tokens.recognise(secret, fake_clock.now())
    used = fake_clock.now()
    fake_clock.step(59)
    with django_assert_num_queries(1):
        tokens.recognise(secret, fake_clock.now())
    token.refresh_from_db()
    assert token.last_used_at == used
    fake_clock.step(1)
    tokens.recognise(secret, fake_clock.now())
    token.refresh_from_db()
    assert token.last_used_at == fake_clock.now()


def test_a_token_has_no_more_rights_than_the_operator_whose_it_is(fake_clock: FakeClock) -> None:
    user = operator(Role.VIEWER)
    _, secret = made(fake_clock, Role.ADMINISTRATOR, user=user)
    assert tokens.recognise(secret, fake_clock.now()).role is Role.VIEWER
    user.groups.add(Group.objects.get_or_create(name=Role.ADMINISTRATOR.group)[0])
    assert tokens.recognise(secret, fake_clock.now()).role is Role.ADMINISTRATOR
    user.is_active = False
    user.save()
    with pytest.raises(AccessDeniedException, match="no role any more"):
        tokens.recognise(secret, fake_clock.now())
    user.delete()
    with pytest.raises(UnrecognizedClient):
        tokens.recognise(secret, fake_clock.now())


def test_an_account_has_a_limited_number_of_good_tokens(fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "ACCOUNT_LIMIT", 2)
    first, _ = made(fake_clock)
    made(fake_clock, days=1)
    with pytest.raises(ResourceLimitExceeded, match="Revoke some"):
        made(fake_clock)
    tokens.revoke(ACCOUNT, first.pk, fake_clock.now())
    made(fake_clock)
    fake_clock.step(86_400)
    made(fake_clock)


def test_an_ended_token_is_forgotten_after_a_while_and_no_other(fake_clock: FakeClock) -> None:
    revoked, _ = made(fake_clock)
    made(fake_clock, days=1)
    lasting, _ = made(fake_clock, days=365)
    tokens.revoke(ACCOUNT, revoked.pk, fake_clock.now())
    fake_clock.step(31 * 86_400)
    tokens.forget_ended(fake_clock.now() - timedelta(days=31), 100)
    assert tokens.listed(ACCOUNT).count() == 3, "not a moment too early"
    tokens.forget_ended(fake_clock.now() - timedelta(days=30), 1)
    assert tokens.listed(ACCOUNT).count() == 2, "only those that ended before then"
    tokens.forget_ended(fake_clock.now() - timedelta(days=29), 100)
    assert [token.pk for token in tokens.listed(ACCOUNT)] == [lasting.pk]


def test_making_one_is_told_with_who_did_it(fake_clock: FakeClock) -> None:
    with acting("operator alice"):
        token, _ = made(fake_clock)
    event = Event.objects.get(reason="ApiTokenCreated")
    assert (event.actor, event.account_id, event.subject_id) == ("operator alice", ACCOUNT, token.pk)
    assert "operator, until 2027" in event.sentence
    assert token.created_by == "operator alice"


@pytest.mark.django_db(transaction=True)
def test_of_two_tokens_that_are_made_at_the_same_moment_the_limit_lets_one_through(
    fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "ACCOUNT_LIMIT", 1)
    one, two = (partial(tokens.create, ACCOUNT, name, Role.VIEWER, now=fake_clock.now()) for name in ("one", "two"))
    assert is_refused_meanwhile(one, two, ResourceLimitExceeded)
