"""The control plane in one process, as the workers' tests drive it."""

import pytest
from django.conf import settings

from controlplane.auth.models import Account
from tests.fakes.clock import START
from tests.workers.conftest import plane

__all__ = ["plane"]


@pytest.fixture
def account(db: None, fake_clock: object) -> Account:
    """The installation's account."""
    return Account.objects.get_or_create(account_id=settings.HEADRACE.account_id, defaults={"created_at": START})[0]
