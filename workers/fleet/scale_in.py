"""The pure order in which instances go when there are too many.

What an operator wants gone, then not ready before ready, then the least wanted pool (the fallbacks go first), then the
fewest calls in flight, then the newest. Documented by the service this mirrors for the pools; the rest is the order that
wastes and interrupts least.
"""

from controlplane.core.offerings import preference
from workers.fleet.view import Instance, Stage

_READINESS = {Stage.PENDING: 0, Stage.STARTING: 1, Stage.READY: 2}


def victims(instances: tuple[Instance, ...], surplus: int) -> list[Instance]:
    """The `surplus` instances that should go, first to go first; draining and ending ones must not be passed in."""
    return sorted(instances, key=_keep_value)[: max(surplus, 0)]


def _keep_value(instance: Instance) -> tuple[bool, int, int, int, int, float, str]:
    priority, position = preference(instance.pool)
    return (
        not instance.leave,
        _READINESS[instance.stage],
        -priority,
        -position,
        instance.in_flight or 0,
        -instance.launched_at.timestamp(),
        instance.id,
    )
