"""Access keys: made, switched, deleted, and never the last one."""

import dataclasses
from functools import partial

import pytest
from django.conf import settings

from controlplane.auth import access_keys
from controlplane.auth.authenticate import find_key
from controlplane.auth.models import AccessKey, Account
from controlplane.core.errors import ResourceInUse, ResourceLimitExceeded, ResourceNotFound
from controlplane.observability.models import Event
from tests.controlplane.auth.meanwhile import is_refused_meanwhile
from tests.fakes.clock import FakeClock

ACCOUNT, OTHER = "111111111111", "222222222222"

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def accounts(fake_clock: FakeClock) -> None:
    for account in (ACCOUNT, OTHER):
        Account.objects.create(account_id=account, created_at=fake_clock.now())


def test_a_new_key_signs_for_its_account_and_its_secret_is_kept_encrypted(fake_clock: FakeClock) -> None:
    key, secret = access_keys.create(ACCOUNT, fake_clock.now())
    found = find_key(key.access_key_id)
    assert found is not None
    assert (found.secret, found.account_id) == (secret, ACCOUNT)
    assert secret not in key.secret_encrypted
    assert (len(key.access_key_id), key.access_key_id[:4], len(secret)) == (20, "AKIA", 40)


def test_a_key_that_is_off_signs_nothing_until_it_is_on_again(fake_clock: FakeClock) -> None:
    key, _ = access_keys.create(ACCOUNT, fake_clock.now())
    access_keys.create(ACCOUNT, fake_clock.now())
    access_keys.set_active(ACCOUNT, key.pk, is_active=False, now=fake_clock.now())
    access_keys.set_active(ACCOUNT, key.pk, is_active=False, now=fake_clock.now())
    assert find_key(key.pk) is None
    access_keys.set_active(ACCOUNT, key.pk, is_active=True, now=fake_clock.now())
    assert find_key(key.pk) is not None
    told = list(Event.objects.order_by("id").values_list("reason", flat=True))
    assert told == ["AccessKeyCreated", "AccessKeyCreated", "AccessKeyDeactivated", "AccessKeyActivated"]


def test_the_last_active_key_of_an_account_stays(fake_clock: FakeClock) -> None:
    first, _ = access_keys.create(ACCOUNT, fake_clock.now())
    second, _ = access_keys.create(ACCOUNT, fake_clock.now())
    access_keys.create(OTHER, fake_clock.now())
    access_keys.set_active(ACCOUNT, second.pk, is_active=False, now=fake_clock.now())
    for attempt in (
        lambda: access_keys.delete(ACCOUNT, first.pk, fake_clock.now()),
        lambda: access_keys.set_active(ACCOUNT, first.pk, is_active=False, now=fake_clock.now()),
    ):
        with pytest.raises(ResourceInUse, match="last active one"):
            attempt()
    access_keys.delete(ACCOUNT, second.pk, fake_clock.now())
    assert find_key(first.pk) is not None
    assert find_key(second.pk) is None


def test_the_bootstrap_key_is_changed_in_the_settings(fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    key, _ = access_keys.create(ACCOUNT, fake_clock.now())
    access_keys.create(ACCOUNT, fake_clock.now())
    monkeypatch.setattr(settings, "HEADRACE", dataclasses.replace(settings.HEADRACE, access_key_id=key.pk))
    with pytest.raises(ResourceInUse, match="HEADRACE_ACCESS_KEY_ID"):
        access_keys.delete(ACCOUNT, key.pk, fake_clock.now())


def test_another_account_s_key_is_not_to_be_found(fake_clock: FakeClock) -> None:
    key, _ = access_keys.create(ACCOUNT, fake_clock.now())
    access_keys.create(ACCOUNT, fake_clock.now())
    with pytest.raises(ResourceNotFound):
        access_keys.delete(OTHER, key.pk, fake_clock.now())
    with pytest.raises(ResourceNotFound):
        access_keys.set_active(OTHER, key.pk, is_active=False, now=fake_clock.now())
    assert AccessKey.objects.get(pk=key.pk).is_active


def test_an_account_has_a_limited_number_of_keys(fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_keys, "ACCOUNT_LIMIT", 1)
    access_keys.create(ACCOUNT, fake_clock.now())
    with pytest.raises(ResourceLimitExceeded):
        access_keys.create(ACCOUNT, fake_clock.now())
    access_keys.create(OTHER, fake_clock.now())


@pytest.mark.django_db(transaction=True)
def test_of_two_last_keys_that_are_deleted_at_the_same_moment_one_stays(fake_clock: FakeClock) -> None:
    keys = [access_keys.create(ACCOUNT, fake_clock.now())[0].pk for _ in range(2)]
    one, two = (partial(access_keys.delete, ACCOUNT, key, fake_clock.now()) for key in keys)
    assert is_refused_meanwhile(one, two, ResourceInUse)
    assert AccessKey.objects.filter(account_id=ACCOUNT, is_active=True).count() == 1
