"""HEADRACE_TYPE_WEIGHTS: what an instance of a type can carry beside one of another. Pure."""

import json
from collections.abc import Mapping
from math import isfinite

DEFAULT_WEIGHT = 1.0


def read_type_weights(text: str) -> dict[str, float]:
    """Instance type -> weight, from a JSON object; a type that is not named has weight 1. Raises ValueError."""
    try:
        found = json.loads(text or "{}")
    except ValueError as error:
        raise ValueError(f"HEADRACE_TYPE_WEIGHTS must be a JSON object: {error}.") from error
    if not isinstance(found, dict):
        raise ValueError("HEADRACE_TYPE_WEIGHTS must be a JSON object: instance type -> weight.")
    return {name: _weight(name, weight) for name, weight in found.items()}


def weight_of(weights: Mapping[str, float], instance_type: str) -> float:
    """The weight of an instance of this type."""
    return weights.get(instance_type, DEFAULT_WEIGHT)


def _weight(name: str, weight: object) -> float:
    is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
    if not is_number or not isfinite(weight) or not 0.001 <= weight <= 1000:  # type: ignore[arg-type,operator]
        raise ValueError(f"HEADRACE_TYPE_WEIGHTS must hold a number from 0.001 to 1000 for {name!r}, not {weight!r}.")
    return float(weight)  # type: ignore[arg-type]
