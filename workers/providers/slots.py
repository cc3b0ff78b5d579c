"""Slots by instance type, as settings and files name them: a JSON object type -> how many may live at once."""

import json


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
