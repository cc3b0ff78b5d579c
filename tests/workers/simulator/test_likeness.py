"""The simulator restates what the product keeps in a database; here both are played side by side and say the same."""

from collections.abc import Mapping
from datetime import timedelta
from random import Random
from uuid import uuid4

import pytest
from django.conf import settings

from controlplane.endpoints.models import Endpoint
from controlplane.fleet.models import CapacityMark, Instance, LaunchAttempt
from controlplane.fleet.states import InstanceStage
from tests.fakes.clock import START as NOW
from tests.workers.plane import FIRST, SECOND, Plane
from tests.workers.simulator.test_parse import GOOD
from tests.workers.simulator.worlds import Checked
from workers import schedule
from workers.fleet import first_ask, memory, moves
from workers.loop import run
from workers.providers.errors import ErrorKind, ProviderError
from workers.simulator import engine
from workers.simulator import first_ask as simulated_first_ask
from workers.simulator import moves as simulated_moves
from workers.simulator.memory import Memory
from workers.simulator.parse import parse
from workers.simulator.scenario import Demand, Group, InstanceType, PoolWish, Scenario, Shortage
from workers.simulator.weather import Key

SPOT = "spot"
REFUSALS = {"refuse": ErrorKind.CAPACITY, "quota": ErrorKind.QUOTA, "unknown": ErrorKind.UNKNOWN}
DOINGS = (*REFUSALS, "refuse", "refuse", "forget", "probe", "probe", "release", "reopen", "interrupt", "wait", "wait")


def test_constants_that_are_restated_are_the_products() -> None:
    assert (run.ROUNDS_LIMIT, schedule.SCAN_SECONDS) == (engine.ROUNDS_LIMIT, engine.SCAN_SECONDS)
    assert moves.RETRY_SECONDS == simulated_moves.RETRY_SECONDS
    for name in ("ANSWER_SECONDS", "LOOK_FIRST_SECONDS", "LOOK_LAST_SECONDS"):
        assert getattr(first_ask, name) == getattr(simulated_first_ask, name)


def test_a_scenario_that_sets_nothing_has_the_settings_defaults() -> None:
    played = parse(GOOD)
    assert played.mark_seconds == settings.HEADRACE.capacity_mark_seconds
    assert played.coming_home_budget == settings.HEADRACE.coming_home_budget
    assert played.hold_down_seconds == settings.HEADRACE.coming_home_hold_down_seconds


@pytest.mark.django_db
@pytest.mark.parametrize("seed", range(4))
def test_marks_come_and_go_as_in_the_database(seed: int) -> None:
    dice, now = Random(seed), NOW
    simulated = Memory(settings.HEADRACE.capacity_mark_seconds, lambda key, *, is_open: None)
    tokens = [f"token-{number}" for number in range(4)]
    for _ in range(60):
        doing, token = dice.choice(DOINGS), dice.choice(tokens)
        if doing == "wait":
            now += timedelta(seconds=dice.choice([1, 9, 29, 31, 290, 310, 1900]))
            continue
        answers = _do(doing, token, now), _simulate(simulated, doing, token, now)
        assert answers[0] == answers[1], doing
        assert _stored() == _remembered(simulated), doing


KEY: Key = (FIRST, "a", SPOT)


def _do(doing: str, token: str, now: object) -> object:
    place = {"provider": "simulated", "zone": "a", "instance_type": FIRST, "market": SPOT}
    attempt = LaunchAttempt(token=token, endpoint=Endpoint(name="e"), **place)
    instance = Instance(id=uuid4(), endpoint=Endpoint(name="e"), **place)
    if doing in REFUSALS:
        memory.remember_refusal(attempt, ProviderError(REFUSALS[doing], "no room"), now)
        return None
    return {
        "forget": lambda: memory.forget_refusal(attempt),
        "probe": lambda: memory.take_probe(attempt, now),
        "release": lambda: memory.release_probe(attempt),
        "reopen": lambda: memory.reopen(instance, now),
        "interrupt": lambda: memory.note_interruption(instance, "taken", now),
    }[doing]()


def _simulate(simulated: Memory, doing: str, token: str, now: object) -> object:
    if doing in REFUSALS:
        return simulated.remember_refusal(KEY, REFUSALS[doing].value, "e", now)
    return {
        "forget": lambda: simulated.forget_refusal(KEY),
        "probe": lambda: simulated.take_probe(KEY, token, now),
        "release": lambda: simulated.release_probe(KEY, token),
        "reopen": lambda: simulated.reopen(KEY, now),
        "interrupt": lambda: simulated.note_interruption(KEY, "taken", "e", now),
    }[doing]()


def _stored() -> tuple | None:
    row = CapacityMark.objects.first()
    return (row.kind, row.marked_at, row.until, row.streak, row.probe_expires_at) if row else None


def _remembered(simulated: Memory) -> tuple | None:
    row = simulated._rows.get(KEY)
    mark = row.mark if row else None
    return (mark.kind, mark.marked_at, mark.until, row.streak, mark.probe_expires_at) if row and mark else None


# A whole control plane beside a simulation of the same world.

BOOT_SECONDS = 30.0
BACK_AFTER = 1200.0
"""When the preferred type is back: after the first move home has been refused."""


def test_a_control_plane_and_its_simulation_ask_for_the_same_in_the_same_order(plane: Plane) -> None:
    plane.world.set_knob("boot_seconds", BOOT_SECONDS)
    plane.world.set_capacity(FIRST, 0)
    plane.world.schedule_capacity(plane.clock.now() + timedelta(seconds=BACK_AFTER), FIRST, 9)
    plane.create(count=2, types=(FIRST, SECOND), tags={"headrace:coming-home": "10m"})
    plane.settle(45, step=3)
    plane.settle(5400, step=30)
    asked = [tuple(each.split(" ", 1)) for each in plane.asked()]

    simulation = Checked(_same_world())
    ledger = simulation.run()
    simulated = [(key[0], answer.value) for _, key, answer in ledger.calls]

    assert [(kind, _in_words(result)) for kind, result in asked] == simulated
    assert simulated.count((FIRST, "refused")) == 2, "once by the creation, once by a move home"
    assert plane.counts() == _serving(simulation) == {FIRST: 2, SECOND: 0}


def _same_world() -> Scenario:
    types = (
        InstanceType(FIRST, 2.0, 1.0, BOOT_SECONDS, 0.0, shortages=(Shortage(0.0, BACK_AFTER),)),
        InstanceType(SECOND, 1.0, 1.0, BOOT_SECONDS, 0.0),
    )
    pools = (PoolWish(FIRST, 1), PoolWish(SECOND, 2))
    facts = {"home_after_seconds": 600.0, "startup_seconds": 0.0, "drain_seconds": 0.0}
    return Scenario("the same", 5460 / 86400, 1, ("a",), types, (Group("e", 1, pools, Demand(2, 2), **facts),))


def _in_words(result: str) -> str:
    return {"capacity": "refused", "ok": "launched"}.get(result, result)


def _serving(simulation: Checked) -> Mapping[str, int]:
    machines = simulation.subjects["e"].machines.values()
    ready = [machine.key[0] for machine in machines if machine.row.stage.value == InstanceStage.READY]
    return {kind: ready.count(kind) for kind in (FIRST, SECOND)}
