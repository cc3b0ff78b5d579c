"""Which instance types may be named: AWS's own and whatever the operator's providers were given.

AWS's names come from the service model, so a new botocore brings new types by itself; `ml.rack.h100x8` becomes legal by
naming it in a provider's capacity setting.
"""

import os
from collections.abc import Mapping
from functools import lru_cache

from controlplane.config.environment import read_json_mapping
from controlplane.core.errors import ResourceNotFound
from controlplane.wire.model import load_service

CAPACITY_SETTINGS = ("HEADRACE_LOCAL_CAPACITY", "HEADRACE_SIMULATED_CAPACITY", "HEADRACE_EC2_TYPES")


@lru_cache(maxsize=1)
def known_instance_types() -> frozenset[str]:
    """All legal instance type names of this installation."""
    return aws_instance_types() | operator_instance_types(os.environ)


def checked(name: str) -> str:
    """The name, where it is a legal one; raises ResourceNotFound."""
    if name not in known_instance_types():
        raise ResourceNotFound(f"There is no instance type {name[:64]}.")
    return name


def aws_instance_types() -> frozenset[str]:
    """The names in the service model's enum of production variant types."""
    return frozenset(load_service("sagemaker").shape_for("ProductionVariantInstanceType").enum)


def operator_instance_types(env: Mapping[str, str]) -> frozenset[str]:
    """The names that the operator's capacity settings mention."""
    return frozenset(name for setting in CAPACITY_SETTINGS for name in read_json_mapping(env, setting))
