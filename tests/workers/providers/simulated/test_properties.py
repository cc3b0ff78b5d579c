"""Whatever happens in whatever order: never more instances than slots when one is added, never two for one token."""

from datetime import timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from controlplane.core import clock
from tests.fakes.clock import FakeClock
from workers.providers.base import LaunchRequest
from workers.providers.errors import ErrorKind, ProviderError
from workers.providers.simulated.provider import SimulatedProvider
from workers.providers.simulated.world import World

TYPES, ZONES = ("small", "large"), ("a", "b")
types, zones, tokens = st.sampled_from(TYPES), st.sampled_from(ZONES), st.sampled_from([f"t{n}" for n in range(8)])
small = st.integers(0, 3)
KNOBS = ("throttle", "lose_replies", "lose_requests", "exit_at_start", "zombie_terminates", "boot_seconds", "stop_seconds")


class Rehearsal(RuleBasedStateMachine):
    """A world with a model beside it: slots by type and zone, and the provider id that each token was told."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.previous = clock.use(self.clock)
        self.world = World(":memory:")
        self.provider = SimulatedProvider(self.world, ZONES)
        self.slots = {(each, zone): 2 for each in TYPES for zone in ZONES}
        self.told: dict[str, str] = {}
        for each in TYPES:
            self.world.set_capacity(each, 2)

    def teardown(self) -> None:
        self.world.close()
        clock.use(self.previous)

    def holders(self, instance_type: str, zone: str) -> int:
        now = self.clock.now()
        rows = [row for row in self.world.live() if (row.instance_type, row.zone) == (instance_type, zone)]
        return sum(not row.has_exited(now) for row in rows)

    @rule(several=st.lists(tokens, min_size=1, max_size=5, unique=True), instance_type=types, zone=zones)
    def launch_several(self, several: list[str], instance_type: str, zone: str) -> None:
        for token in several:
            self.launch(token, instance_type, zone)

    def launch(self, token: str, instance_type: str, zone: str) -> None:
        before = {row.token: row.provider_id for row in self.world.live()}
        held = self.holders(instance_type, zone)
        try:
            launched = self.provider.launch(LaunchRequest(token, "us", instance_type, zone, "i"))
        except ProviderError as error:
            assert token not in before, "a known token is always answered"
            if error.kind is ErrorKind.CAPACITY:
                assert held >= self.slots[instance_type, zone]
        else:
            assert before.get(token, launched.provider_id) == launched.provider_id
            self.told[token] = launched.provider_id
        after = {row.token for row in self.world.live()}
        assert after <= before.keys() | {token}
        if after != before.keys():
            assert self.holders(instance_type, zone) <= self.slots[instance_type, zone]

    @rule(token=tokens)
    def terminate(self, token: str) -> None:
        provider_id = self.told.get(token, "unknown")
        is_there = provider_id in {row.provider_id for row in self.world.live()}
        if is_there:
            self.provider.terminate(provider_id)
            return
        with pytest.raises(ProviderError) as caught:
            self.provider.terminate(provider_id)
        assert caught.value.kind is ErrorKind.GONE

    @rule(instance_type=types, zone=st.sampled_from((*ZONES, "*")), slots=small)
    def set_capacity(self, instance_type: str, zone: str, slots: int) -> None:
        self.world.set_capacity(instance_type, slots, zone)
        for each in ZONES if zone == "*" else (zone,):
            self.slots[instance_type, each] = slots

    @rule(name=st.sampled_from(KNOBS), value=small, instance_type=st.sampled_from((*TYPES, "*")))
    def turn(self, name: str, value: int, instance_type: str) -> None:
        self.world.set_knob(name, value, instance_type)

    @rule(token=tokens)
    def fail(self, token: str) -> None:
        self.world.fail(self.told.get(token, "unknown"), "killed")

    @rule(instance_type=types, slots=small)
    def schedule(self, instance_type: str, slots: int) -> None:
        self.world.schedule_capacity(self.clock.now() + timedelta(seconds=1), instance_type, slots)
        self.clock.step(1)
        self.slots |= {(instance_type, zone): slots for zone in ZONES}

    @rule(seconds=small)
    def wait(self, seconds: int) -> None:
        self.clock.step(seconds)

    @invariant()
    def a_token_is_one_instance(self) -> None:
        rows = self.world.live()
        assert len({row.token for row in rows}) == len(rows)
        assert {each.provider_id for each in self.provider.list_owned("us")} == {row.provider_id for row in rows}


Rehearsal.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestRehearsal = Rehearsal.TestCase
