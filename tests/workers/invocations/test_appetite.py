"""Which endpoints a dispatcher claims from next: nothing that waits is forgotten, and a full endpoint costs no claims."""

from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from workers.invocations.appetite import BUSY, ENOUGH, GATHER_SECONDS, Appetite

HERE, THERE = UUID(int=1), UUID(int=2)


def hungry(held: int = 4) -> Appetite:
    """One that has claimed all that there were slots for."""
    appetite = Appetite()
    appetite.told(HERE, held=0, now=0.0)
    appetite.take()
    appetite.claimed(HERE, got=held, room=64, slots=held, held=held, now=0.0)
    return appetite


def test_what_is_queued_while_little_runs_is_claimed_at_once() -> None:
    appetite = Appetite()
    assert appetite.wait_seconds(running=0, now=5.0) is None
    appetite.told(HERE, held=0, now=5.0)
    assert appetite.wait_seconds(running=0, now=5.0) == 0.0
    assert appetite.take() == [HERE]
    assert appetite.wait_seconds(running=0, now=5.0) is None


def test_endpoints_are_claimed_from_in_the_order_in_which_they_were_named() -> None:
    appetite = Appetite()
    for each in (THERE, HERE, THERE):
        appetite.told(each, held=0, now=0.0)
    assert appetite.take() == [THERE, HERE]


def test_while_much_runs_slots_are_filled_together() -> None:
    appetite = hungry(BUSY)
    appetite.freed(HERE, now=10.0)
    assert appetite.wait_seconds(running=BUSY, now=10.0) == pytest.approx(GATHER_SECONDS)
    assert appetite.wait_seconds(running=BUSY, now=10.0 + GATHER_SECONDS) == 0.0
    for _ in range(ENOUGH - 1):
        appetite.freed(HERE, now=10.0)
    assert appetite.wait_seconds(running=BUSY, now=10.0) == 0.0


def test_what_is_queued_at_a_full_endpoint_is_no_reason_to_claim() -> None:
    appetite = hungry()
    for _ in range(100):
        appetite.told(HERE, held=4, now=1.0)
    assert appetite.wait_seconds(running=4, now=1.0) is None
    appetite.freed(HERE, now=2.0)
    assert appetite.take() == [HERE]


def test_a_slot_of_an_endpoint_whose_queue_is_empty_is_no_reason_to_claim() -> None:
    appetite = Appetite()
    appetite.claimed(HERE, got=1, room=64, slots=4, held=1, now=0.0)
    appetite.freed(HERE, now=1.0)
    appetite.ended(HERE, held=0, now=1.0)
    assert appetite.wait_seconds(running=0, now=1.0) is None


def test_what_there_was_no_room_for_is_named_when_something_ends() -> None:
    appetite = Appetite()
    appetite.starve(HERE)
    assert appetite.wait_seconds(running=500, now=0.0) is None
    appetite.ended(HERE, held=499, now=1.0)
    assert appetite.take() == [HERE]


def test_what_is_queued_while_the_rest_is_claimed_is_not_lost() -> None:
    """The claim that empties the queue saw what was there when it began."""
    appetite = hungry()
    appetite.freed(HERE, now=1.0)
    appetite.freed(HERE, now=1.0)
    appetite.take()
    appetite.told(HERE, held=2, now=2.0)
    appetite.claimed(HERE, got=1, room=64, slots=2, held=3, now=3.0)
    assert appetite.take() == [HERE]


def test_slots_that_one_claim_left_free_are_filled_by_the_next_without_waiting() -> None:
    appetite = Appetite()
    appetite.claimed(HERE, got=64, room=64, slots=65, held=64, now=1.0)
    assert appetite.wait_seconds(running=64, now=1.0) == 0.0


class OneEndpoint(RuleBasedStateMachine):
    """A queue, its slots, and a dispatcher that hears of things late; a claim sees what was queued when it began."""

    SLOTS, ROOM = 3, 2

    def __init__(self) -> None:
        super().__init__()
        self.appetite = Appetite()
        self.queued = self.notices = self.using = self.storing = 0
        self.claim: int | None = None

    @property
    def held(self) -> int:
        return self.using + self.storing

    @rule()
    def accept(self) -> None:
        self.queued += 1
        self.notices += 1

    @precondition(lambda self: self.notices)
    @rule()
    def hear(self) -> None:
        self.notices -= 1
        self.appetite.told(HERE, held=self.held, now=0.0)

    @precondition(lambda self: self.claim is None and self.appetite.wait_seconds(running=self.held, now=1e9) is not None)
    @rule()
    def begin_claim(self) -> None:
        assert self.appetite.take() == [HERE]
        self.slots = self.SLOTS - self.using
        self.claim = min(self.queued, self.slots, self.ROOM)
        self.queued -= self.claim

    @precondition(lambda self: self.claim is not None)
    @rule()
    def finish_claim(self) -> None:
        got, self.claim = self.claim or 0, None
        self.using += got
        slots = self.slots if got else 0
        self.appetite.claimed(HERE, got=got, room=self.ROOM, slots=slots, held=self.held, now=0.0)

    @precondition(lambda self: self.using)
    @rule()
    def answer(self) -> None:
        self.using -= 1
        self.storing += 1
        self.appetite.freed(HERE, now=0.0)

    @precondition(lambda self: self.storing)
    @rule()
    def end(self) -> None:
        self.storing -= 1
        self.appetite.ended(HERE, held=self.held, now=0.0)

    def teardown(self) -> None:
        """Whatever happened, with nothing new the queue runs empty, and no scan is needed for it."""
        steps = (self.hear, self.begin_claim, self.finish_claim, self.answer, self.end)
        while possible := [each for each in steps if self._may(each.__name__)]:
            possible[0]()
        assert self.queued == 0

    def _may(self, name: str) -> bool:
        claims = self.claim is None and self.appetite.wait_seconds(running=self.held, now=1e9) is not None
        return {
            "hear": self.notices > 0,
            "begin_claim": claims,
            "finish_claim": self.claim is not None,
            "answer": self.using > 0,
            "end": self.storing > 0,
        }[name]


OneEndpoint.TestCase.settings = settings(max_examples=300, stateful_step_count=40, deadline=None)
TestOneEndpoint = OneEndpoint.TestCase
