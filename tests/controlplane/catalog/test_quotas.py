"""Which request a quota refuses, in whose words, and that whatever is let through can really be placed."""

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.catalog.quotas import ALL, Demand, Usage, first_excess, room

A, B, C = "ml.a", "ml.b", "ml.c"
NOTHING = Usage({})


def test_the_refusal_is_the_service_s_own_sentence() -> None:
    excess = first_excess({"ml.g6.48xlarge": 0}, NOTHING, [Demand(("ml.g6.48xlarge",), 1)])
    assert str(excess) == (
        "The account-level service limit 'ml.g6.48xlarge for endpoint usage' is 0 Instances, with current utilization of "
        "0 Instances and a request delta of 1 Instances. Please use AWS Service Quotas to request an increase for this "
        "quota. If AWS Service Quotas is not available, contact AWS support to request an increase for this quota."
    )


def test_all_types_together_have_a_quota_of_their_own() -> None:
    usage = Usage({A: 2}, (Demand((B,), 1),))
    assert first_excess({ALL: 5}, usage, [Demand((A,), 2)]) is None
    excess = first_excess({ALL: 5}, usage, [Demand((A,), 3)])
    assert str(excess).startswith(
        "The account-level service limit 'Number of instances across active endpoints' is 5 Instances, with current "
        "utilization of 3 Instances and a request delta of 3 Instances."
    )


def test_a_type_without_a_quota_takes_any_number() -> None:
    assert first_excess({A: 0}, NOTHING, [Demand((A, B), 1000)]) is None


def test_a_variant_fits_when_its_types_have_room_together() -> None:
    limits = {A: 2, B: 3}
    assert first_excess(limits, NOTHING, [Demand((A, B), 5)]) is None
    excess = first_excess(limits, NOTHING, [Demand((A, B), 6)])
    assert excess is not None
    assert (excess.name, excess.limit, excess.delta) == (f"{A} for endpoint usage", 2, 6)


def test_what_could_land_elsewhere_makes_room_for_what_cannot() -> None:
    flexible, fixed = Demand((A, B), 2), Demand((A,), 2)
    assert first_excess({A: 2, B: 2}, Usage({}, (flexible,)), [fixed]) is None
    assert first_excess({A: 2, B: 1}, Usage({}, (flexible,)), [fixed]) is not None


def test_what_serves_stays_where_it_is() -> None:
    assert first_excess({A: 2, B: 2}, Usage({A: 2}), [Demand((A,), 1)]) is not None


def test_an_account_over_a_lowered_quota_gets_nothing_more_of_it_but_everything_else() -> None:
    usage = Usage({A: 5})
    assert first_excess({A: 2}, usage, [Demand((A,), 1)]) is not None
    assert first_excess({A: 2}, usage, [Demand((B,), 1)]) is None
    assert first_excess({ALL: 2}, usage, [Demand((B,), 0)]) is None


def test_room_is_what_quotas_leave_and_never_below_nothing() -> None:
    assert room({A: 2, B: 4, ALL: 6}, {A: 3, C: 1}) == {A: 0, B: 4, ALL: 2}


types = st.lists(st.sampled_from([A, B, C]), min_size=1, max_size=3, unique=True).map(tuple)
demands = st.lists(st.builds(Demand, types, st.integers(0, 3)), max_size=3)


def fits(limits: dict[str, int], demanded: list[Demand]) -> bool:
    """Whether some assignment of every single instance to a type keeps all limits; by trying them all."""
    singles = [demand.types for demand in demanded for _ in range(demand.count)]
    return any(
        all(choice.count(name) <= limit for name, limit in limits.items() if name != ALL) for choice in product(*singles)
    )


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from([A, B, C]), st.integers(0, 3)), demands)
def test_a_request_is_refused_exactly_when_no_assignment_fits(limits: dict[str, int], wanted: list[Demand]) -> None:
    assert (first_excess(limits, NOTHING, wanted) is None) is fits(limits, wanted)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from([A, B, C]), st.integers(0, 3)), demands, demands)
def test_after_what_fits_a_request_fits_exactly_when_both_do(
    limits: dict[str, int], before: list[Demand], wanted: list[Demand]
) -> None:
    if fits(limits, before):
        excess = first_excess(limits, Usage({}, tuple(before)), wanted)
        assert (excess is None) is fits(limits, before + wanted)


def test_nothing_wanted_is_never_refused() -> None:
    assert first_excess({A: 0, ALL: 0}, Usage({A: 9}), [Demand((A,), 0)]) is None
