"""The storm itself: endpoints come, change and go while everything that can fail does; then it ends and is counted.

One thread and one clock moved by hand, so that a seed draws the same storm again. Several workers are shown by letting
one stand still at a provider call while others work on (`_interrupt`), also past the end of its claim.
"""

import random
import uuid
from collections import Counter, deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import InterfaceError, OperationalError

from controlplane.auth.models import Account, Installation
from controlplane.core import hints
from controlplane.endpoints.models import Endpoint, EndpointVariant
from controlplane.endpoints.states import Phase
from controlplane.fleet.models import Instance
from controlplane.fleet.states import InstanceStage
from tests.crash.points import Crash
from tests.crash.rig import Rig
from tests.crash.sites import OWNER, SimulatedSite
from tests.fakes.clock import FakeClock
from tests.faults.faults import Faults
from tests.faults.operations import Operations
from tests.faults.watch import LaunchWatch
from workers.loop.lease import CLAIM_SECONDS, due_endpoints
from workers.loop.run import reconcile
from workers.sweep import orphans

TYPES = tuple(f"ml.g5.{size}" for size in ("xlarge", "2xlarge", "4xlarge", "8xlarge", "12xlarge"))
CALM_LIMIT_SECONDS = 3 * 3600.0
"""Longer than the longest mark, budget and back-off together: what has not settled by then never will."""

SETTLED = (Phase.IN_SERVICE, Phase.FAILED, Phase.UPDATE_ROLLBACK_FAILED)


@dataclass
class Outcome:
    """What a storm came to."""

    seed: int
    faults: Counter[str]
    operations: Counter[str]
    launches: int = 0
    leaked: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Whether nothing was leaked, doubled or stuck."""
        return not (self.leaked or self.doubled or self.stuck)

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.faults.most_common())
        operations = ", ".join(f"{count} {kind}" for kind, count in self.operations.most_common())
        return (
            f"seed {self.seed}: {self.faults.total()} faults ({kinds}); {self.operations.total()} operations "
            f"({operations}); {self.launches} launches; "
            f"leaked {len(self.leaked)}, doubled {len(self.doubled)}, stuck {len(self.stuck)}"
        )


class Bell:
    """The doorbell as a bad broker has it: some messages come at once, some late, some twice, some never."""

    def __init__(self, dice: random.Random, faults: Faults) -> None:
        self._dice = dice
        self._faults = faults
        self.rung: deque[UUID] = deque()

    def ring(self, _task: str, subject: UUID) -> None:
        """Deliver, lose or repeat."""
        luck = 1.0 if self._faults.is_over else self._dice.random()
        if luck < 0.2:
            self._faults.count("message lost")
            return
        self.rung.append(subject)
        if luck < 0.3:
            self._faults.count("message twice")
            self.rung.append(subject)


class Storm:
    """One storm over a fresh database."""

    def __init__(self, seed: int, clock: FakeClock) -> None:
        self._dice = random.Random(seed)
        self._ids = random.Random(seed)
        random.seed(seed)
        site = SimulatedSite()
        self.rig = Rig(site, clock)
        self.world = site.world
        self.clock = clock
        self.seed = seed
        self.faults = Faults(self._dice, site.world)
        self.faults.interrupt = self._interrupt
        self.operations = Operations(self._dice, self.rig, TYPES)
        self.bell = Bell(self._dice, self.faults)
        self.watch = LaunchWatch(site.world, self.faults.reach)

    def run(self, faults: int) -> Outcome:
        """Storm until so many faults have happened, then calm down, then count."""
        with ExitStack() as stack:
            previous, hints.doorbell = hints.doorbell, lambda: self.bell  # type: ignore[assignment]
            stack.callback(setattr, hints, "doorbell", previous)
            # Ids break ties, so they are drawn too: otherwise a seed would not give the same storm again.
            stack.callback(setattr, uuid, "uuid4", uuid.uuid4)
            uuid.uuid4 = lambda: uuid.UUID(int=self._ids.getrandbits(128), version=4)
            while self.faults.total < faults:
                self._process(self._busy_moment)
            self.faults.stop(TYPES)
            stuck = self._calm_down()
        return self._count(stuck)

    def _process(self, work: Callable[[], None]) -> None:
        """A process works until it dies or is done."""
        self.watch.new_process()
        # Without its database a process can only give up: the work is left to whoever comes when the claim has expired.
        with suppress(Crash, OperationalError, InterfaceError), self.rig.process(self.watch.reach):
            work()

    def _busy_moment(self) -> None:
        for _ in range(self._dice.randint(5, 40)):
            if self._dice.random() < 0.3:
                self.operations.draw()
            if self._dice.random() < 0.4:
                self.faults.disturb_world(TYPES)
            self._work()
            self.clock.step(self._dice.choice([0.1, 0.5, 1, 1, 2, 5, 5, 20, 70]))

    def _work(self) -> None:
        """Answer the bell, then do what the scan finds."""
        while self.bell.rung:
            reconcile(self.bell.rung.popleft())
        # Ties are broken here: the database may give them in any order.
        for endpoint_id, _due in sorted(due_endpoints(self.clock.now(), 100), key=lambda each: (each[1], each[0])):
            reconcile(endpoint_id)
        if self._dice.random() < 0.2:
            orphans.sweep(self.clock.now())

    def _interrupt(self) -> None:
        """A worker stands still; meanwhile wishes change, and others work on what is due."""
        seconds = self._dice.choice([0, 1, 5, CLAIM_SECONDS + 1, 2 * CLAIM_SECONDS + 31])
        self.faults.count("worker paused past its claim" if seconds > CLAIM_SECONDS else "two workers at once")
        self.watch.paused()
        self.clock.step(seconds)
        if self._dice.random() < 0.5:
            self.operations.draw()
        self._work()

    def _calm_down(self) -> list[str]:
        end = self.clock.now() + timedelta(seconds=CALM_LIMIT_SECONDS)
        with self.rig.process():
            while self.clock.now() < end:
                self._work()
                if self._is_settled():
                    self.rig.idle(180)
                    if self._is_settled():
                        return []
                self.clock.step(5)
        return self.rig.explain().splitlines()

    def _is_settled(self) -> bool:
        unsettled = Endpoint.objects.exclude(phase__in=SETTLED).exists()
        return not unsettled and self.rig.is_quiet() and not self.rig.ledger.disagreement()

    def _count(self, stuck: list[str]) -> Outcome:
        ledger = self.rig.ledger
        problems = ledger.disagreement()
        return Outcome(
            seed=self.seed,
            faults=self.faults.counted,
            operations=self.operations.counted,
            launches=ledger.launched(),
            leaked=[problems] if problems else [],
            doubled=[*ledger.doubled(), *self.watch.surplus, *_surplus()],
            stuck=stuck,
        )


def make_account(now: datetime) -> None:
    """What every control plane has before its first endpoint."""
    Account.objects.create(account_id=settings.HEADRACE.account_id, created_at=now)
    Installation.objects.create(id=1, owner=OWNER, created_at=now)


def _surplus() -> list[str]:
    """Endpoints that have more instances than are wanted."""
    found = []
    for variant in EndpointVariant.objects.select_related("endpoint"):
        count = Instance.objects.filter(variant=variant).exclude(stage=InstanceStage.TERMINATED).count()
        wanted = 0 if variant.endpoint.phase == Phase.FAILED else variant.desired_count
        if count > wanted:
            found.append(f"{variant.endpoint.name}: {count} of {wanted}")
    return found
