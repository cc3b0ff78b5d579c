"""Launch calls: made, answered a moment later, and what the answer changes. `workers.fleet.launch`, restated.

While a call is under way its endpoint is busy, as it is under a claim in the product; other endpoints are not, so a herd
of them runs into the same shortage before the first refusal is known.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from controlplane.core.offerings import Offering, Search, is_closed, is_out_after
from workers.fleet import actions as do
from workers.fleet.view import Attempt
from workers.simulator.act import Actor
from workers.simulator.first_ask import FirstAsk
from workers.simulator.fleet import Call, Subject
from workers.simulator.ledger import Ledger
from workers.simulator.lives import Lives
from workers.simulator.memory import CAPACITY, Memory
from workers.simulator.moves import Moves
from workers.simulator.timeline import Timeline
from workers.simulator.weather import Key
from workers.simulator.world import Answer, Fate, World


@dataclass(frozen=True)
class Stage:
    """What launching works with."""

    timeline: Timeline
    world: World
    memory: Memory
    ledger: Ledger
    lives: Lives
    actor: Actor
    moves: Moves
    call_seconds: float


class Launching:
    """Makes launch calls and finds out what became of lost ones."""

    def __init__(self, stage: Stage, go_on: Callable[[Subject], None]) -> None:
        """`go_on(subject)` is called after every answer."""
        self._timeline = stage.timeline
        self._world = stage.world
        self._memory = stage.memory
        self._ledger = stage.ledger
        self._lives = stage.lives
        self._actor = stage.actor
        self._moves = stage.moves
        self._call_seconds = stage.call_seconds
        self._first_ask = FirstAsk()
        self._go_on = go_on

    def launch(self, subject: Subject, action: do.Launch) -> None:
        """Start the action's instances one by one until one is refused."""
        self._next(subject, action, number=0)

    def resolve(self, subject: Subject, action: do.ResolveAttempt) -> None:
        """Finish the story of a lost launch: by repeating it, once the variant does not rest, or by looking for it."""
        attempt, now = action.attempt, self._timeline.now
        if not action.is_wanted:
            self._find(subject, attempt)
        elif subject.launch_not_before is None or subject.launch_not_before <= now:
            key = subject.lost[attempt.token]
            offering = Offering(attempt.pool, attempt.zone, market=key[2], hourly_price=attempt.hourly_price)
            again = do.Launch(action.variant, offering, 1, False, action.why, attempt.replaces)
            self._make(subject, Call(again, 0, attempt.token, key, now, subject.generation, is_repeat=True))

    def _find(self, subject: Subject, attempt: Attempt) -> None:
        fate = self._world.find(attempt.token)
        self._close(subject, attempt.token)
        if fate is not None:
            self._record(subject, attempt, fate)
        _changed(subject)

    def _next(self, subject: Subject, action: do.Launch, number: int) -> None:
        _changed(subject)
        offering, now = action.offering, self._timeline.now
        key = (offering.pool.instance_type, offering.zone, offering.market)
        subject.calls += 1
        token = f"{subject.name}/{subject.calls}"
        if action.replaces and not self._moves.may_start(subject, now):
            return
        if action.is_probe and not self._memory.take_probe(key, token, now):
            return
        later = self._first_ask_wait(action, key, subject, now)
        if later is not None:
            subject.launch_not_before = later
            return
        call = Call(action, number, token, key, now, subject.generation)
        self._first_ask.called(call, subject)
        self._make(subject, call)

    def _first_ask_wait(self, action: do.Launch, key: Key, subject: Subject, now: datetime) -> datetime | None:
        """Until when another endpoint's launch is finding out about an offering of which nothing is known."""
        if action.offering.mark is not None:
            return None
        mark = self._memory.mark_of(key)
        if mark is not None and is_closed(Offering(action.offering.pool, key[1], mark), now):
            return now  # the answer came since this was planned
        return self._first_ask.wait_until(key, subject, now)

    def _make(self, subject: Subject, call: Call) -> None:
        subject.is_busy = True
        now = self._timeline.now
        is_marked = self._memory.holds(call.key, now)
        answer, fate = self._world.launch(call.token, call.key, subject.group, subject.dice, now)
        self._ledger.called(subject, call.key, answer, is_marked=is_marked, now=now)
        self._timeline.after(self._call_seconds, self._answered, subject, call, answer, fate)

    def _answered(self, subject: Subject, call: Call, answer: Answer, fate: Fate | None) -> None:
        subject.is_busy = False
        self._first_ask.answered(call, self._timeline.now, is_launched=fate is not None)
        if answer is Answer.LOST:
            self._lose(subject, call)
        elif call.is_repeat and answer is Answer.THROTTLED:
            # It may have been throttled before its token was looked at: what the first call did is still to be found.
            self._find(subject, _attempt(call))
        else:
            _changed(subject)
            self._close(subject, call.token)
            self._told(subject, call, answer, fate)
        if not subject.is_busy:
            self._go_on(subject)

    def _lose(self, subject: Subject, call: Call) -> None:
        """No answer. The first time that is a fact; after that it changes nothing but the time of the next question."""
        if call.is_repeat:
            self._actor.pause(subject, self._timeline.now)
            return
        subject.attempts.append(_attempt(call))
        subject.lost[call.token] = call.key
        _changed(subject)

    def _told(self, subject: Subject, call: Call, answer: Answer, fate: Fate | None) -> None:
        if fate is None:
            self._turned_away(subject, call, answer)
            return
        self._record(subject, _attempt(call), fate)
        if call.number + 1 < call.action.count and call.generation == subject.generation:
            self._next(subject, call.action, call.number + 1)

    def _record(self, subject: Subject, attempt: Attempt, fate: Fate) -> None:
        """An instance was launched: its row, and an open offering."""
        now = self._timeline.now
        machine = subject.add(fate, attempt.pool, attempt.hourly_price, attempt.replaces, now)
        self._memory.forget_refusal(fate.key)
        subject.refusals, subject.launch_not_before = 0, None
        self._lives.begin(subject, machine)

    def _turned_away(self, subject: Subject, call: Call, answer: Answer) -> None:
        now = self._timeline.now
        if answer is Answer.THROTTLED:
            self._memory.release_probe(call.key, call.token)
            self._actor.pause(subject, now)
        else:
            self._memory.remember_refusal(call.key, CAPACITY, subject.name, now)
            if call.action.replaces:
                self._actor.hold_moves(subject, now)
            elif not call.is_repeat and self._is_out_of_pools(subject, call.action, now):
                self._actor.pause(subject, now)

    def _is_out_of_pools(self, subject: Subject, action: do.Launch, now: datetime) -> bool:
        """Nothing is left to ask: marked, too dear, or just refused."""
        variant = action.variant
        search = Search(variant.offerings, variant.short_since, headroom=subject.headroom())
        return is_out_after(search, action.offering, now)

    @staticmethod
    def _close(subject: Subject, token: str) -> None:
        if subject.lost.pop(token, None) is not None:
            subject.attempts = [each for each in subject.attempts if each.token != token]


def _changed(subject: Subject) -> None:
    """What is being carried out has changed a fact: planning again pays."""
    if subject.work is not None:
        subject.work.is_changed = True


def _attempt(call: Call) -> Attempt:
    offering = call.action.offering
    return Attempt(
        call.token, offering.pool, offering.zone, call.called_at, call.action.replaces, offering.hourly_price or 0.0
    )
