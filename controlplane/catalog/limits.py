"""The quotas of an account: the operator's table over the environment's. Set by `manage.py quota` and REST."""

import uuid
from datetime import datetime

from django.conf import settings
from django.db import transaction

from controlplane.catalog.models import Quota
from controlplane.observability import events


def limits_of(account_id: str) -> dict[str, int]:
    """The account's quotas by name (see `quotas`); a name that is missing has no limit."""
    return {**settings.HEADRACE.quotas, **own_limits(account_id)}


def own_limits(account_id: str) -> dict[str, int]:
    """The quotas that an operator set for this very account."""
    return dict(Quota.objects.filter(account_id=account_id).values_list("name", "limit"))


def set_limit(account_id: str, name: str, limit: int, *, now: datetime) -> None:
    """Give the account a quota of its own."""
    with transaction.atomic():
        Quota.objects.update_or_create(account_id=account_id, name=name, defaults={"limit": limit})
        _tell(account_id, name, "QuotaSet", f"The account may want {limit} of {name} at once from now on.", now)


def drop_limit(account_id: str, name: str, *, now: datetime) -> bool:
    """Take the account's own quota away, so that the environment's holds again; False where there was none."""
    with transaction.atomic():
        dropped = bool(Quota.objects.filter(account_id=account_id, name=name).delete()[0])
        if dropped:
            _tell(account_id, name, "QuotaDropped", f"The account's own quota of {name} is dropped.", now)
    return dropped


def _tell(account_id: str, name: str, reason: str, sentence: str, now: datetime) -> None:
    subject = events.Subject(account_id, "quota", uuid.uuid5(uuid.NAMESPACE_OID, f"{account_id}/{name}"), name[:63])
    events.record(subject, reason, sentence, now=now)
