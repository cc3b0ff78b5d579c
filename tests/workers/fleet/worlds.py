"""Worlds for the planner, by hand and by chance, and what becomes of a world when a plan is carried out.

`apply` is a model of `act` without a database: it knows which offerings have room and says what a plan leads to.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from controlplane.core.offerings import Mark, Offering, Pool, Search, is_out_after
from tests.fakes.clock import START
from workers.fleet import actions as do
from workers.fleet.capacity import backoff_seconds, mark_seconds
from workers.fleet.view import Attempt, Endpoint, Instance, Phase, Sighting, Stage, Variant

NOW = START
ZONE = "a"
HOLD_DOWN_SECONDS = 1800.0
LIVE = (Stage.PENDING, Stage.STARTING, Stage.READY)
SERVING_PHASES = (
    *(Phase.CREATING, Phase.IN_SERVICE, Phase.UPDATING, Phase.ROLLING_BACK),
    Phase.UPDATE_ROLLBACK_FAILED,
)


def ago(seconds: float) -> datetime:
    """So many seconds before NOW."""
    return NOW - timedelta(seconds=seconds)


def pool(place: int = 0, priority: int | None = None) -> Pool:
    """The pool at this place of the list; its priority follows the place unless given."""
    return Pool(place, place + 1 if priority is None else priority, place, f"ml.t{place}.large")


def mark(*, until: datetime, marked: float = 60.0, probe_expires_at: datetime | None = None) -> Mark:
    """A mark made `marked` seconds ago."""
    return Mark("capacity", "no room", ago(marked), until, "another", probe_expires_at)


def closed(place: int, marked: float = 60.0) -> Offering:
    """An offering whose mark still holds."""
    return Offering(pool(place), ZONE, mark(until=NOW + timedelta(seconds=60), marked=marked))


def half_open(place: int, *, is_probed: bool = False) -> Offering:
    """An offering whose mark has run out, with or without somebody probing it."""
    probe = NOW + timedelta(seconds=10) if is_probed else None
    return Offering(pool(place), ZONE, mark(until=ago(1), probe_expires_at=probe))


def opened(place: int) -> Offering:
    """An offering without a mark."""
    return Offering(pool(place), ZONE)


def instance(name: str = "i", stage: Stage = Stage.READY, place: int = 0, age: float = 60.0, **facts: Any) -> Instance:
    """An instance that has been in its stage since its launch, `age` seconds ago."""
    sighting = facts.pop("sighting", Sighting.RUNNING if stage in LIVE else Sighting.STOPPING)
    facts.setdefault("was_ready", stage is Stage.READY)
    where = facts.pop("pool", pool(place))
    return Instance(name, where, stage, ago(age), ago(age), sighting, **facts)


def variant(desired: int = 1, *offerings: Offering, **facts: Any) -> Variant:
    """A variant that wants `desired` instances of these offerings (one open one unless given)."""
    return Variant(1, "v", desired, offerings or (opened(0),), **facts)


def endpoint(*variants: Variant, phase: Phase = Phase.IN_SERVICE) -> Endpoint:
    """An endpoint of these variants."""
    return Endpoint("e", "e", phase, variants)


# By chance.

_seconds = st.sampled_from([0.0, 1.0, 29.0, 31.0, 500.0, 2000.0, 2200.0, 3700.0, 90_000.0])
_maybe_soon = st.none() | st.sampled_from([-30.0, -1.0, 0.0, 1.0, 30.0]).map(lambda s: NOW + timedelta(seconds=s))
_marks = st.none() | st.builds(
    Mark,
    kind=st.sampled_from(["capacity", "quota"]),
    message=st.just("no room"),
    marked_at=_seconds.map(ago),
    until=_maybe_soon.filter(lambda at: at is not None),
    seen_by=st.just("another"),
    probe_expires_at=_maybe_soon,
)


@st.composite
def _instances(draw: st.DrawFn, pools: list[Pool]) -> tuple[Instance, ...]:
    rows = []
    for number in range(draw(st.integers(0, 4))):
        stage = draw(st.sampled_from(list(Stage)))
        launched = draw(_seconds)
        rows.append(
            Instance(
                id=f"i-{number}",
                pool=draw(st.sampled_from(pools)),
                stage=stage,
                stage_since=ago(min(draw(_seconds), launched)),
                launched_at=ago(launched),
                sighting=draw(st.sampled_from(list(Sighting))),
                failure=draw(st.sampled_from(["", "model_data", "container_exited"])),
                is_healthy=draw(st.sampled_from([None, True, False])),
                failed_pings=draw(st.integers(0, 2)) if stage is Stage.READY else 0,
                in_flight=draw(st.none() | st.integers(0, 3)),
                was_ready=stage is Stage.READY or (stage in (Stage.DRAINING, Stage.TERMINATING) and draw(st.booleans())),
                terminate_asked_at=ago(draw(_seconds)) if stage is Stage.TERMINATING else None,
            )
        )
    return tuple(rows)


@st.composite
def variants(draw: st.DrawFn, number: int = 1) -> Variant:
    """A variant with one to three pools, some marked, and instances and attempts in any state."""
    pools = [pool(place, draw(st.integers(1, 3))) for place in range(draw(st.integers(1, 3)))]
    attempts = draw(st.integers(0, 2))
    return Variant(
        id=number,
        name=f"v{number}",
        desired_count=draw(st.integers(0, 5)),
        offerings=tuple(Offering(each, ZONE, draw(_marks)) for each in draw(st.permutations(pools))),
        instances=tuple(replace(each, id=f"{number}-{each.id}") for each in draw(_instances(pools))),
        attempts=tuple(
            Attempt(f"{number}-{place}", draw(st.sampled_from(pools)), ZONE, ago(30)) for place in range(attempts)
        ),
        provision_deadline=draw(_maybe_soon),
        launch_not_before=draw(_maybe_soon),
        refusals=draw(st.integers(0, 3)),
        start_failures=draw(st.integers(0, 3)),
        start_failure_reason="The container did not answer.",
    )


@st.composite
def endpoints(draw: st.DrawFn, phases: tuple[Phase, ...] = tuple(Phase)) -> Endpoint:
    """An endpoint with one or two variants in any state."""
    rows = tuple(draw(variants(number)) for number in range(1, draw(st.integers(1, 2)) + 1))
    return Endpoint("e", "e", draw(st.sampled_from(phases)), rows)


@st.composite
def restless_variants(draw: st.DrawFn) -> Variant:
    """A variant as `variants` makes it, with moves under way, announced ends, prices and patience."""
    row = draw(variants())
    ids = [each.id for each in row.instances]
    instances = tuple(
        replace(
            each,
            replaces=draw(st.sampled_from(["", "", *(other for other in ids if other != each.id), "gone"])),
            ends_at=draw(_maybe_soon),
            notice_ends_at=draw(_maybe_soon),
            hourly_price=draw(st.sampled_from([0.0, 1.0, 3.0])),
        )
        for each in row.instances
    )
    offerings = tuple(
        replace(
            each,
            pool=replace(each.pool, patience_seconds=draw(st.sampled_from([0.0, 0.0, 600.0]))),
            hourly_price=draw(st.sampled_from([None, 1.0, 3.0])),
        )
        for each in row.offerings
    )
    return replace(
        row,
        instances=instances,
        offerings=offerings,
        short_since=draw(st.none() | _seconds.map(ago)),
        home_after_seconds=draw(st.none() | st.just(60.0)),
        move_not_before=draw(_maybe_soon),
    )


# What becomes of it.


@dataclass
class Model:
    """An endpoint in a world with `room` by instance type (absent = none) and attempts that `happened`."""

    endpoint: Endpoint
    room: Mapping[str, int] = field(default_factory=dict)
    happened: frozenset[str] = frozenset()
    launched: int = 0

    def apply(self, plan: do.Plan, now: datetime) -> None:
        """Carry a plan out; nothing that was observed before holds afterwards."""
        for action in plan.actions:
            self._do(action, now)
        self._each_instance(lambda row: replace(row, sighting=Sighting.UNKNOWN, is_healthy=None))

    def _do(self, action: do.Action, now: datetime) -> None:
        match action:
            case do.Launch():
                self._launch(action, now)
            case do.ResolveAttempt(variant=asked, attempt=attempt):
                self._resolve(asked.id, attempt, now)
            case do.EnterService():
                self._enter(Phase.IN_SERVICE)
            case do.GiveUp():
                creating = self.endpoint.phase is Phase.CREATING
                self._enter(Phase.FAILED if creating else Phase.ROLLING_BACK)
            case do.RemoveEndpoint():
                self.endpoint = replace(self.endpoint, variants=())
            case _:
                self._do_to_variant(action, now)

    def _do_to_variant(self, action: do.Action, now: datetime) -> None:
        match action:
            case do.NoteShort(variant=asked):
                self._change(asked.id, short_since=now)
            case do.EndMove(variant=asked):
                rows = tuple(replace(each, replaces="") for each in self.variant(asked.id).instances)
                self._change(asked.id, instances=rows, move_not_before=now + timedelta(seconds=HOLD_DOWN_SECONDS))
            case do.RemoveVariant(variant=asked):
                left = tuple(each for each in self.endpoint.variants if each.id != asked.id)
                self.endpoint = replace(self.endpoint, variants=left)
            case _:
                self._do_to_instance(action, now)

    def _do_to_instance(self, action: do.Action, now: datetime) -> None:
        match action:
            case do.MarkStarting(instance=row):
                self._move(row, Stage.STARTING, now)
            case do.MarkReady(variant=asked, instance=row):
                self._move(row, Stage.READY, now, was_ready=True, failed_pings=0)
                self._change(asked.id, start_failures=0)
            case do.NotePing(instance=row, failed_pings=failed):
                self._each_instance(lambda each: replace(each, failed_pings=failed) if each.id == row.id else each)
            case do.NoteEnd(instance=row, ends_at=ends_at):
                self._each_instance(lambda each: replace(each, ends_at=ends_at) if each.id == row.id else each)
            case do.Drain(instance=row):
                self._move(row, Stage.DRAINING, now)
            case do.Terminate(variant=asked, instance=row, start_failure=failure):
                self._move(row, Stage.TERMINATING, now, terminate_asked_at=now)
                self._count_failure(asked.id, failure, now)
            case do.ForgetInstance(variant=asked, instance=row, start_failure=failure):
                self._remove(asked.id, row)
                self._count_failure(asked.id, failure, now)

    def _launch(self, action: do.Launch, now: datetime) -> None:
        room = dict(self.room)
        kind = action.offering.pool.instance_type
        for _ in range(action.count):
            if not room.get(kind):
                self._refuse(action, now)
                break
            room[kind] -= 1
            self._add(action.variant.id, action.offering, now, action.replaces)
        self.room = room

    def _add(self, variant_id: int, offering: Offering, now: datetime, replaces: str = "") -> None:
        self.launched += 1
        where, price = offering.pool, offering.hourly_price or 0.0
        born = Instance(f"new-{self.launched}", where, Stage.PENDING, now, now, replaces=replaces, hourly_price=price)
        there = self.variant(variant_id).instances
        self._change(variant_id, instances=(*there, born), refusals=0, launch_not_before=None)
        self._mark(where.instance_type, None)

    def _refuse(self, action: do.Launch, now: datetime) -> None:
        kind = action.offering.pool.instance_type
        until = now + timedelta(seconds=mark_seconds("capacity", 1, 60.0))
        if action.replaces:
            self._change(action.variant.id, move_not_before=now + timedelta(seconds=HOLD_DOWN_SECONDS))
        is_out = not action.replaces and is_out_after(Search(action.variant.offerings), action.offering, now)
        self._mark(kind, Mark("capacity", "no room", now, until, "e"))
        if is_out:
            streak = self.variant(action.variant.id).refusals + 1
            again = now + timedelta(seconds=backoff_seconds(streak, 0.0))
            self._change(action.variant.id, refusals=streak, launch_not_before=again)

    def _mark(self, kind: str, mark: Mark | None) -> None:
        for each in self.endpoint.variants:
            offerings = tuple(replace(o, mark=mark) if o.pool.instance_type == kind else o for o in each.offerings)
            self._change(each.id, offerings=offerings)

    def _resolve(self, variant_id: int, attempt: Attempt, now: datetime) -> None:
        left = tuple(each for each in self.variant(variant_id).attempts if each.token != attempt.token)
        self._change(variant_id, attempts=left)
        if attempt.token in self.happened:
            self._add(variant_id, Offering(attempt.pool, attempt.zone), now, attempt.replaces)

    def _count_failure(self, variant_id: int, failure: do.StartFailure | None, now: datetime) -> None:
        if failure is not None:
            count = 3 if failure.is_final else self.variant(variant_id).start_failures + 1
            again = now + timedelta(seconds=backoff_seconds(count, 0.0, first=2.0))
            self._change(variant_id, start_failures=count, start_failure_reason=failure.reason, launch_not_before=again)

    def _enter(self, phase: Phase) -> None:
        rows = [replace(each, provision_deadline=None) for each in self.endpoint.variants]
        if phase is Phase.ROLLING_BACK:
            rows = [replace(each, desired_count=sum(i.stage is Stage.READY for i in each.instances)) for each in rows]
        self.endpoint = replace(self.endpoint, phase=phase, variants=tuple(rows))

    def _move(self, row: Instance, stage: Stage, now: datetime, **facts: Any) -> None:
        since = row.stage_since if row.stage is stage else now
        self._each_instance(
            lambda each: replace(each, stage=stage, stage_since=since, **facts) if each.id == row.id else each
        )

    def _remove(self, variant_id: int, row: Instance) -> None:
        self._change(variant_id, instances=tuple(i for i in self.variant(variant_id).instances if i.id != row.id))

    def _each_instance(self, change: Any) -> None:
        for each in self.endpoint.variants:
            self._change(each.id, instances=tuple(change(row) for row in each.instances))

    def variant(self, variant_id: int) -> Variant:
        """The variant as it is now."""
        return next(each for each in self.endpoint.variants if each.id == variant_id)

    def _change(self, variant_id: int, **facts: Any) -> None:
        rows = tuple(replace(each, **facts) if each.id == variant_id else each for each in self.endpoint.variants)
        self.endpoint = replace(self.endpoint, variants=rows)

    def observe(self) -> None:
        """The provider and the containers answer: what is up serves, what was told to end is gone."""
        self._each_instance(_healthy)


def _healthy(row: Instance) -> Instance:
    if row.stage is Stage.TERMINATING:
        return replace(row, sighting=Sighting.GONE)
    return replace(row, sighting=Sighting.RUNNING, is_healthy=True, in_flight=0)
