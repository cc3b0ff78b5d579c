"""Making orphans the way they come about, and sweeping."""

import dataclasses
from datetime import datetime

import pytest
from django.conf import settings

from controlplane.core.ids import new_token
from controlplane.endpoints.models import Endpoint
from controlplane.fleet.models import Instance, LaunchAttempt
from controlplane.fleet.states import AttemptStage
from controlplane.observability.models import Event
from controlplane.orphans.models import Orphan
from tests.workers.plane import FIRST, Plane
from workers.providers import registry
from workers.providers.base import LaunchRequest, ProviderInstance
from workers.providers.simulated import storage
from workers.providers.simulated.storage import Row
from workers.sweep import orphans
from workers.sweep.look import GRACE_SECONDS

OLD = GRACE_SECONDS + 1


class Strays:
    """Launches that no row knows of, over one plane."""

    def __init__(self, plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
        self._plane = plane
        self._monkeypatch = monkeypatch

    def launch(self, token: str = "", *, owner: str = "tests", instance_type: str = FIRST) -> ProviderInstance:
        """Launch behind the control plane's back; with an attempt's token, as a worker does that was paused before."""
        zone = registry.get("simulated").zones[0]
        request = LaunchRequest(token or new_token(), owner, instance_type, zone, "headrace/reference")
        return registry.get("simulated").launch(request)

    def launch_late(self, name: str = "e") -> ProviderInstance:
        """This endpoint's refused launch of FIRST is carried out after all, by a worker that comes too late."""
        attempt = LaunchAttempt.objects.filter(endpoint__name=name, instance_type=FIRST, stage="refused").first()
        assert attempt is not None
        return self.launch(attempt.token, instance_type=attempt.instance_type)

    def crash_before_the_outcome_is_stored(self) -> None:
        """What a process leaves that ends between the provider's answer and its commit: an instance, and an open intent."""
        Instance.objects.all().delete()
        LaunchAttempt.objects.update(stage=AttemptStage.INTENDED, ended_at=None)

    def turn_up_again(self, row: Row) -> None:
        """The provider has an instance again that it said was gone."""
        with self._plane.world.transaction() as cursor:
            storage.insert(cursor, row)

    def end(self, instance: ProviderInstance) -> None:
        """Somebody else ends an instance."""
        registry.get("simulated").terminate(instance.provider_id)

    def restore_from(self, backup: datetime) -> None:
        """Whatever was stored after `backup` is lost, as after a restore."""
        Endpoint.objects.filter(created_at__gt=backup).delete()
        Event.objects.filter(at__gt=backup).delete()

    def set_mode(self, mode: str) -> None:
        """What HEADRACE_ORPHAN_SWEEP says."""
        self._monkeypatch.setattr(settings, "HEADRACE", dataclasses.replace(settings.HEADRACE, orphan_sweep=mode))

    def sweep(self, after: float = 0.0) -> list[str]:
        """Let time pass without any other work, then sweep."""
        self._plane.clock.step(after)
        return orphans.sweep(self._plane.clock.now())

    def remember(self) -> None:
        """The database knows of something that happens now, as of all the time in which it was in use."""
        Event.objects.create(
            at=self._plane.clock.now(),
            account_id=settings.HEADRACE.account_id,
            subject_kind="endpoint",
            subject_id=new_token(),
            subject_name="another",
            reason="Noted",
            sentence="Something else happens.",
        )

    @property
    def ids(self) -> list[str]:
        """What the provider still has."""
        return [row.provider_id for row in self._plane.world.live()]

    @property
    def states(self) -> list[str]:
        """The states of what was found, oldest first."""
        return list(Orphan.objects.order_by("launched_at", "id").values_list("state", flat=True))

    def told(self) -> list[str]:
        """The reasons of the events of orphans and of the sweep, in order."""
        found = Event.objects.filter(reason__startswith="Orphan").order_by("id")
        return list(found.values_list("reason", flat=True))
