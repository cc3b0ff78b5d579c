"""Running a scenario again and again, each time with the process dying one boundary later, until one run survives."""

import random
from collections.abc import Callable, Iterator

from controlplane.endpoints.models import Endpoint
from controlplane.fleet.models import Instance, LaunchAttempt
from controlplane.fleet.states import OPEN_ATTEMPTS, InstanceStage
from controlplane.routing.models import RoutingSnapshot
from tests.crash.points import Crash, CrashPoints
from tests.crash.rig import Rig
from tests.crash.scenarios import NAME, Scenario

LINGER_SECONDS = 31.0
"""Longer than a claim: what a dead process left to expire has expired by then."""

LIMIT = 1200
"""No operation has so many boundaries: more of them means that something goes round in circles."""

CONTEXT = 6
"""Boundaries whose last so many are the same are the same situation."""

Knobs = Callable[[Rig], None]


def crash_everywhere(make: Callable[[], Rig], scenario: Scenario, knobs: Knobs, sample: int, seed: int = 0) -> str:
    """Die in so many situations drawn by `seed`, or at every single boundary when `sample` is 0; says at how many."""
    peaceful = CrashPoints()
    assert not crash_at(make(), scenario, knobs, peaceful)
    count = len(peaceful.passed)
    assert count <= LIMIT, f"{scenario.name} passes {count} boundaries"
    chosen = _draw(peaceful.passed, sample, random.Random(f"{scenario.name}/{seed}")) if sample else range(1, count + 1)
    tried = sum(crash_at(make(), scenario, knobs, CrashPoints(at)) for at in chosen)
    return f"{tried} crash points of {count}"


def _draw(passed: list[str], sample: int, dice: random.Random) -> list[int]:
    """Boundaries in situations that differ: one that waits passes the same few again and again."""
    situations: dict[tuple[str, ...], list[int]] = {}
    for at in range(1, len(passed) + 1):
        situations.setdefault(tuple(passed[max(at - CONTEXT, 0) : at]), []).append(at)
    drawn = dice.sample(sorted(situations), min(sample, len(situations)))
    return [dice.choice(situations[each]) for each in drawn]


def crash_at(rig: Rig, scenario: Scenario, knobs: Knobs, points: CrashPoints) -> bool:
    """Die at one boundary, start anew, and check how things stand; False when the scenario was over before."""
    with rig.process():
        scenario.prepare(rig)
    rig.ledger.most = 0
    knobs(rig)
    has_crashed = False
    try:
        with rig.process(points):
            scenario.wish(rig)
            rig.run(rig.is_quiet, scenario.seconds)
    except Crash:
        has_crashed = True
    with rig.process():
        if not scenario.is_wished(rig):
            scenario.wish(rig)
        rig.run(rig.is_quiet, scenario.seconds)
        rig.idle(LINGER_SECONDS)
    problems = list(problems_of(rig, scenario))
    where = points.passed[points.at - 1] if points.at and has_crashed else "nowhere"
    assert not problems, f"{scenario.name}, dead at {points.at} ({where}): {'; '.join(problems)}\n{rig.explain()}"
    return has_crashed


def problems_of(rig: Rig, scenario: Scenario) -> Iterator[str]:
    """Everything that is not as it must be, in words."""
    if disagreement := rig.ledger.disagreement():
        yield disagreement
    if doubled := rig.ledger.doubled():
        yield f"launched twice by one token: {doubled}"
    if rig.ledger.most > scenario.most:
        yield f"{rig.ledger.most} instances at once, {scenario.most} wanted at most"
    if rig.swept:
        yield f"it took the orphan sweep to end {rig.swept}"
    if LaunchAttempt.objects.filter(stage__in=OPEN_ATTEMPTS).exists():
        yield "an attempt is still open"
    yield from _facts(scenario)
    story = rig.story(NAME)
    for reason in scenario.told_once:
        if story.count(reason) != 1:
            yield f"{reason} was told {story.count(reason)} times: {story}"


def _facts(scenario: Scenario) -> Iterator[str]:
    phase = Endpoint.objects.filter(name=NAME).values_list("phase", flat=True).first()
    if phase != scenario.phase:
        yield f"the endpoint is {phase}, not {scenario.phase}"
    serving: dict[str, int] = {}
    for instance_type in Instance.objects.filter(stage=InstanceStage.READY).values_list("instance_type", flat=True):
        serving[instance_type] = serving.get(instance_type, 0) + 1
    if serving != scenario.serving:
        yield f"{serving} serve, not {scenario.serving}"
    if _routed() != sum(serving.values()):
        yield f"{_routed()} instances are routed to, {sum(serving.values())} serve"


def _routed() -> int:
    """How many instances the gateways' table has for the endpoint."""
    document = RoutingSnapshot.objects.filter(endpoint_name=NAME).values_list("document", flat=True).first()
    return sum(len(variant["targets"]) for variant in document["variants"]) if document else 0
