"""The quotas of an account: the operator's table over the environment's. Stored by `manage.py quota`."""

from django.conf import settings

from controlplane.catalog.models import Quota


def limits_of(account_id: str) -> dict[str, int]:
    """The account's quotas by name (see `quotas`); a name that is missing has no limit."""
    own = dict(Quota.objects.filter(account_id=account_id).values_list("name", "limit"))
    return {**settings.HEADRACE.quotas, **own}


def set_limit(account_id: str, name: str, limit: int) -> None:
    """Give the account a quota of its own."""
    Quota.objects.update_or_create(account_id=account_id, name=name, defaults={"limit": limit})


def drop_limit(account_id: str, name: str) -> bool:
    """Take the account's own quota away, so that the environment's holds again; False where there was none."""
    return bool(Quota.objects.filter(account_id=account_id, name=name).delete()[0])
