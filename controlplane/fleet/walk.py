"""Where the instances of an endpoint would land if it were created now. Pure: frozen facts in, a story out.

The walk is the planner's own: round by round each variant asks the offering that `offerings.next_offering` names, a
refusal marks it for all of them, and time moves only when everybody waits. What stands in for the provider is what it last
said of its free slots; where it does not say (no cloud does) an offering that is asked is taken to be granted, and the
landing is marked as not certain.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from controlplane.catalog.quotas import ALL
from controlplane.core.offerings import (
    ON_DEMAND,
    Choice,
    Mark,
    Offering,
    Rung,
    Search,
    Standing,
    Wait,
    is_closed,
    ladder,
    next_offering,
)
from controlplane.core.words import counted
from controlplane.fleet.placement import Circumstances, Landing, Preview, Supply, VariantPreview, Wanted

NOTHING_FREE = "no slot of it is free, so that whoever asks is refused"


def preview(wanted: Sequence[Wanted], around: Circumstances, now: datetime, refusal: str = "") -> Preview:
    """Where the instances of an endpoint with these variants would land if it were created at `now`."""
    walk = _Walk(around, now)
    searches = [_Search(variant, now) for variant in wanted]
    ladders = [_told_of_supply(ladder(walk.facts(search, around.ceiling), now), around.supply) for search in searches]
    while walk.round(searches):
        pass
    outcomes = (search.outcome(rungs) for search, rungs in zip(searches, ladders, strict=True))
    return Preview(tuple(outcomes), refusal, around.supply.seen_at)


def _told_of_supply(rungs: tuple[Rung, ...], supply: Supply) -> tuple[Rung, ...]:
    """The rungs; one that may be asked, and of which nothing is free, says so: nobody has been refused it yet."""
    return tuple(
        replace(rung, why="; ".join(filter(None, (rung.why, NOTHING_FREE))))
        if rung.standing in (Standing.OPEN, Standing.PROBE) and supply.of(rung.offering) == 0
        else rung
        for rung in rungs
    )


class _Search:
    """One variant's search as it goes."""

    def __init__(self, wanted: Wanted, now: datetime) -> None:
        self.wanted = wanted
        self.missing = wanted.count
        self.deadline = now + timedelta(seconds=wanted.budget_seconds)
        self.landings: list[Landing] = []
        self.story: list[str] = []
        self.is_over = wanted.count == 0
        self.wakes_at = now

    def land(self, landing: Landing) -> None:
        """Instances found their place; those of one offering at one time are told as one."""
        last = self.landings[-1] if self.landings else None
        if last is not None and replace(last, count=1, why="") == replace(landing, count=1, why=""):
            self.landings[-1] = replace(last, count=last.count + landing.count)
        else:
            self.landings.append(landing)
        self.missing -= landing.count
        self.is_over = self.missing == 0

    def give_up(self, sentence: str) -> None:
        """The search ends without having found everything."""
        self.story.append(sentence)
        self.is_over = True

    def outcome(self, rungs: tuple[Rung, ...]) -> VariantPreview:
        """What came of it; `rungs` is the ladder as it stood at first."""
        return VariantPreview(self.wanted.name, self.wanted.count, tuple(self.landings), rungs, tuple(self.story))


