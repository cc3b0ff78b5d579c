"""A fresh control plane for every single run of a scenario: emptied tables, a world of its own, and no messages."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from django.conf import settings

from controlplane.auth.models import Account, Installation
from controlplane.core import hints
from tests.crash.rig import Rig, forget_everything
from tests.crash.sites import OWNER, Site
from tests.fakes.clock import FakeClock
from tests.workers.conftest import SilentDoorbell

MakeRig = Callable[[Site], Rig]


@pytest.fixture
def make_rig(transactional_db: None, fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeRig]:
    """Makes a rig over a site; the one before it is forgotten."""
    monkeypatch.setattr(hints, "doorbell", SilentDoorbell)
    Account.objects.create(account_id=settings.HEADRACE.account_id, created_at=fake_clock.now())
    Installation.objects.create(id=1, owner=OWNER, created_at=fake_clock.now())
    with ExitStack() as sites:

        def make(site: Site) -> Rig:
            sites.callback(site.close)
            forget_everything()
            return Rig(site, fake_clock)

        yield make
