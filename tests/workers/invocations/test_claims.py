"""Claims by the routing document: whose slots are filled, how many, and what comes along."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID, uuid4

import pytest

from controlplane.invocations.models import AsyncInvocation
from controlplane.routing.table import AsyncInference, Route, Target, VariantRoute, decode
from tests.workers.invocations.site import bench, do, instance_at, queue_up, route_of
from workers.invocations.leased import Leased
from workers.invocations.plan import DEFAULT_CONCURRENCY
from workers.invocations.statements import CLAIM_LIMIT

pytestmark = pytest.mark.django_db(transaction=True)

FIRST, SECOND = "127.0.0.1:1", "127.0.0.1:2"


def claimed(
    count: int, *rounds: Route | None, limit: int = CLAIM_LIMIT, shunned: Sequence[UUID] = ()
) -> list[list[Leased]]:
    """What is claimed of so many requests, round by round, each after its route is published (None: it stays)."""
    endpoint_id = uuid4()
    for _ in range(count):
        queue_up(endpoint_id=endpoint_id)

    async def work() -> list[list[Leased]]:
        found = []
        async with bench(endpoint_id) as site:
            for each in rounds:
                if each is not None:
                    await site.publish(each)
                found.append(await site.queue.claim(endpoint_id, limit, shunned=shunned))
        return found

    return do(work())


def route(*addresses: str, most: int | None = None) -> Route:
    return route_of(uuid4(), *addresses, max_concurrent=most)


def places(leased: list[Leased]) -> Counter[UUID | None]:
    return Counter(each.instance_id for each in leased)


def test_each_instance_gets_as_many_as_it_has_room_for_and_no_more() -> None:
    both = route(FIRST, SECOND, most=3)
    first, second = claimed(10, both, None)
    assert places(first) == {instance_at(FIRST): 3, instance_at(SECOND): 3}
    assert second == []
    assert {each.slots for each in first} == {6}


def test_without_a_number_of_its_own_an_endpoint_has_the_default() -> None:
    (found,) = claimed(10, route(FIRST))
    assert places(found) == {instance_at(FIRST): DEFAULT_CONCURRENCY}


def test_the_emptiest_instance_comes_first() -> None:
    one, both = route(FIRST, most=4), route(FIRST, SECOND, most=4)
    first, second = claimed(6, one, both, limit=3)
    assert places(first) == {instance_at(FIRST): 3}
    assert places(second) == {instance_at(SECOND): 3}


@pytest.mark.parametrize("count", [1, 5, CLAIM_LIMIT + 5])
def test_one_claim_takes_no_more_than_it_is_asked_for_and_than_its_statement_can(count: int) -> None:
    (found,) = claimed(CLAIM_LIMIT + 10, route(FIRST, most=1000), limit=count)
    assert len(found) == min(count, CLAIM_LIMIT)


def test_an_instance_that_drains_gets_nothing_and_one_that_came_gets_its_share() -> None:
    variant = route(FIRST, SECOND, most=2).variants[0]
    draining, open_one = variant.targets
    left = replace(variant, targets=(replace(draining, is_draining=True), open_one))
    (found,) = claimed(10, replace(route(most=2), variants=(left,)))
    assert places(found) == {instance_at(SECOND): 2}


def test_an_endpoint_that_does_not_serve_gets_nothing() -> None:
    (found,) = claimed(3, replace(route(FIRST), is_serving=False))
    assert found == []


def test_while_two_revisions_share_the_calls_slots_are_filled_by_their_shares() -> None:
    old = replace(route(FIRST).variants[0], share=0.8)
    new = replace(old, share=0.2, targets=(Target(str(instance_at(SECOND)), SECOND, "ml.m5.large", False),))
    none = replace(old, share=0.0, targets=(Target(str(uuid4()), "127.0.0.1:3", "ml.m5.large", False),))
    (found,) = claimed(60, replace(route(most=1000), variants=(old, new, none)), limit=60)
    by_place = places(found)
    assert set(by_place) == {instance_at(FIRST), instance_at(SECOND)}
    assert by_place[instance_at(FIRST)] > by_place[instance_at(SECOND)] > 0  # 12 expected: 1 in 10^6 runs has none


def two_variants(first: float, second: float) -> Route:
    """An endpoint of two variants with these weights, and an instance each."""
    one = replace(route(FIRST).variants[0], weight=first)
    other = VariantRoute("other", second, "RANDOM", (Target(str(instance_at(SECOND)), SECOND, "ml.m5.large", False),))
    return replace(route(most=1000), variants=(one, other))


def test_of_two_variants_each_gets_its_share_of_the_weights() -> None:
    (found,) = claimed(60, two_variants(4.0, 1.0), limit=60)
    by_place = places(found)
    assert by_place[instance_at(FIRST)] > by_place[instance_at(SECOND)] > 0  # 12 expected: 1 in 10^6 runs has none
    assert {each.variant_name for each in found if each.instance_id == instance_at(SECOND)} == {"other"}


@pytest.mark.parametrize("least", [5e-324, 1e-300, 1e300], ids=["least of all", "tiny", "huge"])
def test_weights_far_from_each_other_are_weights_all_the_same(least: float) -> None:
    there = two_variants(1.7e308, least)
    found = claimed(20, there, replace(there, variants=there.variants[::-1]), limit=10)
    assert [places(each) for each in found] == [{instance_at(FIRST): 10}] * 2


def test_a_variant_whose_slots_are_full_leaves_the_others_to_take_what_there_is() -> None:
    (found,) = claimed(10, replace(two_variants(1000.0, 1.0), async_inference=AsyncInference("s3://b/out", "", 2)))
    assert places(found) == {instance_at(FIRST): 2, instance_at(SECOND): 2}


def test_a_variant_of_weight_0_gets_nothing_even_if_no_other_can_be_reached() -> None:
    found = claimed(10, two_variants(0.0, 1.0), two_variants(1.0, 0.0), limit=5, shunned=[instance_at(SECOND)])
    assert [places(each) for each in found] == [{instance_at(SECOND): 5}, {instance_at(FIRST): 5}]


def test_a_variant_of_weight_0_does_not_stand_in_for_one_that_has_no_instance_yet() -> None:
    both = two_variants(1.0, 0.0)
    launching = replace(both.variants[0], targets=())
    old = replace(both.variants[0], share=0.0)
    found = claimed(
        5, replace(both, variants=(launching, both.variants[1])), replace(both, variants=(old, both.variants[1]))
    )
    assert [places(each) for each in found] == [{}, {instance_at(SECOND): 5}]  # of the old revision nothing is left


def test_where_every_weight_is_0_and_where_there_is_one_variant_nobody_waits_for_a_weight() -> None:
    (found,) = claimed(60, two_variants(0.0, 0.0), limit=60)
    assert set(places(found)) == {instance_at(FIRST), instance_at(SECOND)}
    alone = replace(route(FIRST).variants[0], weight=0.0)
    (found,) = claimed(3, replace(route(most=9), variants=(alone,)))
    assert places(found) == {instance_at(FIRST): 3}


def test_an_instance_that_could_not_be_reached_gets_nothing_while_there_is_another_however_full_that_one_is() -> None:
    found = claimed(10, route(FIRST, SECOND, most=2), None, shunned=[instance_at(FIRST)])
    assert [places(each) for each in found] == [{instance_at(SECOND): 2}, {}]
    assert {each.slots for each in found[0]} == {2}


def test_where_no_instance_could_be_reached_the_one_that_failed_last_comes_last() -> None:
    shunned = [instance_at(each) for each in (SECOND, FIRST, "127.0.0.1:99")]
    found = claimed(3, route(FIRST, SECOND, most=2), None, limit=2, shunned=shunned)
    assert [places(each) for each in found] == [{instance_at(SECOND): 2}, {instance_at(FIRST): 1}]


def test_the_only_instance_is_asked_whether_it_could_be_reached_or_not() -> None:
    (found,) = claimed(3, route(FIRST, most=2), shunned=[instance_at(FIRST)])
    assert places(found) == {instance_at(FIRST): 2}


def test_while_two_revisions_share_the_calls_the_one_that_cannot_be_reached_leaves_them_to_the_other() -> None:
    old = replace(route(FIRST).variants[0], share=0.9)
    new = replace(old, share=0.1, targets=(Target(str(instance_at(SECOND)), SECOND, "ml.m5.large", False),))
    (found,) = claimed(20, replace(route(most=1000), variants=(old, new)), shunned=[instance_at(FIRST)])
    assert places(found) == {instance_at(SECOND): 20}


def test_the_routing_document_comes_along_when_it_is_another_one() -> None:
    endpoint_id = uuid4()
    for _ in range(3):
        queue_up(endpoint_id=endpoint_id)

    async def work() -> list[Leased]:
        async with bench(endpoint_id) as site:
            await site.publish(site.route(FIRST))
            (new,) = await site.queue.claim(endpoint_id, 1)
            (known,) = await site.queue.claim(endpoint_id, 1, new.revision)
            await site.publish(site.route(FIRST, SECOND))
            (other,) = await site.queue.claim(endpoint_id, 1, known.revision)
            return [new, known, other]

    new, known, other = do(work())
    assert new.document is not None
    assert decode(new.document).variants[0].targets[0].address == FIRST
    assert (known.revision, known.document) == (new.revision, None)
    assert other.revision > known.revision
    assert other.document is not None
    assert len(decode(other.document).variants[0].targets) == 2


def test_claims_made_at_the_same_time_fill_each_slot_once() -> None:
    endpoint_id = uuid4()
    for _ in range(40):
        queue_up(endpoint_id=endpoint_id)

    async def work() -> list[list[Leased]]:
        async with bench(endpoint_id) as site:
            await site.publish(site.route(FIRST, SECOND, max_concurrent=5))
            return list(await asyncio.gather(*(site.queue.claim(endpoint_id, 4) for _ in range(8))))

    found = [each for part in do(work()) for each in part]
    assert len({each.id for each in found}) == len(found) == 10
    assert places(found) == {instance_at(FIRST): 5, instance_at(SECOND): 5}
    assert AsyncInvocation.objects.filter(state="running").count() == 10
