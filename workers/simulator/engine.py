"""The loop over all of it: events change facts, facts call for plans, plans lead to events.

    capacity changes --+                        +--> plan --> act --> plan ... until nothing is left to do
    demand changes ----+--> heap --> event -----+                             |
    machines' fates ---+     ^        |         +--> launch call, answered call_seconds later
    looks, answers ----+     |        v                                       |
                             +--------+---------------------------------------+

One look is what `workers.loop.run.reconcile` does: rounds of plan and act until a plan asks for nothing.
"""

from datetime import datetime, timedelta
from random import Random

from controlplane.core.offerings import SPOT
from workers.fleet import actions as do
from workers.fleet.plan import plan
from workers.fleet.view import Endpoint, Phase
from workers.simulator import calendar
from workers.simulator.act import Actor
from workers.simulator.counter import Counter
from workers.simulator.demand import wanted_at
from workers.simulator.fleet import Subject, Work
from workers.simulator.launching import Launching, Stage
from workers.simulator.ledger import Ledger
from workers.simulator.lives import Lives
from workers.simulator.memory import Memory
from workers.simulator.moves import Moves
from workers.simulator.scenario import Group, Scenario
from workers.simulator.timeline import START, Progress, Timeline
from workers.simulator.weather import Change, Key, changes
from workers.simulator.world import World

NOTICE_SECONDS = 2.5
"""How late a change is seen: what a look every 5 s sees late on the average."""

SCAN_SECONDS = 0.5
"""How soon an endpoint can be looked at again: `workers.schedule` scans as often."""

ROUNDS_LIMIT = 64
"""As in `workers.loop.run`: beyond it the endpoint waits its turn again."""


