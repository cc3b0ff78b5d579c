"""What a sweep decides, without a database: what is adopted, ended, left, and when everything is held back."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.clock import START as NOW
from workers.sweep.plan import MANY, Mode, Plan, Suspect, Verdict, plan

_suspects = st.lists(
    st.builds(
        Suspect,
        provider_id=st.text(min_size=1, max_size=3),
        launched_at=st.integers(-9999, -1).map(lambda seconds: NOW + timedelta(seconds=seconds)),
        has_origin=st.booleans(),
        is_lacking=st.booleans(),
        is_up=st.booleans(),
        is_remembered=st.booleans(),
        is_asked=st.booleans(),
    ),
    max_size=2 * MANY,
)


def suspect(name: str = "i", age: float = 100.0, **facts: bool) -> Suspect:
    """An instance that looks orphaned."""
    return Suspect(name, NOW - timedelta(seconds=age), **facts)


def decided(*suspects: Suspect, listed: int = 100, mode: Mode = Mode.KILL, held: str = "", confirmed: float = 0.0) -> Plan:
    """The plan for these; `confirmed` is how many seconds ago an operator confirmed, 0 = never."""
    confirmed_at = NOW - timedelta(seconds=confirmed) if confirmed else None
    return plan(suspects, listed, mode, held=held, confirmed_at=confirmed_at)


def verdicts(made: Plan) -> list[Verdict]:
    """What becomes of each."""
    return [decision.verdict for decision in made.decisions]


def test_an_instance_that_nobody_has_is_ended() -> None:
    assert verdicts(decided(suspect(), suspect(has_origin=True))) == [Verdict.END, Verdict.END]


def test_an_instance_that_its_endpoint_lacks_is_adopted() -> None:
    wanted = {"has_origin": True, "is_lacking": True}
    assert verdicts(decided(suspect(**wanted))) == [Verdict.ADOPT]
    assert verdicts(decided(suspect(**wanted, is_up=False))) == [Verdict.END], "what has exited is of no use"
    assert verdicts(decided(suspect(**wanted, is_asked=True))) == [Verdict.END], "an end is never taken back"


def test_report_mode_touches_nothing_not_even_what_was_asked_to_end() -> None:
    made = decided(suspect(), suspect(is_asked=True), suspect(has_origin=True, is_lacking=True), mode=Mode.REPORT)
    assert verdicts(made) == [Verdict.LEAVE] * 3


def test_a_database_that_lost_the_time_of_a_launch_holds_everything_back() -> None:
    made = decided(suspect("a", is_remembered=False), suspect("b"))
    assert verdicts(made) == [Verdict.LEAVE, Verdict.LEAVE]
    assert "restored from an older backup" in made.hold


@pytest.mark.parametrize(("orphans", "listed", "is_held"), [(MANY, MANY, False), (11, 22, False), (11, 21, True)])
def test_many_orphans_at_once_are_held_back_when_they_are_most_of_what_there_is(
    orphans: int, listed: int, is_held: bool
) -> None:
    assert bool(decided(*[suspect(str(number)) for number in range(orphans)], listed=listed).hold) is is_held


def test_a_hold_lasts_until_somebody_confirms_or_nothing_is_in_doubt() -> None:
    assert verdicts(decided(suspect(), held="it looks restored")) == [Verdict.LEAVE]
    assert decided(held="it looks restored").hold == ""
    assert verdicts(decided(suspect(age=100, is_remembered=False), confirmed=50)) == [Verdict.END]


def test_a_confirmation_stands_for_what_was_there_then_and_not_for_what_comes_later() -> None:
    made = decided(suspect("old", age=100, is_remembered=False), suspect("new", age=10, is_remembered=False), confirmed=50)
    assert verdicts(made) == [Verdict.END, Verdict.LEAVE]


def test_what_was_asked_to_end_is_asked_again_while_others_are_held_back() -> None:
    made = decided(suspect("zombie", is_asked=True), suspect("doubtful", is_remembered=False))
    assert verdicts(made) == [Verdict.END, Verdict.LEAVE]


@given(_suspects, st.integers(0, 40), st.sampled_from(list(Mode)), st.sampled_from(["", "held"]), st.booleans())
def test_nothing_is_touched_that_is_in_doubt(
    suspects: list[Suspect], listed: int, mode: Mode, held: str, is_confirmed: bool
) -> None:
    made = plan(suspects, listed, mode, held=held, confirmed_at=NOW if is_confirmed else None)
    assert [decision.suspect for decision in made.decisions] == suspects
    assert all(decision.why for decision in made.decisions)
    for each, verdict in zip(suspects, verdicts(made), strict=True):
        if mode is Mode.REPORT or (not is_confirmed and not each.is_asked and (held or not each.is_remembered)):
            assert verdict is Verdict.LEAVE
        elif is_confirmed:
            assert verdict is not Verdict.LEAVE
