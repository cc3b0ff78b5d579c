"""Instances, and what time does to them. Times come from the clock alone, so a virtual clock boots and ends instances.

pending --> running --> stopping --> stopped
   |           |                        |
   +-----------+---> shutting-down <----+
                          |
                      terminated --> (forgotten after an hour)
"""

import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from controlplane.core import clock
from workers.providers.ec2.fake.faults import ALL, Faults, Refused

REMEMBERED_SECONDS = 3600.0
"""How long a terminated instance stays in listings."""

CALLS_KEPT = 10_000

_HOLDS_NO_SLOT = ("stopped", "terminated")


@dataclass
class End:
    """The end of an instance, under way since `at` and complete at `done_at`; `is_stop` when it only stops."""

    at: datetime
    done_at: datetime
    code: str
    message: str
    is_stop: bool = False


@dataclass
class Instance:
    """An instance; what state it is in follows from the time."""

    instance_id: str
    parameters: Mapping[str, Any]
    zone: str
    ip: str
    launched_at: datetime
    running_at: datetime
    end: End | None = None
    console: str = ""
    spot_request_id: str = ""
    spot_code: str = "fulfilled"
    spot_changed_at: datetime | None = None
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def instance_type(self) -> str:
        """EC2's name of its type."""
        return str(self.parameters["InstanceType"])

    def state(self, now: datetime) -> str:
        """EC2's name of its state; see the graph."""
        if self.end is not None and self.end.at <= now:
            is_done = self.end.done_at <= now
            if self.end.is_stop:
                return "stopped" if is_done else "stopping"
            return "terminated" if is_done else "shutting-down"
        return "running" if self.running_at <= now else "pending"


@dataclass(frozen=True)
class Call:
    """One line of the journal; `result` is `ok`, `lost` or an error's code."""

    at: datetime
    action: str
    instance_type: str
    token: str
    result: str


class World:
    """All there is, behind one lock. Public methods are the operator's hand; the calls of the API are in `calls`."""

    def __init__(self, subnets: Mapping[str, str]) -> None:
        """`subnets`: subnet -> zone."""
        self.subnets = dict(subnets)
        self.faults = Faults()
        self.instances: dict[str, Instance] = {}
        self.tokens: dict[str, str] = {}
        self.journal: list[Call] = []
        self._capacity: dict[tuple[str, str], int] = {}
        self._quotas: dict[str, int] = {}
        self._lock = threading.RLock()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One at a time; what was terminated long ago is forgotten inside."""
        with self._lock:
            horizon = clock.now() - timedelta(seconds=REMEMBERED_SECONDS)
            for instance in list(self.instances.values()):
                if instance.end and not instance.end.is_stop and instance.end.done_at < horizon:
                    del self.instances[instance.instance_id]
            yield

    def set_capacity(self, instance_type: str, slots: int, zone: str = ALL) -> None:
        """From now on `slots` instances of this EC2 type may live in `zone` (`*` = in each)."""
        with self.locked():
            if zone == ALL:
                self._capacity = {key: value for key, value in self._capacity.items() if key[0] != instance_type}
            self._capacity[instance_type, zone] = slots

    def set_quota(self, market: str, slots: int) -> None:
        """So many instances may be bought as `on-demand` or `spot`, in all."""
        with self.locked():
            self._quotas[market] = slots

    def set_knob(self, name: str, value: float, instance_type: str = ALL) -> None:
        """Turn a knob; see `faults`. Raises ValueError."""
        with self.locked():
            self.faults.set(name, value, instance_type)

    def refuse(self, subject: str, code: str, message: str = "The fake was told to refuse.", status: int = 400) -> None:
        """Refuse every launch of this EC2 type or AMI with `code`; an empty one ends that."""
        with self.locked():
            self.faults.order(subject, code, message, status)

    def shut_down(self, instance_id: str, last_words: str) -> None:
        """Let a machine write `last_words` to its console and shut itself down, as it was launched to."""
        with self.locked():
            instance = self.instances[instance_id]
            instance.console += last_words + "\r\n"
            is_stop = instance.parameters.get("InstanceInitiatedShutdownBehavior", "stop") == "stop"
            message = "Client.InstanceInitiatedShutdown: Instance initiated shutdown"
            self.begin_end(instance, "Client.InstanceInitiatedShutdown", message, is_stop=is_stop)

    def take_away(self, instance_id: str, code: str, message: str) -> None:
        """Let EC2 terminate an instance now, with this StateReason."""
        with self.locked():
            self.begin_end(self.instances[instance_id], code, message)

    def interrupt(self, instance_id: str) -> None:
        """Mark a spot instance for termination; `take_away` is what comes of it."""
        with self.locked():
            instance = self.instances[instance_id]
            instance.spot_code, instance.spot_changed_at = "marked-for-termination", clock.now()

    def schedule_event(self, instance_id: str, code: str, description: str, not_before: datetime) -> None:
        """Announce an event for an instance."""
        event = {"Code": code, "Description": description, "NotBefore": not_before}
        with self.locked():
            self.instances[instance_id].events.append(event)

    def live(self) -> list[Instance]:
        """Every instance that is not terminated, in the order of their launches."""
        with self.locked():
            now = clock.now()
            return [each for each in self.instances.values() if each.state(now) != "terminated"]

    def calls(self, action: str = "RunInstances") -> list[Call]:
        """The journal of calls of one kind, in order."""
        with self.locked():
            return [call for call in self.journal if call.action == action]

    def write_down(self, call: Call) -> None:
        """Add a line to the journal, and drop the oldest when there are too many. Under the lock."""
        self.journal.append(call)
        del self.journal[:-CALLS_KEPT]

    def begin_end(self, instance: Instance, code: str, message: str, *, is_stop: bool = False) -> None:
        """Let an instance stop or terminate from now on; one that terminates already goes on as it does. Under the lock."""
        if instance.end is not None and (is_stop or not instance.end.is_stop):
            return
        now = clock.now()
        was_stopped = instance.state(now) == "stopped"
        seconds = 0.0 if was_stopped else self.faults.read("stop_seconds", instance.instance_type)
        instance.end = End(now, now + timedelta(seconds=seconds), code, message, is_stop)

    def take_slot(self, instance_type: str, zone: str, market: str) -> None:
        """Raise Refused when there is no capacity or no quota for one more. Under the lock."""
        now = clock.now()
        holding = [each for each in self.instances.values() if each.state(now) not in _HOLDS_NO_SLOT]
        quota = self._quotas.get(market)
        if quota is not None and sum((each.spot_request_id != "") == (market == "spot") for each in holding) >= quota:
            code = "MaxSpotInstanceCountExceeded" if market == "spot" else "VcpuLimitExceeded"
            raise Refused(code, f"The account's limit for {market} instances is reached.")
        slots = self._capacity.get((instance_type, zone), self._capacity.get((instance_type, ALL)))
        taken = sum(each.instance_type == instance_type and each.zone == zone for each in holding)
        if slots is not None and taken >= slots:
            raise Refused("InsufficientInstanceCapacity", f"There is no {instance_type} capacity in {zone} now.", 500)


def new_id(prefix: str) -> str:
    """An id as EC2 makes them: the prefix and 17 hexadecimal digits."""
    return f"{prefix}-{uuid.uuid4().hex[:17]}"
