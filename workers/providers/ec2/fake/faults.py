"""The knobs, and the refusals that an operator has ordered. Knobs hold numbers, for one EC2 type or for all (`*`):

    boot_seconds          how long an instance is pending
    stop_seconds          how long it is shutting-down or stopping
    consistency_seconds   how long listings and terminates do not know a new instance (for all types only)
    page_size             listings give at most so many entries a page (for all types only)
    throttle              the next N launches are throttled
    throttle_listings     the next N describes of instances are throttled (for all types only)
    throttle_notices      the next N describes of spot requests or of instances' status are throttled (for all types only)
    internal_errors       the next N launches are answered with InternalError and do not happen
    lose_replies          the next N launches happen, and the connection is closed without an answer
    lose_requests         the next N launches do not happen, and the connection is closed without an answer
    empty_replies         the next N launches happen, and the answer names no instance
    fail_pending          the next N launched instances go from pending to terminated for want of capacity
    answer_spent_tokens   1 = a launch by the token of a terminated instance is answered with that instance, not refused
    zombie_terminates     the next N terminates are accepted and do nothing
    is_sick               1 = no instance answers /ping with 200

A counting knob set for a type is used up before the one for all types.
"""

from dataclasses import dataclass

ALL = "*"

KNOBS = frozenset(
    {
        *("boot_seconds", "stop_seconds", "consistency_seconds", "page_size", "throttle", "throttle_listings"),
        "throttle_notices",
        *("internal_errors", "lose_replies", "lose_requests", "empty_replies", "fail_pending", "zombie_terminates"),
        *("answer_spent_tokens", "is_sick"),
    }
)


class Refused(Exception):
    """An error answer: EC2's code, a message and the HTTP status."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status


class Lost(Exception):
    """There is no answer: the connection is closed."""


@dataclass(frozen=True)
class Order:
    """A standing refusal."""

    code: str
    message: str
    status: int


class Faults:
    """The knobs' positions and the standing refusals. The world's lock guards them."""

    def __init__(self) -> None:
        self._positions: dict[tuple[str, str], float] = {}
        self._orders: dict[str, Order] = {}

    def set(self, name: str, value: float, instance_type: str = ALL) -> None:
        """Turn a knob; raises ValueError for one there is not."""
        if name not in KNOBS:
            raise ValueError(f"There is no knob {name!r}; there are {', '.join(sorted(KNOBS))}.")
        self._positions[name, instance_type] = float(value)

    def read(self, name: str, instance_type: str = ALL) -> float:
        """What a knob is at for this type: its own position, else the one for all, else 0."""
        return self._positions.get((name, instance_type), self._positions.get((name, ALL), 0.0))

    def take(self, name: str, instance_type: str = ALL) -> bool:
        """Use up one of the N calls that a counting knob is set to; False when none is left."""
        for subject in (instance_type, ALL):
            left = self._positions.get((name, subject), 0.0)
            if left >= 1:
                self._positions[name, subject] = left - 1
                return True
        return False

    def order(self, subject: str, code: str, message: str = "The fake was told to refuse.", status: int = 400) -> None:
        """Refuse every launch of this EC2 type or AMI with `code`; an empty one ends that."""
        self._orders.pop(subject, None)
        if code:
            self._orders[subject] = Order(code, message, status)

    def check(self, *subjects: str) -> None:
        """Raise the standing refusal of the first of these that has one."""
        for subject in subjects:
            order = self._orders.get(subject)
            if order is not None:
                raise Refused(order.code, order.message, order.status)
