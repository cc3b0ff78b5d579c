"""What operators want done about orphans: stored by the control plane, carried out by the workers, in their name."""

import pytest
from django.conf import settings

from controlplane.core.actor import acting
from controlplane.core.errors import ResourceInUse, ResourceNotFound
from controlplane.observability.models import Event
from controlplane.orphans import services
from controlplane.orphans.models import Orphan
from tests.workers.plane import FIRST, SECOND, Plane
from tests.workers.sweep.strays import OLD, Strays
from workers import wishes

ACCOUNT, OTHER = settings.HEADRACE.account_id, "999999999999"


def the_orphan() -> Orphan:
    """The only one there is."""
    return Orphan.objects.get()


def test_an_orphan_is_ended_at_an_operator_s_wish_although_the_sweep_only_reports(plane: Plane, strays: Strays) -> None:
    strays.set_mode("report")
    strays.remember()
    strays.launch()
    strays.sweep(after=OLD)
    assert strays.states == ["found"]
    with acting("operator alice"):
        wished = services.ask_end(ACCOUNT, the_orphan().pk, plane.clock.now())
    assert (wished.wish, wished.wished_by, wished.state) == ("end", "operator alice", "found")
    assert strays.ids, "nothing is done before a worker comes"
    wishes.carry_out(plane.clock.now())
    assert strays.ids == []
    assert (strays.states, the_orphan().wish) == (["ending"], "")
    ending = Event.objects.get(reason="OrphanEnding")
    assert ending.actor == "operator alice"
    asks = the_orphan().asks
    wishes.carry_out(plane.clock.now())
    assert the_orphan().asks == asks, "a wish is carried out once"


def test_an_orphan_is_given_back_to_the_endpoint_that_lacks_it(plane: Plane, strays: Strays) -> None:
    strays.set_mode("report")
    plane.world.set_capacity(FIRST, 0)
    plane.world.set_capacity(SECOND, 0)
    plane.create()
    plane.settle()
    plane.world.set_capacity(FIRST, 1)
    stray = strays.launch_late()
    plane.world.set_capacity(FIRST, 0)
    strays.sweep(after=OLD)
    assert strays.states == ["found"]
    with acting("token ci"):
        services.ask_adoption(ACCOUNT, the_orphan().pk, plane.clock.now())
    wishes.carry_out(plane.clock.now())
    assert strays.states == ["adopted"]
    assert Event.objects.get(reason="OrphanAdopted").actor == "token ci"
    plane.settle(5)
    assert plane.status() == "InService"
    assert stray.provider_id in strays.ids


def test_a_wish_that_cannot_be_carried_out_says_why_and_changes_nothing(plane: Plane, strays: Strays) -> None:
    strays.set_mode("report")
    plane.create()
    plane.settle()
    strays.remember()
    strays.launch()
    strays.sweep(after=OLD)
    row = the_orphan()
    with pytest.raises(ResourceInUse, match="cannot be adopted: nothing is known of its launch"):
        services.ask_adoption(ACCOUNT, row.pk, plane.clock.now())
    endpoint_id = Event.objects.filter(subject_name="e").values_list("subject_id", flat=True)[0]
    Orphan.objects.update(endpoint_id=endpoint_id, endpoint_name="e", account_id=ACCOUNT)
    services.ask_adoption(ACCOUNT, row.pk, plane.clock.now())
    wishes.carry_out(plane.clock.now())
    row.refresh_from_db()
    assert (row.state, row.wish) == ("found", "")
    assert "the launch that made it is no longer known" in row.reason
    assert len(strays.ids) == 2


def test_only_what_lives_and_is_one_s_own_can_be_wished_for(plane: Plane, strays: Strays) -> None:
    strays.set_mode("report")
    strays.remember()
    stray = strays.launch()
    strays.sweep(after=OLD)
    row = the_orphan()
    with pytest.raises(ResourceNotFound):
        services.ask_end(OTHER, row.pk, plane.clock.now())
    strays.end(stray)
    strays.sweep(after=10)
    assert strays.states == ["gone"]
    with pytest.raises(ResourceInUse, match="is gone and cannot be ended"):
        services.ask_end(ACCOUNT, row.pk, plane.clock.now())
    assert not Event.objects.filter(reason="OrphanWish").exists()


def test_a_wish_made_while_another_is_carried_out_is_not_lost(plane: Plane, strays: Strays) -> None:
    strays.set_mode("report")
    strays.remember()
    strays.launch()
    strays.sweep(after=OLD)
    old = services.ask_end(ACCOUNT, the_orphan().pk, plane.clock.now())
    plane.clock.step(1)
    services.ask_end(ACCOUNT, the_orphan().pk, plane.clock.now())
    services.settle(old)
    assert the_orphan().wish == "end"
