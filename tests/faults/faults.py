"""The kinds of fault, and how each is brought about; every one of them is drawn by the storm's dice alone."""

import random
from collections import Counter
from collections.abc import Callable

from django.db import connection

from tests.crash.points import Crash
from workers.providers.errors import ErrorKind, ProviderError
from workers.providers.simulated.world import World

SHARES = {"launch": 0.12, "find": 0.12, "terminate": 0.12, "describe": 0.03, "list_owned": 0.03}
"""How often a call of each kind goes wrong: those that change something are rarer, and worth more trouble."""

KNOB_FAULTS = ("lose_replies", "lose_requests", "throttle", "throttle_listings", "exit_at_start", "zombie_terminates")
"""Knobs of the world that hold a number of calls to spoil."""

CRASH_SHARE = 0.006
"""Of all boundaries, so many end the process."""

DATABASE_SHARE = 0.001
"""Of all boundaries, so many find the connection to the database cut."""

DELAYS = {"boot_seconds": (0, 0, 1, 20), "stop_seconds": (0, 0, 2, 30), "consistency_seconds": (0, 0, 5, 20)}


class Faults:
    """Draws what happens at a boundary, and counts it. `is_over` ends all of it."""

    def __init__(self, dice: random.Random, world: World) -> None:
        self._dice = dice
        self._world = world
        self.counted: Counter[str] = Counter()
        self.is_over = False
        self.is_out = False
        self.interrupt: Callable[[], None] = lambda: None
        self._is_interrupted = False
        self._is_spiteful = False

    @property
    def total(self) -> int:
        """How many faults there were."""
        return self.counted.total()

    def count(self, kind: str) -> None:
        """A fault of this kind happened."""
        self.counted[kind] += 1

    def reach(self, boundary: str) -> None:
        """What a watched process meets at a boundary; raises Crash or ProviderError."""
        if self.is_over:
            return
        place, _, what = boundary.partition(" ")
        if what in SHARES:
            self._disturb_call(place, what)
        if self._dice.random() < DATABASE_SHARE:
            self.count("database connection lost")
            connection.connection.close()
        if self._dice.random() < CRASH_SHARE:
            self.count("crash")
            raise Crash(boundary)

    def _disturb_call(self, place: str, call: str) -> None:
        if self.is_out:
            raise ProviderError(ErrorKind.AMBIGUOUS, "The provider cannot be reached.")
        share, luck = SHARES[call], self._dice.random()
        if luck < share / 2:
            self.count(f"{'request' if place == 'before' else 'reply'} of {call} lost")
            self._is_spiteful = call == "launch" and place == "after"
            raise ProviderError(ErrorKind.AMBIGUOUS, "The connection was lost.")
        if place == "before" and (luck < share or (call == "launch" and self._spite())):
            self.count(f"{call} throttled")
            raise ProviderError(ErrorKind.THROTTLED, "Slow down.")
        if luck < share * 1.5 and not self._is_interrupted:
            # Whatever else goes on while this worker stands still between two steps.
            self._is_interrupted = True
            try:
                self.interrupt()
            finally:
                self._is_interrupted = False

    def _spite(self) -> bool:
        """Misfortunes come together: a launch whose reply was lost is likely to be repeated into a throttle."""
        was_spiteful, self._is_spiteful = self._is_spiteful, False
        return was_spiteful and self._dice.random() < 0.5

    def disturb_world(self, types: tuple[str, ...]) -> None:
        """Something happens in the world, or stops happening."""
        often = [self._shortage, self._knob]
        draw = self._dice.choice([*often, *often, self._delay, self._death, self._sickness, self._outage])
        draw(self._dice.choice(types))

    def _shortage(self, instance_type: str) -> None:
        slots = self._dice.choice([0, 0, 1, 3, 50, 50])
        self._world.set_capacity(instance_type, slots)
        self.count("shortage" if slots < 50 else "end of a shortage")

    def _knob(self, instance_type: str) -> None:
        name = self._dice.choice(KNOB_FAULTS)
        subject = "*" if name == "throttle_listings" else instance_type
        self._world.set_knob(name, self._dice.randint(1, 3), subject)
        self.count(name.replace("_", " "))

    def _delay(self, instance_type: str) -> None:
        name = self._dice.choice(sorted(DELAYS))
        subject = "*" if name == "consistency_seconds" else instance_type
        self._world.set_knob(name, self._dice.choice(DELAYS[name]), subject)
        self.count(name.replace("_", " "))

    def _death(self, _type: str) -> None:
        living = [row.provider_id for row in self._world.live() if row.exits_at is None]
        for provider_id in self._dice.sample(living, min(len(living), self._dice.randint(1, 3))):
            self._world.fail(provider_id, "killed by SIGKILL")
            self.count("instance died")

    def _sickness(self, instance_type: str) -> None:
        is_sick = self._dice.random() < 0.4
        self._world.set_knob("is_sick", float(is_sick), instance_type)
        self.count("all of a type sick" if is_sick else "all of a type well")

    def _outage(self, _type: str) -> None:
        self.is_out = not self.is_out and self._dice.random() < 0.5
        self.count("provider gone" if self.is_out else "provider back")

    def stop(self, types: tuple[str, ...]) -> None:
        """No more of it: plenty everywhere, and everything well."""
        self.is_over, self.is_out = True, False
        for instance_type in types:
            self._world.set_capacity(instance_type, 1000)
            for knob in (*KNOB_FAULTS, *DELAYS, "is_sick"):
                self._world.set_knob(knob, 0, instance_type)
        for knob in (*KNOB_FAULTS, *DELAYS, "is_sick"):
            self._world.set_knob(knob, 0)
