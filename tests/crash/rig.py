"""A control plane whose process can be ended and started anew, with time that jumps to whatever is due next."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta

from django.apps import apps
from django.db import connection
from django.db.models import F
from django.db.models.functions import Greatest

from controlplane.endpoints.models import Endpoint
from controlplane.endpoints.states import Phase
from controlplane.fleet.models import Instance, LaunchAttempt
from controlplane.fleet.states import OPEN_ATTEMPTS, InstanceStage
from tests.crash.ledger import Ledger
from tests.crash.points import Reach, Watched, installed, watched_database
from tests.crash.sites import Site
from tests.emptying import delete_rows
from tests.fakes.clock import FakeClock
from tests.workers.plane import Plane
from workers.loop.lease import due_endpoints
from workers.loop.run import reconcile
from workers.sweep import orphans

SWEEP_SECONDS = 10.0
"""How often orphans are looked for, as the scheduler does after its start."""

MOVING = (Phase.CREATING, Phase.UPDATING, Phase.ROLLING_BACK, Phase.DELETING)
_APPS = ("catalog", "endpoints", "fleet", "orphans", "observability", "metrics", "routing", "invocations")
_SMALLEST_STEP_SECONDS = 0.05


def nothing_happens(_boundary: str) -> None:
    """No crash here."""


class Rig(Plane):
    """One control plane, one world, one process at a time.

    `swept` are the orphans that the sweep ended, `doomed` instances that have to be replaced before it is quiet, and
    `meanwhile` is what the world does at every moment.
    """

    def __init__(self, site: Site, clock: FakeClock) -> None:
        self.site = site
        self.clock = clock
        self.ledger = Ledger(site)
        self.swept: list[str] = []
        self.doomed: set[str] = set()
        self.meanwhile: Callable[[], None] = lambda: None
        self._next_sweep: datetime = clock.now()

    @contextmanager
    def process(self, reach: Reach = nothing_happens) -> Iterator[None]:
        """A process that reaches boundaries until it ends; whatever it held in memory ends with it."""
        watched = Watched(self.site.start(), self.ledger.watching(reach))
        self._next_sweep = self.clock.now()
        with ExitStack() as stack:
            stack.callback(connection.close)
            stack.enter_context(installed(watched))
            stack.enter_context(watched_database(reach))
            yield

    def run(self, until: Callable[[], bool], seconds: float) -> float:
        """Do what is due as the scan does, jumping from one due time to the next; fails when `until` stays false.

        Returns how many seconds it took.
        """
        start = self.clock.now()
        while not self._work_until(until):
            passed = (self.clock.now() - start).total_seconds()
            assert passed <= seconds, f"stuck after {passed:.0f} s: {self.explain()}"
            self._jump(start + timedelta(seconds=seconds + 1))
        return (self.clock.now() - start).total_seconds()

    def idle(self, seconds: float) -> None:
        """Let so much time pass, doing what is due."""
        end = self.clock.now() + timedelta(seconds=seconds)
        while self.clock.now() < end:
            self._work_until(lambda: False)
            self._jump(end)

    def _work_until(self, until: Callable[[], bool]) -> bool:
        self.meanwhile()
        now = self.clock.now()
        for endpoint_id, _due in due_endpoints(now, 100):
            reconcile(endpoint_id)
        if now >= self._next_sweep:
            self._next_sweep = now + timedelta(seconds=SWEEP_SECONDS)
            self.swept += orphans.sweep(now)
        return until()

    def _jump(self, latest: datetime) -> None:
        """Go to the next moment at which something is due, at `latest` at the latest."""
        now = self.clock.now()
        due = Endpoint.objects.annotate(at=Greatest("look_again_at", "claim_expires_at")).order_by("at")
        times = [latest, self._next_sweep, *due.values_list("at", flat=True)[:1]]
        self.site.let_time_pass()
        self.clock.step(max((min(times) - now).total_seconds(), _SMALLEST_STEP_SECONDS))

    def is_quiet(self) -> bool:
        """Whether every operation is over and every instance that is left serves."""
        return not (
            Endpoint.objects.filter(phase__in=MOVING).exists()
            or LaunchAttempt.objects.filter(stage__in=OPEN_ATTEMPTS).exists()
            or Instance.objects.exclude(stage__in=(InstanceStage.READY, InstanceStage.TERMINATED)).exists()
            or self._lacks_instances()
            or self.doomed.intersection(each.provider_id for each in self.site.real())
        )

    @staticmethod
    def _lacks_instances() -> bool:
        served = Endpoint.objects.filter(phase=Phase.IN_SERVICE)
        return served.exclude(variants__desired_count=F("variants__current_count")).exists()

    def explain(self) -> str:
        """Where everything stands, for a human who has to find out why."""
        lines = [f"{each.name} {each.phase} {each.why} claim={each.claim_token}" for each in Endpoint.objects.all()]
        lines += [f"  {row.instance_type} {row.stage} {row.token} {row.reason}" for row in Instance.objects.all()]
        lines += [f"  attempt {row.token} {row.stage} {row.error_kind}" for row in LaunchAttempt.objects.all()]
        return "\n".join([*lines, f"  the provider has {self.ledger.live()}"])


def forget_everything() -> None:
    """Empty the tables that a scenario fills."""
    delete_rows([model._meta.db_table for name in _APPS for model in apps.get_app_config(name).get_models()])
