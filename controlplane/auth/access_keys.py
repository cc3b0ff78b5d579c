"""Access keys: made, listed, switched off and on, deleted.

An account keeps at least one active key: whoever wants the last one gone makes another first. The bootstrap key belongs to
the settings, which bring it back at every start, so it is changed there.
"""

import base64
import secrets
import uuid
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from controlplane.auth import accounts
from controlplane.auth.models import AccessKey
from controlplane.auth.secrets import encrypt
from controlplane.core.errors import ResourceInUse, ResourceLimitExceeded, ResourceNotFound
from controlplane.observability import events

ACCOUNT_LIMIT = 50
"""Keys of an account; every gateway holds all of them in memory."""

ID_PREFIX = "AKIA"
"""Clients of the API tell a key's id by it."""


def create(account_id: str, now: datetime) -> tuple[AccessKey, str]:
    """A new key pair: the row and its secret, which is not to be had again. Raises ResourceLimitExceeded."""
    secret = base64.b64encode(secrets.token_bytes(30)).decode()
    with transaction.atomic():
        accounts.lock(account_id)
        if listed(account_id).count() >= ACCOUNT_LIMIT:
            raise ResourceLimitExceeded(f"Account {account_id} has {ACCOUNT_LIMIT} access keys. Delete one first.")
        key = AccessKey.objects.create(
            access_key_id=ID_PREFIX + base64.b32encode(secrets.token_bytes(10)).decode(),
            account_id=account_id,
            secret_encrypted=encrypt(secret, settings.HEADRACE.secret_key),
            created_at=now,
        )
        _tell(key, "AccessKeyCreated", f"Access key {key} is made.", now)
    return key, secret


def listed(account_id: str) -> "QuerySet[AccessKey]":
    """The account's keys, the latest first."""
    return AccessKey.objects.filter(account_id=account_id).order_by("-created_at", "access_key_id")


def get(account_id: str, access_key_id: str) -> AccessKey:
    """One of the account's keys; raises ResourceNotFound."""
    key = listed(account_id).filter(access_key_id=access_key_id).first()
    if key is None:
        raise ResourceNotFound(f"There is no access key {access_key_id[:128]}.")
    return key


def is_bootstrap(key: AccessKey) -> bool:
    """Whether it is the key of the settings."""
    return bool(key.access_key_id == settings.HEADRACE.access_key_id)


def set_active(account_id: str, access_key_id: str, *, is_active: bool, now: datetime) -> AccessKey:
    """Switch a key on or off; within seconds no process takes one that is off. Raises ResourceNotFound, ResourceInUse."""
    with transaction.atomic():
        key = _locked(account_id, access_key_id)
        if key.is_active == is_active:
            return key
        if not is_active:
            _refuse_to_lose(key)
        key.is_active = is_active
        key.save(update_fields=["is_active"])
        reason = "AccessKeyActivated" if is_active else "AccessKeyDeactivated"
        _tell(key, reason, f"Access key {key} is {'active again' if is_active else 'switched off'}.", now)
    return key


def delete(account_id: str, access_key_id: str, now: datetime) -> None:
    """Delete a key for good. Raises ResourceNotFound, ResourceInUse."""
    with transaction.atomic():
        key = _locked(account_id, access_key_id)
        _refuse_to_lose(key)
        _tell(key, "AccessKeyDeleted", f"Access key {key} is deleted.", now)
        key.delete()


def _locked(account_id: str, access_key_id: str) -> AccessKey:
    accounts.lock(account_id)
    return get(account_id, access_key_id)


def _refuse_to_lose(key: AccessKey) -> None:
    if is_bootstrap(key):
        raise ResourceInUse(
            f"Access key {key} is that of HEADRACE_ACCESS_KEY_ID and comes back with every start: change the setting."
        )
    if key.is_active and not listed(key.account_id).filter(is_active=True).exclude(pk=key.pk).exists():
        raise ResourceInUse(f"Access key {key} is the last active one of account {key.account_id}. Make another first.")


def _tell(key: AccessKey, reason: str, sentence: str, now: datetime) -> None:
    subject = events.Subject(key.account_id, "access-key", uuid.uuid5(uuid.NAMESPACE_OID, key.pk), key.pk[:63])
    events.record(subject, reason, sentence, now=now)
