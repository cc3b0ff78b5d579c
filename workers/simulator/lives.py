"""What happens to an instance by itself, from its launch to its end.

launched --> runs --> serves --+--> crashes (exits; its slot is kept until it is ended)
               |               +--> interruption announced --> 2 min later it is gone
               +--> exits before it was ready
told to end --> STOP_SECONDS later it is gone
"""

from collections.abc import Callable
from datetime import timedelta

from workers.fleet.view import Sighting, Stage
from workers.providers.base import StartFailure
from workers.simulator.fleet import Machine, Subject
from workers.simulator.ledger import Ledger
from workers.simulator.timeline import Timeline
from workers.simulator.weather import Key
from workers.simulator.world import NOTICE_OF_INTERRUPTION_SECONDS, STOP_SECONDS, World

_ENDING = frozenset({Stage.TERMINATING})
EXITED = StartFailure.CONTAINER_EXITED.value


class Lives:
    """Plays the fates of instances; `wake(subject)` has its endpoint looked at soon."""

    def __init__(self, timeline: Timeline, world: World, ledger: Ledger, wake: Callable[[Subject], None]) -> None:
        self._timeline = timeline
        self._world = world
        self._ledger = ledger
        self._wake = wake
        self._by_key: dict[Key, dict[str, tuple[Subject, Machine]]] = {}

    def begin(self, subject: Subject, machine: Machine) -> None:
        """A launched instance is known of; what its fate holds comes in its time."""
        self._by_key.setdefault(machine.key, {})[machine.row.id] = (subject, machine)
        self._timeline.at(machine.fate.runs_at, self._runs, subject, machine)
        if machine.fate.interrupted_at is not None:
            self._timeline.at(machine.fate.interrupted_at, self.interrupt, subject, machine)

    def drain(self, subject: Subject, machine: Machine) -> None:
        """It gets no new calls; the last one under way ends a while later."""
        self._timeline.after(subject.group.drain_seconds, self._calls_end, subject, machine)

    def stop(self, subject: Subject, machine: Machine) -> None:
        """Its end was asked for."""
        self._timeline.after(STOP_SECONDS, self._gone, subject, machine)

    def reclaim(self, key: Key, surplus: int) -> None:
        """Capacity fell below what lives on a market where the provider takes instances back: the newest go first."""
        there = list(self._by_key.get(key, {}).values())
        for subject, machine in there[len(there) - surplus :]:
            self.interrupt(subject, machine)

    def interrupt(self, subject: Subject, machine: Machine) -> None:
        """The provider announces to take the instance away."""
        if machine.is_gone or machine.row.notice or machine.row.stage in _ENDING:
            return
        ends_at = self._timeline.now + timedelta(seconds=NOTICE_OF_INTERRUPTION_SECONDS)
        machine.see(notice="spot interruption", notice_ends_at=ends_at)
        self._ledger.tallies[subject.group.name].interruptions += 1
        self._timeline.at(ends_at, self._taken, subject, machine)
        self._wake(subject)

    def _runs(self, subject: Subject, machine: Machine) -> None:
        if machine.is_gone or machine.row.stage in _ENDING:
            return
        machine.see(sighting=Sighting.RUNNING, address="10.0.0.1:8080")
        self._timeline.at(machine.fate.ready_at, self._started, subject, machine)
        self._wake(subject)

    def _started(self, subject: Subject, machine: Machine) -> None:
        if machine.is_gone or machine.row.stage in _ENDING:
            return
        if machine.fate.exits_before_ready:
            machine.see(sighting=Sighting.EXITED, failure=EXITED, detail="the container exited with code 1")
        else:
            machine.see(is_healthy=True)
            if machine.fate.crashes_at is not None:
                self._timeline.at(machine.fate.crashes_at, self._crashes, subject, machine)
        self._wake(subject)

    def _crashes(self, subject: Subject, machine: Machine) -> None:
        if machine.is_gone or machine.row.stage in _ENDING:
            return
        self._ledger.tallies[subject.group.name].crashes += 1
        self._ledger.serves(subject, machine, is_serving=False, now=self._timeline.now)
        machine.see(sighting=Sighting.EXITED, failure=EXITED, is_healthy=None, detail="the container exited with code 137")
        self._wake(subject)

    def _calls_end(self, subject: Subject, machine: Machine) -> None:
        if machine.row.stage is Stage.DRAINING:
            machine.see(in_flight=0)
            self._wake(subject)

    def _taken(self, subject: Subject, machine: Machine) -> None:
        """An announced end: survived when somebody else serves at that moment."""
        self._gone(subject, machine)
        self._ledger.tallies[subject.group.name].survived += subject.serving() > 0

    def _gone(self, subject: Subject, machine: Machine) -> None:
        if machine.is_gone:
            return
        now = self._timeline.now
        self._ledger.serves(subject, machine, is_serving=False, now=now)
        self._ledger.ended(subject, machine, now)
        machine.is_gone = True
        machine.see(sighting=Sighting.GONE, is_healthy=None)
        self._world.release(machine.key)
        del self._by_key[machine.key][machine.row.id]
        self._wake(subject)