class _Walk:
    """The rounds of all searches over one memory, one supply, one set of quotas and one ceiling."""

    def __init__(self, around: Circumstances, now: datetime) -> None:
        self._around = around
        self._start = self._now = now
        self._marks: dict[tuple[str, str, str], Mark | None] = {}
        self._taken: dict[tuple[str, str], int] = {}
        self._used: dict[str, int] = {}
        self._spent = 0.0

    def round(self, searches: Sequence[_Search]) -> bool:
        """Let every search take a step; False once all are over."""
        open_searches = [search for search in searches if not search.is_over]
        headroom = self._headroom()
        has_asked = False
        for search in open_searches:
            cost = self._step(search, headroom)
            has_asked = has_asked or cost is not None
            headroom = None if headroom is None else headroom - (cost or 0.0)
        waiting = [search.wakes_at for search in open_searches if not search.is_over]
        if not has_asked and waiting:
            self._now = min(waiting)
        return bool(waiting)

    def _step(self, search: _Search, headroom: float | None) -> float | None:
        """Ask for what one search lacks; what that launch may cost an hour, None when nothing was asked."""
        if self._now >= search.deadline:
            search.give_up(self._out_of_time(search))
            return None
        facts = self.facts(search, headroom)
        choice = next_offering(facts, self._now)
        if isinstance(choice, Wait):
            self._wait(search, choice)
            return None
        count = self._count(search, choice, headroom)
        self._ask(search, choice, count)
        return (choice.offering.hourly_price or 0.0) * count

    def _out_of_time(self, search: _Search) -> str:
        budget = search.wanted.budget_seconds / 60
        return f"{counted(search.missing, 'instance')} would find no capacity within the budget of {budget:g} min."

    def facts(self, search: _Search, headroom: float | None) -> Search:
        """The search as the planner would see it, with marks and quotas as they are by now."""
        offerings = (
            replace(each, mark=self._marks.get(_key(each), each.mark), room=self._room(each))
            for each in search.wanted.offerings
        )
        return Search(tuple(offerings), short_since=self._start, headroom=headroom)

    def _headroom(self) -> float | None:
        return None if self._around.ceiling is None else self._around.ceiling - self._spent

    def _room(self, offering: Offering) -> int | None:
        """What the quotas leave, after what this walk has placed."""
        room = self._around.room
        left = [room[name] - self._used.get(name, 0) for name in (offering.pool.instance_type, ALL) if name in room]
        return min(left, default=None)

    def _wait(self, search: _Search, wait: Wait) -> None:
        """Time may open something; what a ceiling or a quota rules out it does not."""
        rungs = ladder(self.facts(search, self._headroom()), self._now)
        if all(rung.standing in (Standing.TOO_DEAR, Standing.NO_QUOTA) for rung in rungs):
            search.give_up(f"Nothing is left to ask for {counted(search.missing, 'missing instance')}: {wait.why}.")
            return
        search.wakes_at = wait.until
        minutes = (wait.until - self._start).total_seconds() / 60
        _tell_once(search, f"It waits until {wait.until:%H:%M:%S} ({minutes:.1f} min from now): {wait.why}.")

    def _count(self, search: _Search, choice: Choice, headroom: float | None) -> int:
        """How many one launch asks for: a probe is one, and the quotas and the ceiling must allow them all."""
        offering = choice.offering
        count = 1 if choice.is_probe else search.missing
        if offering.room is not None:
            count = min(count, offering.room)
        if headroom is not None and offering.hourly_price:
            count = min(count, int((headroom + 1e-9) / offering.hourly_price))
        return max(count, 1)

    def _ask(self, search: _Search, choice: Choice, count: int) -> None:
        """Take what there is of the offering; where that is less than asked for, it is refused and marked."""
        offering = choice.offering
        slots = self._around.supply.of(offering)
        place = (offering.zone, offering.pool.instance_type)
        free = None if slots is None else max(slots - self._taken.get(place, 0), 0)
        granted = count if free is None else min(count, free)
        if granted:
            self._grant(search, choice, granted, is_certain=free is not None)
        if granted < count:
            self._refuse(search, offering)

    def _grant(self, search: _Search, choice: Choice, count: int, *, is_certain: bool) -> None:
        offering, instance_type = choice.offering, choice.offering.pool.instance_type
        place = (offering.zone, instance_type)
        self._taken[place] = self._taken.get(place, 0) + count
        for name in (instance_type, ALL):
            self._used[name] = self._used.get(name, 0) + count
        self._spent += (offering.hourly_price or 0.0) * count
        self._marks[_key(offering)] = None
        after = (self._now - self._start).total_seconds()
        boots = self._around.boots.get(instance_type)
        landing = Landing(replace(offering, mark=None, room=None), count, after, is_certain, boots, choice.why)
        search.story.append(_landed(landing))
        search.land(landing)

    def _refuse(self, search: _Search, offering: Offering) -> None:
        """Nothing free: the offering is marked; if it was closed already, every other one is too, and the walk ends."""
        name = f"{offering.pool.instance_type} in {offering.zone}"
        if is_closed(offering, self._now):
            search.give_up(f"Nothing is free for {counted(search.missing, 'missing instance')}; {name} was the last hope.")
            return
        until = self._now + timedelta(seconds=self._around.mark_seconds)
        self._marks[_key(offering)] = Mark("capacity", "no free slot", self._now, until, "this preview")
        search.story.append(
            f"{name} has no free slot{' left' if search.landings else ''}: it would refuse, and be skipped."
        )


def _landed(landing: Landing) -> str:
    offering = landing.offering
    price = "at a price nobody knows" if landing.hourly_cost is None else f"at {landing.hourly_cost:.2f} USD/h"
    market = "" if offering.market == ON_DEMAND else f", {offering.market}"
    because = f" ({landing.why})" if landing.why else ""
    sure = "" if landing.is_certain else " if the provider has it: it does not say what is free"
    where = f"{offering.pool.instance_type} (priority {offering.pool.priority}{market}) in {offering.zone}"
    return f"{landing.count} x {where} {price}{sure}{because}."


def _tell_once(search: _Search, sentence: str) -> None:
    if sentence not in search.story:
        search.story.append(sentence)


def _key(offering: Offering) -> tuple[str, str, str]:
    """What a mark is kept by."""
    return (offering.pool.instance_type, offering.zone, offering.market)
