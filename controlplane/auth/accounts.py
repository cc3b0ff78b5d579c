"""Accounts, as those need them who change what belongs to one."""

from controlplane.auth.models import Account


def lock(account_id: str) -> None:
    """Until the transaction ends nobody else takes this lock: of two changes at once, one sees what the other did.

    What is counted before it is added to is counted under it: keys, tokens, and the instances that quotas limit.
    """
    Account.objects.select_for_update(no_key=True).get(pk=account_id)
