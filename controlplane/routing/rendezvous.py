"""Weighted rendezvous hashing: which instance a key belongs to, with nothing remembered. Pure.

Every instance draws a number from the key and its own name; the highest wins. A key moves only when its own winner goes
or a newcomer beats it, so of n instances one more takes about 1/(n+1) of the keys, and nobody else's move. With weights
the draws are those of a race of exponential clocks: an instance of weight 2 wins twice as often as one of weight 1, and
one whose weight grows only takes keys, never swaps them (contract, data plane 3.3).

Two levels: instances are ranked first, then the copies on the instance. Where there are no copies the instance is its
own only one.
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from math import log
from typing import NamedTuple

_HALF_STEP = 0.5
_STEPS = float(2**64)


class Place(NamedTuple):
    """An instance, what share of the work it can carry, and the copies on it that can serve (at least one)."""

    instance_id: str
    weight: float
    copies: tuple[str, ...]


class Seat(NamedTuple):
    """Where a call goes: a copy on an instance."""

    instance_id: str
    copy: str


InFlight = Callable[[str], int]
"""Calls under way at a copy."""


def lateness(key: bytes, name: str, weight: float = 1.0) -> float:
    """When the clock of `name` rings for this key: the earliest wins; `weight` > 0.

    Keys are of one length, so that key and name together are told apart from any other pair.
    """
    drawn = int.from_bytes(blake2b(key + name.encode(), digest_size=8).digest(), "big")
    return -log((drawn + _HALF_STEP) / _STEPS) / weight


def home(key: bytes, places: Sequence[Place]) -> Place:
    """The instance that a key belongs to; `places` is not empty."""
    return min(places, key=lambda place: lateness(key, place.instance_id, place.weight))


def seat(key: bytes, places: Sequence[Place], in_flight: InFlight, threshold: int) -> Seat:
    """Where a call with this key goes, given at most `threshold` calls at once on a copy.

    At home, on the first copy by rank that has room; else where there is the most room elsewhere, the better rank
    deciding between equals; with no room anywhere, where the fewest calls are. It never refuses.
    """
    own = home(key, places)
    for copy in _ranked_copies(key, own):
        if in_flight(copy) < threshold:
            return Seat(own.instance_id, copy)
    seats = [(place, copy) for place in places for copy in place.copies]
    with_room = [(place, copy) for place, copy in seats if in_flight(copy) < threshold]

    def order(option: tuple[Place, str]) -> tuple[float, float, float]:
        place, copy = option
        carried = (in_flight(copy) + 1) / place.weight
        return carried, lateness(key, place.instance_id, place.weight), lateness(key, copy)

    place, copy = min(with_room or seats, key=order)
    return Seat(place.instance_id, copy)


def _ranked_copies(key: bytes, place: Place) -> Sequence[str]:
    if len(place.copies) == 1:
        return place.copies
    return sorted(place.copies, key=lambda copy: lateness(key, copy))
