"""Where a preview says that instances would land, and why."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.catalog.quotas import ALL
from controlplane.core.offerings import Mark, Offering, Pool, Standing
from controlplane.fleet.placement import Boots, Circumstances, Preview, Supply, Wanted
from controlplane.fleet.walk import NOTHING_FREE, preview
from tests.fakes.clock import START as NOW

A, B, C = "ml.a.large", "ml.b.large", "ml.c.large"
PRICES = {A: 1.0, B: 2.5, C: None}


def offering(place: int, patience: float = 0.0, zone: str = "z", mark: Mark | None = None) -> Offering:
    """The pool of this place and priority, in one zone, at its price."""
    kind = (A, B, C)[place]
    return Offering(Pool(place, place + 1, place, kind, patience), zone, mark, hourly_price=PRICES[kind])


def mark(seconds: float) -> Mark:
    """A refusal of a minute ago that holds for so many seconds more."""
    return Mark("capacity", "no room", NOW - timedelta(seconds=60), NOW + timedelta(seconds=seconds), "other")


def wanted(count: int, *offerings: Offering, budget: float = 1800.0, name: str = "v") -> Wanted:
    """A variant to place."""
    return Wanted(name, count, offerings or (offering(0), offering(1)), budget)


def free(otherwise: int | None = None, **slots: int) -> Supply:
    """What the one zone has: a, b, c -> slots; nothing of the rest unless said otherwise."""
    kinds = {"a": A, "b": B, "c": C}
    return Supply({("z", kinds[name]): count for name, count in slots.items()}, 0 if otherwise is None else otherwise)


def landed(found: Preview) -> list[tuple[str, int]]:
    """Type and count of each landing, in order."""
    return [(each.offering.pool.instance_type, each.count) for each in found.landings]


def test_instances_land_on_the_most_wanted_type_that_has_room_and_the_rest_on_the_next() -> None:
    found = preview([wanted(3)], Circumstances(free(a=2, b=5)), NOW)
    assert landed(found) == [(A, 2), (B, 1)]
    assert found.hourly_cost == 4.5
    assert found.daily_cost == 108.0
    assert found.would_serve
    assert any("would refuse" in sentence for sentence in found.variants[0].story)


def test_a_type_that_is_marked_is_passed_over_and_the_landing_says_why() -> None:
    found = preview([wanted(1, offering(0, mark=mark(90)), offering(1))], Circumstances(free(a=9, b=9)), NOW)
    assert landed(found) == [(B, 1)]
    assert "skipped until" in found.landings[0].why
    assert [rung.standing for rung in found.variants[0].ladder] == [Standing.CLOSED, Standing.OPEN]


def test_a_rung_that_is_open_without_a_free_slot_says_so() -> None:
    found = preview([wanted(1, offering(0), offering(1))], Circumstances(free(b=1)), NOW)
    assert [(rung.standing, rung.why) for rung in found.variants[0].ladder] == [
        (Standing.OPEN, NOTHING_FREE),
        (Standing.OPEN, ""),
    ]
    unknown = preview([wanted(1, offering(0))], Circumstances(Supply()), NOW)
    assert unknown.variants[0].ladder[0].why == ""


def test_a_mark_that_ran_out_is_probed_and_what_the_probe_finds_holds_for_the_rest() -> None:
    around = Circumstances(free(a=3, b=9))
    found = preview([wanted(3, offering(0, mark=mark(-1)), offering(1))], around, NOW)
    assert landed(found) == [(A, 3)]


def test_memory_alone_never_keeps_a_type_that_has_room() -> None:
    closed = wanted(1, offering(0, mark=mark(90)), offering(1, mark=mark(80)))
    assert landed(preview([closed], Circumstances(free(a=1, b=1)), NOW)) == [(A, 1)]


def test_where_nothing_is_free_the_rest_is_missing() -> None:
    found = preview([wanted(3)], Circumstances(free(a=1)), NOW)
    assert landed(found) == [(A, 1)]
    assert found.variants[0].missing == 2
    assert not found.would_serve
    assert "Nothing is free" in found.variants[0].story[-1]


def test_patience_puts_the_dearer_type_off_and_the_wait_counts() -> None:
    boots = {B: Boots(30.0, 50.0, 7)}
    patient = wanted(1, offering(0), offering(1, patience=600.0))
    found = preview([patient], Circumstances(free(b=1), boots=boots), NOW)
    assert landed(found) == [(B, 1)]
    assert found.landings[0].after_seconds == 600.0
    assert (found.ready_p50_seconds, found.ready_p90_seconds) == (630.0, 650.0)


def test_patience_longer_than_the_budget_finds_nothing() -> None:
    patient = wanted(1, offering(0), offering(1, patience=600.0), budget=300.0)
    found = preview([patient], Circumstances(free(b=1)), NOW)
    assert found.variants[0].missing == 1
    assert "within the budget of 5 min" in found.variants[0].story[-1]


def test_the_ceiling_holds_over_all_variants_and_rules_out_unknown_prices() -> None:
    two = [wanted(2, name="v"), wanted(2, offering(2), offering(1), name="w")]
    found = preview(two, Circumstances(free(9), ceiling=4.0), NOW)
    assert landed(found) == [(A, 2)]
    assert found.hourly_cost == 2.0
    assert found.variants[1].missing == 2
    assert "ceiling" in found.variants[1].story[-1]


def test_quotas_close_a_type_once_it_is_used_up() -> None:
    found = preview([wanted(3)], Circumstances(free(9), room={A: 1, ALL: 2}), NOW)
    assert landed(found) == [(A, 1), (B, 1)]
    assert "quota" in found.variants[0].story[-1]
    none_of_a = preview([wanted(2)], Circumstances(free(9), room={A: 0}), NOW)
    assert landed(none_of_a) == [(B, 2)]
    assert none_of_a.variants[0].ladder[0].standing is Standing.NO_QUOTA


def test_a_provider_that_does_not_say_what_is_free_makes_no_landing_certain() -> None:
    found = preview([wanted(2)], Circumstances(Supply()), NOW)
    assert landed(found) == [(A, 2)]
    assert not found.landings[0].is_certain
    assert "does not say" in found.variants[0].story[0]


def test_variants_share_what_is_free() -> None:
    found = preview([wanted(2, name="v"), wanted(2, name="w")], Circumstances(free(a=3, b=9)), NOW)
    assert sum(count for kind, count in landed(found) if kind == A) == 3
    assert found.would_serve


def test_each_zone_is_asked_before_the_next_type() -> None:
    zoned = wanted(2, offering(0, zone="z"), offering(0, zone="y"), offering(1))
    supply = Supply({("z", A): 1, ("y", A): 1}, 0)
    assert [each.offering.zone for each in preview([zoned], Circumstances(supply), NOW).landings] == ["z", "y"]


def test_nothing_wanted_lands_nowhere_and_serves() -> None:
    found = preview([wanted(0)], Circumstances(free()), NOW)
    assert found.landings == ()
    assert found.would_serve
    assert found.hourly_cost == 0


def test_no_idea_of_the_time_when_one_type_never_came_up() -> None:
    found = preview([wanted(2)], Circumstances(free(a=1, b=1), boots={A: Boots(1.0, 2.0, 3)}), NOW)
    assert found.ready_p50_seconds is None


marks = st.none() | st.integers(-100, 900).map(mark)
patiences = st.sampled_from([0.0, 60.0, 1200.0])
offerings = st.tuples(st.integers(0, 2), patiences, st.sampled_from("zy"), marks).map(lambda parts: offering(*parts))
variants = st.builds(
    lambda name, count, found, budget: Wanted(name, count, tuple(found), budget),
    st.sampled_from("vw"),
    st.integers(0, 4),
    st.lists(offerings, min_size=1, max_size=4, unique_by=lambda each: (each.pool.id, each.zone)),
    st.sampled_from([300.0, 1800.0]),
)
slots = st.dictionaries(st.tuples(st.sampled_from("zy"), st.sampled_from([A, B, C])), st.integers(0, 3))
worlds = st.builds(
    Circumstances,
    st.builds(Supply, slots, st.none() | st.integers(0, 3)),
    st.dictionaries(st.sampled_from([A, B, C, ALL]), st.integers(0, 5)),
    st.none() | st.floats(0, 10),
    st.sampled_from([5.0, 300.0]),
)


@settings(deadline=None)
@given(st.lists(variants, min_size=1, max_size=3), worlds)
def test_a_preview_keeps_every_limit_and_ends(plan: list[Wanted], around: Circumstances) -> None:
    found = preview(plan, around, NOW)
    for variant, outcome in zip(plan, found.variants, strict=True):
        assert 0 <= outcome.missing <= variant.count
        assert outcome.missing == 0 or outcome.story, "what is missing is explained"
        assert all(0 <= landing.after_seconds < variant.budget_seconds for landing in outcome.landings)
    kinds = [each.offering.pool.instance_type for each in found.landings for _ in range(each.count)]
    for name, room in around.room.items():
        assert (len(kinds) if name == ALL else kinds.count(name)) <= room
    if around.ceiling is not None and found.landings:
        assert found.hourly_cost is not None
        assert found.hourly_cost <= around.ceiling + 1e-6
    for place in {(each.offering.zone, each.offering.pool.instance_type) for each in found.landings}:
        taken = [e for e in found.landings if (e.offering.zone, e.offering.pool.instance_type) == place]
        known = around.supply.free.get(place, around.supply.otherwise)
        assert known is None or sum(each.count for each in taken) <= known


@settings(deadline=None)
@given(st.lists(variants, min_size=1, max_size=3), worlds)
def test_where_everything_has_room_nothing_is_missing(plan: list[Wanted], around: Circumstances) -> None:
    plenty = replace(around, supply=Supply(otherwise=99), room={}, ceiling=None)
    rested = [replace(each, budget_seconds=1e6) for each in plan]
    assert preview(rested, plenty, NOW).would_serve
