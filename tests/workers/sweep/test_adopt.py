"""Adopting an orphan while the database goes away: the endpoint is nobody's soon after, and the orphan is adopted later."""

import pytest
from django.db import OperationalError

from controlplane.endpoints.models import Endpoint
from controlplane.orphans.models import Orphan
from tests.workers.outage import cut_after
from tests.workers.plane import FIRST, Plane
from tests.workers.sweep.strays import OLD, Strays
from workers.sweep.adopt import CannotAdopt, adopt


@pytest.mark.parametrize(
    ("beginning", "error"),
    [
        ('UPDATE "endpoints_endpoint" SET "claim_token"', CannotAdopt),
        ('UPDATE "endpoints_endpoint" SET "claim_expires_at"', OperationalError),
        ('UPDATE "fleet_launchattempt"', OperationalError),
    ],
    ids=["as it is claimed", "as the claim is confirmed", "before the commit"],
)
def test_wherever_the_database_goes_away_the_endpoint_is_given_back(
    plane: Plane, strays: Strays, beginning: str, error: type[Exception]
) -> None:
    plane.world.set_capacity(FIRST, 0)
    plane.create(types=(FIRST,))
    plane.settle(1)
    plane.world.set_capacity(FIRST, 1)
    late = strays.launch_late()
    strays.set_mode("report")
    strays.sweep(after=OLD)
    orphan = Orphan.objects.get(provider_id=late.provider_id)
    with cut_after(beginning), pytest.raises(error):
        adopt(orphan, plane.clock.now())
    endpoint = Endpoint.objects.get()
    assert endpoint.claim_token is None
    assert endpoint.look_again_at <= plane.clock.now()
    adopt(Orphan.objects.get(pk=orphan.pk), plane.clock.now())
    assert strays.states == ["adopted"]
