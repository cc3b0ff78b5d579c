"""What whoever starts gateways and the gateways themselves must agree on."""

from collections.abc import Mapping

DRAIN_SECONDS = 30


def gateways(env: Mapping[str, str]) -> int:
    """How many gateway processes share the port of this host."""
    return max(int(env.get("HEADRACE_GATEWAYS") or 1), 1)


def drain_seconds(env: Mapping[str, str]) -> int:
    """How long a gateway that is told to stop goes on with the calls it has."""
    return int(env.get("HEADRACE_DRAIN_SECONDS") or DRAIN_SECONDS)
