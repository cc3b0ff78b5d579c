"""Routing documents that claims brought along."""

from uuid import UUID

import pytest

from controlplane.routing.table import encode
from tests.workers.invocations.site import instance_at, route_of
from tests.workers.invocations.test_crew import leased
from workers.invocations.known_routes import KnownRoutes

HERE, THERE = UUID(int=1), UUID(int=2)
FIRST, SECOND = "127.0.0.1:1", "127.0.0.1:2"


def test_a_document_is_brought_once_and_known_from_then_on() -> None:
    routes = KnownRoutes()
    assert routes.revision(HERE) == 0
    claimed = leased(HERE)._replace(instance_id=instance_at(FIRST), revision=7)
    place = routes.place(claimed._replace(document=encode(route_of(HERE, FIRST))))
    assert (place.address, place.variant.name, place.route.endpoint_name) == (FIRST, "main", "later")
    assert (routes.revision(HERE), routes.revision(THERE)) == (7, 0)
    assert routes.place(claimed) is place


def test_a_later_document_takes_the_place_of_the_one_that_was_known() -> None:
    routes = KnownRoutes()
    first = leased(HERE)._replace(instance_id=instance_at(FIRST), revision=7, document=encode(route_of(HERE, FIRST)))
    routes.place(first)
    both = encode(route_of(HERE, FIRST, SECOND))
    later = first._replace(instance_id=instance_at(SECOND), revision=8, document=both)
    assert routes.place(later).address == SECOND
    assert routes.revision(HERE) == 8


def test_after_the_database_was_away_the_same_revision_may_be_another_document() -> None:
    routes = KnownRoutes()
    first = leased(HERE)._replace(instance_id=instance_at(FIRST), revision=7, document=encode(route_of(HERE, FIRST)))
    routes.place(first)
    routes.forget()
    assert routes.revision(HERE) == 0
    other = encode(route_of(HERE, SECOND))
    assert routes.place(first._replace(instance_id=instance_at(SECOND), document=other)).address == SECOND


def test_a_claim_by_a_document_that_nobody_brought_is_a_bug_and_is_told() -> None:
    with pytest.raises(AssertionError, match="not known"):
        KnownRoutes().place(leased(HERE)._replace(revision=7))
