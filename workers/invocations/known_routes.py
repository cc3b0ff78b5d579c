"""The routing documents that claims brought along, so that the next claim need not bring them again."""

from collections.abc import Collection
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


class Opening(NamedTuple):
    """An instance that takes requests, and where that is."""

    instance_id: UUID
    place: Place


@dataclass(frozen=True)
class _Known:
    revision: int
    variants: tuple[VariantRoute, ...]
    places: dict[str, Place]


class KnownRoutes:
    """By endpoint, as of the last claim of each."""

    def __init__(self) -> None:
        self._known: dict[UUID, _Known] = {}

    def revision(self, endpoint_id: UUID) -> int:
        """That of the document that is known, 0 for none."""
        known = self._known.get(endpoint_id)
        return known.revision if known else 0

    def forget(self) -> None:
        """Know nothing more: a database that was away may be another one now (a standby that took over, a backup that was
        restored), whose revisions name other documents."""
        self._known.clear()

    def first_open(self, endpoint_id: UUID, shunned: Collection[UUID]) -> Opening | None:
        """An instance that takes requests, of an endpoint known to have one variant; None where a claim has to choose."""
        known = self._known.get(endpoint_id)
        if known is None or len(known.variants) != 1:
            return None
        for target in known.variants[0].targets:
            instance_id = UUID(target.instance_id)
            if not target.is_draining and instance_id not in shunned:
                return Opening(instance_id, known.places[target.instance_id])
        return None

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
        known = self._known[leased.endpoint_id] = _Known(leased.revision, route.variants, places)
        return known