class Simulation:
    """One run of a scenario. `is_looking_always` follows every look that a plan asks for, as the product does."""

    def __init__(self, scenario: Scenario, *, is_looking_always: bool = False) -> None:
        self.scenario = scenario
        self.timeline = Timeline(scenario.duration)
        self.ledger = Ledger(scenario.groups, START)
        self.memory = Memory(scenario.mark_seconds, self._remembered)
        self.world = World(scenario.types, scenario.outages, START)
        self.subjects: dict[str, Subject] = {}
        self.plans = 0
        self._is_looking_always = is_looking_always
        self._counter = Counter(scenario, self.memory, self.world)
        self._lives = Lives(self.timeline, self.world, self.ledger, self._wake)
        self._actor = Actor(self.ledger, self.memory, self._lives, scenario.hold_down_seconds)
        self._moves = Moves(scenario.coming_home_budget)
        stage = Stage(
            self.timeline,
            self.world,
            self.memory,
            self.ledger,
            self._lives,
            self._actor,
            self._moves,
            scenario.call_seconds,
        )
        self._launching = Launching(stage, self._go_on)
        self._waiting: dict[str, dict[str, Subject]] = {each.name: {} for each in scenario.types}
        self._telling: set[str] = set()

    def run(self, progress: Progress | None = None) -> Ledger:
        """Play the scenario to its end; what it came to."""
        for change in changes(self.scenario, START):
            self.timeline.at(change.at, self._set_slots, change)
        for group in self.scenario.groups:
            for number in range(group.count):
                created = START + timedelta(seconds=group.created_over * number / group.count)
                self.timeline.at(created, self._create, group, number)
        self.timeline.run(progress)
        self.ledger.close(self.subjects, self.timeline.now)
        return self.ledger

    # What users and the provider do.

    def _create(self, group: Group, number: int) -> None:
        now = self.timeline.now
        dice = Random(f"{self.scenario.seed}/{group.name}/{number}")
        wanted = wanted_at(group.demand, self.timeline.seconds, dice)
        name = f"{group.name}-{number}" if group.count > 1 else group.name
        subject = Subject(name, group, dice, now, wanted, wanted)
        subject.provision_deadline = now + timedelta(seconds=group.provision_seconds)
        subject.modified_at = now
        self.subjects[name] = subject
        self.ledger.created(subject, now)
        if group.demand.low < group.demand.high:
            # Endpoints do not all change at the same second.
            self.timeline.after(dice.random() * group.demand.step_seconds, self._demand, subject)
        self._look(subject)

    def _demand(self, subject: Subject) -> None:
        """Its user looks at the load; a control plane that is still busy with the last wish is asked again next time."""
        if subject.phase is Phase.FAILED:
            return
        demand, now = subject.group.demand, self.timeline.now
        self.timeline.after(demand.step_seconds, self._demand, subject)
        wanted = wanted_at(demand, self.timeline.seconds, subject.dice)
        if wanted != subject.wanted:
            subject.wanted = wanted
            self.ledger.wants(subject, now)
        if wanted != subject.desired_count and subject.phase is Phase.IN_SERVICE:
            self._update(subject, wanted, now)

    def _update(self, subject: Subject, wanted: int, now: datetime) -> None:
        """`controlplane.endpoints.services.update_weights_and_capacities`, restated."""
        subject.rollback_count, subject.desired_count = subject.desired_count, wanted
        subject.phase, subject.modified_at = Phase.UPDATING, now
        subject.provision_deadline = now + timedelta(seconds=subject.group.provision_seconds)
        subject.refusals = subject.start_failures = 0
        subject.start_failure_reason, subject.launch_not_before = "", None
        subject.generation += 1
        self._look(subject)

    def _set_slots(self, change: Change) -> None:
        surplus = self.world.set_slots(change.key, change.slots)
        if surplus and change.key[2] == SPOT:
            self._lives.reclaim(change.key, surplus)

    # Looking.

    def _look(self, subject: Subject) -> None:
        """Plan and act until a plan asks for nothing; where a launch call is made, `_go_on` comes after its answer."""
        if subject.is_busy:
            subject.is_stale = True
            return
        subject.rounds, subject.look_at = 0, None
        self._plan(subject)

    def _plan(self, subject: Subject) -> None:
        while subject.rounds < ROUNDS_LIMIT:
            subject.rounds += 1
            now = self.timeline.now
            view = subject.view(self._counter.offerings_of(subject), now)
            decided = plan(view, now)
            self.plans += 1
            if not decided.actions:
                self._rest(subject, decided, view)
                return
            subject.work = Work(decided, list(decided.actions), subject.generation)
            if not self._act(subject, subject.work):
                return
        self._look_at(subject, self.timeline.now + timedelta(seconds=NOTICE_SECONDS))

    def _go_on(self, subject: Subject) -> None:
        """A launch call was answered: the rest of the actions, and then the next round."""
        if subject.work is not None and self._act(subject, subject.work):
            self._plan(subject)

    def _act(self, subject: Subject, work: Work) -> bool:
        """Do what was decided, in order, until the wish changes; True when it pays to plan again now."""
        while work.actions:
            if work.generation != subject.generation:
                work.is_changed = True
                break
            action = work.actions.pop(0)
            if isinstance(action, do.Launch):
                self._launching.launch(subject, action)
            elif isinstance(action, do.ResolveAttempt):
                self._launching.resolve(subject, action)
            else:
                self._actor.perform(subject, action, self.timeline.now)
                work.is_changed = True
            if subject.is_busy:
                return False
        subject.work = None
        if not work.is_changed:
            now = self.timeline.now
            self._rest(subject, work.decided, subject.view(self._counter.offerings_of(subject), now))
        return work.is_changed

    def _rest(self, subject: Subject, decided: do.Plan, view: Endpoint) -> None:
        """Nothing is left to do now: be looked at when something may have changed."""
        self._moves.review(subject)
        subject.look_at = None
        now = self.timeline.now
        at = decided.look_again_at if self._is_looking_always else calendar.next_look(view, decided, now)
        if at is not None:
            self._look_at(subject, max(at, now + timedelta(seconds=SCAN_SECONDS)))
        if subject.is_stale:
            subject.is_stale = False
            self._wake(subject)
        self._wait_for(subject, calendar.waits_for(view))

    def _wait_for(self, subject: Subject, types: frozenset[str]) -> None:
        """Keep the list of those who are to hear when a type becomes available."""
        if types == subject.waits_for:
            return
        for left in sorted(subject.waits_for - types):
            del self._waiting[left][subject.name]
        for new in sorted(types - subject.waits_for):
            self._waiting[new][subject.name] = subject
        subject.waits_for = types

    def _look_at(self, subject: Subject, at: datetime) -> None:
        """See to it that the subject is looked at by then; an earlier look makes a later one void."""
        if subject.look_at is None or at < subject.look_at:
            subject.look_at = at
            self.timeline.at(at, self._due, subject, at)

    def _due(self, subject: Subject, at: datetime) -> None:
        if subject.look_at == at:
            subject.look_at = None
            self._look(subject)

    def _wake(self, subject: Subject) -> None:
        """Something changed that the next look every 5 s would see."""
        if not self._is_looking_always:
            self._look_at(subject, self.timeline.now + timedelta(seconds=NOTICE_SECONDS))

    def _remembered(self, key: Key, *, is_open: bool) -> None:
        """A mark changed. Those who would use the key hear of it once it may have become possible, all of them at once."""
        self._counter.turn(key[0])
        self.ledger.marked(key, self.memory.mark_of(key), self.timeline.now)
        if is_open and not self._is_looking_always and key[0] not in self._telling and self._waiting[key[0]]:
            self._telling.add(key[0])
            self.timeline.after(NOTICE_SECONDS, self._tell, key[0])

    def _tell(self, instance_type: str) -> None:
        self._telling.discard(instance_type)
        for subject in list(self._waiting[instance_type].values()):
            # One without any instance is not pinged, so in the product too it sleeps until its own time has come.
            if subject.machines:
                self._look(subject)
