"""Slots by instance type, as settings and files name them: a JSON object type -> how many may live at once."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class FreeSlots:
    """How many more instances could be launched: by (zone, instance type), and of any other type in any zone."""

    free: Mapping[tuple[str, str], int]
    otherwise: int


@runtime_checkable
class CountsSlots(Protocol):
    """A provider that knows how much is free. No cloud tells; a host and a simulated world do."""

    def free_slots(self) -> FreeSlots:
        """What is free now. Raises ProviderError, or ValueError for settings that make no sense."""
        ...


def read_slots(text: str, name: str) -> dict[str, int]:
    """The slots in `text`; raises ValueError, naming the setting, for anything but whole numbers of 0 or more."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{name} must be a JSON object: {error}.") from error
    return check_slots(found, name)


def check_slots(found: object, name: str) -> dict[str, int]:
    """`found`, if it is slots by type; raises ValueError as `read_slots` does."""
    if not isinstance(found, dict) or not all(type(slots) is int and slots >= 0 for slots in found.values()):
        raise ValueError(f"{name} must be a JSON object: instance type -> number of slots, 0 or more.")
    return found
