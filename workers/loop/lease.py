"""The claim on an endpoint: a token with an expiry on its row.

    free ---- claim ----> held by a token until `claim_expires_at` ---- release ----> free
                            |       ^                        |
                            +-renew-+                        +-- expired: anybody may claim

A holder that is interrupted by a fault gives it back, also by way of a database that is away at first (`give_back`).
`CLAIM_SECONDS` is far longer than clocks of two hosts may differ, and longer than any single provider call; the holder
renews with every write. A holder that finds its token gone raises ClaimLost and throws its result away.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import InterfaceError, OperationalError
from django.db.models import F, Q

from controlplane.core import clock
from controlplane.core.ids import new_uuid
from controlplane.endpoints.models import Endpoint

CLAIM_SECONDS = 30.0

AWAY = (OperationalError, InterfaceError)
"""What the database's absence looks like."""


class ClaimLost(Exception):
    """The claim expired and somebody else holds the endpoint now; nothing may be written any more."""


class WishChanged(Exception):
    """What is wanted of the endpoint changed since it was observed: observe and plan again."""


class ClaimUnknown(Exception):
    """The database went away while the claim was taken: it may be held, by the token of `claim`."""

    def __init__(self, claim: "Claim") -> None:
        super().__init__(str(claim.endpoint_id))
        self.claim = claim


@dataclass(frozen=True)
class Claim:
    """A held claim: which endpoint, by which token, and the generation of the wish it was taken for."""

    endpoint_id: UUID
    token: UUID
    generation: int

    def renew(self, now: datetime) -> None:
        """Extend the claim; call it first in every transaction that writes a fact. Locks the endpoint's row."""
        if not self._row().update(claim_expires_at=now + timedelta(seconds=CLAIM_SECONDS)):
            raise ClaimLost(str(self.endpoint_id))

    def confirm(self, now: datetime) -> None:
        """As `renew`, and the wish must still be the one that was planned for; call it before an intent is written."""
        self.renew(now)
        if not self._row().filter(generation=self.generation).exists():
            raise WishChanged(str(self.endpoint_id))

    def refreshed(self) -> "Claim":
        """The same claim for the wish as it is now; raises ClaimLost."""
        generation = self._row().values_list("generation", flat=True).first()
        if generation is None:
            raise ClaimLost(str(self.endpoint_id))
        return Claim(self.endpoint_id, self.token, generation)

    def release(self, look_again_at: datetime, why: str) -> None:
        """Give the endpoint back, to be looked at again at `look_again_at`; at once if its wish changed meanwhile."""
        self._row().filter(generation=self.generation).update(look_again_at=look_again_at, why=why)
        self._row().update(claim_token=None, claim_expires_at=None)

    def _row(self):  # type: ignore[no-untyped-def]
        return Endpoint.objects.filter(pk=self.endpoint_id, claim_token=self.token)


def claim(endpoint_id: UUID) -> Claim | None:
    """Take the endpoint if nobody holds it; None if somebody does or it is gone. Raises ClaimUnknown."""
    wanted = Claim(endpoint_id, new_uuid(), generation=-1)
    try:
        return wanted.refreshed() if _take(wanted, clock.now()) else None
    except AWAY as error:
        raise ClaimUnknown(wanted) from error


def _take(wanted: Claim, now: datetime) -> int:
    free = Q(claim_token=None) | Q(claim_expires_at__lte=now)
    return Endpoint.objects.filter(free, pk=wanted.endpoint_id).update(
        claim_token=wanted.token, claim_expires_at=now + timedelta(seconds=CLAIM_SECONDS)
    )


def due_endpoints(now: datetime, limit: int) -> list[tuple[UUID, datetime]]:
    """Endpoints whose look is due and that nobody holds, longest due first, with the time they were due at."""
    free = Q(claim_token=None) | Q(claim_expires_at__lte=now)
    rows = Endpoint.objects.filter(free, look_again_at__lte=now).order_by(F("look_again_at"))
    return list(rows.values_list("id", "look_again_at")[:limit])
