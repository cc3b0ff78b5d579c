"""The facts of one simulated endpoint, and the frozen view of them that the planner is given.

What `controlplane.endpoints` and `controlplane.fleet` keep in rows stands here in fields of the same names. One variant
to an endpoint: variants of one endpoint share nothing but its phase and its ceiling.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

from controlplane.core.offerings import Offering, Pool
from workers.fleet.actions import Action, Launch, Plan
from workers.fleet.pace import MEMORY_SECONDS, SHORT_LIFE_SECONDS
from workers.fleet.view import WANTED, Attempt, Endpoint, Instance, Phase, Sighting, Stage, Variant
from workers.simulator.scenario import Group
from workers.simulator.timeline import START
from workers.simulator.weather import Key
from workers.simulator.world import Fate

VARIANT = "main"


@dataclass(eq=False, slots=True)
class Machine:
    """An instance: the row as the planner sees it, its fate, and whether it is there and answers.

    `is_serving` is the truth (routed to and alive), which the control plane may learn a little later.
    """

    row: Instance
    fate: Fate
    ready_at: datetime | None = None
    is_serving: bool = False
    is_gone: bool = False

    @property
    def key(self) -> Key:
        return self.fate.key

    def see(self, **facts: Any) -> None:
        """Change what the planner sees of it."""
        self.row = replace(self.row, **facts)


@dataclass(eq=False, slots=True)
class Call:
    """A launch under way: its action, which of the action's instances it is for, and the token it was made with.

    `is_repeat` when the same token was used before and its outcome is not known.
    """

    action: Launch
    number: int
    token: str
    key: Key
    called_at: datetime
    generation: int
    is_repeat: bool = False


@dataclass(eq=False, slots=True)
class Work:
    """A plan that is being carried out: what is left of its actions, and whether any of them changed a fact."""

    decided: Plan
    actions: list[Action]
    generation: int
    is_changed: bool = False


@dataclass(eq=False, slots=True)
class Subject:
    """One endpoint. `wanted` is what its user wants, `desired_count` what the control plane was told.

    `is_busy` while a launch call is under way: nobody plans for it meanwhile, and `is_stale` when it should have been.
    `lost` are the keys of launches whose outcome is not known, by token. `lives` are the first good /ping and the end of
    instances that ended lately, `modified_at` the last wish or change of phase. `work` is what is being carried out, in the
    round numbered `rounds` of this look. `look_at` is when the next look is due (None: when something happens).
    `generation` rises with every wish, so that a launch for the old one stops.
    """

    name: str
    group: Group
    dice: Random
    created_at: datetime
    wanted: int
    desired_count: int
    phase: Phase = Phase.CREATING
    rollback_count: int | None = None
    provision_deadline: datetime | None = None
    launch_not_before: datetime | None = None
    refusals: int = 0
    start_failures: int = 0
    start_failure_reason: str = ""
    short_since: datetime | None = None
    move_not_before: datetime | None = None
    machines: dict[str, Machine] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    lost: dict[str, Key] = field(default_factory=dict)
    lives: list[tuple[datetime, datetime]] = field(default_factory=list)
    modified_at: datetime = START
    launches: int = 0
    calls: int = 0
    generation: int = 1
    is_busy: bool = False
    is_stale: bool = False
    work: Work | None = None
    rounds: int = 0
    look_at: datetime | None = None
    waits_for: frozenset[str] = frozenset()
    in_service_at: datetime | None = None

    def view(self, offerings: tuple[Offering, ...], now: datetime) -> Endpoint:
        """What the planner is given: the facts as they are now."""
        group = self.group
        variant = Variant(
            id=1,
            name=VARIANT,
            desired_count=self.desired_count,
            offerings=offerings,
            instances=tuple(machine.row for machine in self.machines.values()),
            attempts=tuple(self.attempts),
            provision_deadline=self.provision_deadline,
            launch_not_before=self.launch_not_before,
            refusals=self.refusals,
            start_failures=self.start_failures,
            start_failure_reason=self.start_failure_reason,
            startup_timeout_seconds=group.startup_timeout_seconds,
            full_count=self.desired_count,
            short_since=self.short_since,
            home_after_seconds=group.home_after_seconds,
            move_not_before=self.move_not_before,
            short_lives=self._short_lives(now) if self.lives else (),
        )
        return Endpoint(self.name, self.name, self.phase, (variant,), hourly_ceiling=group.hourly_ceiling)

    def headroom(self) -> float | None:
        """What more instances may cost per hour below the ceiling."""
        if self.group.hourly_ceiling is None:
            return None
        spent = sum(machine.row.hourly_price for machine in self.machines.values())
        return self.group.hourly_ceiling - spent - sum(attempt.hourly_price for attempt in self.attempts)

    def ends(self, machine: Machine, now: datetime) -> None:
        """An instance that has served is told to end, or is gone."""
        if machine.ready_at is not None and now - machine.ready_at < timedelta(seconds=SHORT_LIFE_SECONDS):
            self.lives.append((machine.ready_at, now))

    def _short_lives(self, now: datetime) -> tuple[datetime, ...]:
        """As `workers.fleet.observe` finds them: of instances that came since the last wish or change of phase."""
        self.lives = [life for life in self.lives if now - life[1] < timedelta(seconds=MEMORY_SECONDS)]
        return tuple(end for ready_at, end in self.lives if ready_at > self.modified_at)

    def add(self, fate: Fate, pool: Pool, price: float, replaces: str, now: datetime) -> Machine:
        """A launched instance's row."""
        self.launches += 1
        row = Instance(
            id=f"{self.launches:08d}-{self.name}",
            pool=pool,
            stage=Stage.PENDING,
            stage_since=now,
            launched_at=fate.launched_at,
            sighting=Sighting.PENDING,
            replaces=replaces,
            hourly_price=price,
        )
        machine = Machine(row, fate)
        self.machines[row.id] = machine
        return machine

    def serving(self) -> int:
        """How many instances answer calls, whatever the control plane believes."""
        return sum(machine.is_serving for machine in self.machines.values())

    def believed_ready(self) -> int:
        """How many the control plane holds for ready."""
        return sum(machine.row.stage is Stage.READY for machine in self.machines.values())

    def live(self) -> int:
        """How many are coming up or ready: what is counted against the target."""
        return sum(machine.row.stage in WANTED for machine in self.machines.values())


def pools_of(group: Group) -> tuple[Pool, ...]:
    """The group's pools as the planner knows them, in list order."""
    return tuple(
        Pool(place, wish.priority, place, wish.instance_type, wish.patience_seconds)
        for place, wish in enumerate(group.pools)
    )
