"""The routing documents that claims brought along, so that the next claim need not bring them again."""

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from controlplane.routing.table import Route, VariantRoute, decode
from workers.invocations.leased import Leased

LIMIT = 1000
"""Endpoints whose documents are kept; beyond it all are forgotten, and claims bring what is still needed."""


class Place(NamedTuple):
    """Where a leased request runs, and by which route."""

    route: Route
    variant: VariantRoute
    address: str


@dataclass(frozen=True)
class _Known:
    revision: int
    places: dict[str, Place]


class KnownRoutes:
    """By endpoint, as of the last claim of each."""

    def __init__(self) -> None:
        self._known: dict[UUID, _Known] = {}

    def revision(self, endpoint_id: UUID) -> int:
        """That of the document that is known, 0 for none."""
        known = self._known.get(endpoint_id)
        return known.revision if known else 0

    def place(self, leased: Leased) -> Place:
        """Where it is to run: the instance that its claim chose."""
        known = self._known.get(leased.endpoint_id)
        if known is None or known.revision != leased.revision:
            known = self._learn(leased)
        return known.places[str(leased.instance_id)]

    def _learn(self, leased: Leased) -> _Known:
        if leased.document is None:
            raise AssertionError("the claim was told of a revision that is not known")
        if len(self._known) >= LIMIT:
            self._known.clear()
        route = decode(leased.document)
        places = {
            target.instance_id: Place(route, variant, target.address)
            for variant in route.variants
            for target in variant.targets
        }
        known = self._known[leased.endpoint_id] = _Known(leased.revision, places)
        return known
