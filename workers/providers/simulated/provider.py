"""The simulated world with the face of a provider."""

import sqlite3
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from pathlib import Path

from controlplane.core import clock
from controlplane.core.ids import new_token
from workers.providers.base import Health, InstanceStatus, LaunchRequest, ProviderInstance, StartFailure
from workers.providers.errors import ErrorKind, ProviderError
from workers.providers.outside import outside_transactions
from workers.providers.ping import ping
from workers.providers.simulated import storage
from workers.providers.simulated.storage import Call, Row
from workers.providers.simulated.world import (
    World,
    find_instances,
    find_refusal,
    read_default_capacity,
    read_knob,
    stop_instance,
    take,
    write_down,
)
from workers.providers.slots import FreeSlots

ZONE = "simulated-a"


@outside_transactions
class SimulatedProvider:
    """See `workers.providers.base.Provider` for the contract and `World` for the knobs."""

    name = "simulated"
    markets: tuple[str, ...] = ("on-demand", "spot")

    def __init__(self, world: World, zones: tuple[str, ...] = (ZONE,), serve_address: str = "") -> None:
        """`serve_address` (`host:port`) is what every RUNNING instance reports, so that calls can be served."""
        self.world = world
        self.zones = zones
        self._serve_address = serve_address

    @classmethod
    def stored(cls, data_dir: Path, env: Mapping[str, str]) -> "SimulatedProvider":
        """The world that this host's processes share.

        Reads HEADRACE_SIMULATED_CAPACITY (JSON: type -> slots), HEADRACE_SIMULATED_ADDRESS (`host:port`) and
        HEADRACE_SIMULATED_ZONES (names between commas). Raises ValueError.
        """
        folder = data_dir / "simulated"
        folder.mkdir(parents=True, exist_ok=True)
        capacity = read_default_capacity(env.get("HEADRACE_SIMULATED_CAPACITY", ""))
        names = (name.strip() for name in env.get("HEADRACE_SIMULATED_ZONES", "").split(","))
        zones = tuple(name for name in names if name) or (ZONE,)
        return cls(World(folder / "world.sqlite3", capacity), zones, env.get("HEADRACE_SIMULATED_ADDRESS", ""))

    @property
    def consistency_window_seconds(self) -> float:
        """As long as the world's listings lag."""
        return self.world.knob("consistency_seconds")

    def launch(self, request: LaunchRequest) -> ProviderInstance:
        with self.world.transaction() as cursor:
            row, error = self._launch(cursor, request)
            result = error.kind.value if error else "launched"
            call = Call(clock.now(), "launch", request.instance_type, request.zone, request.token, result)
            write_down(cursor, call)
        if error is not None:
            raise error
        assert row is not None
        return self._show(row)

    def find(self, token: str) -> ProviderInstance | None:
        return next(iter(self._list("token", [token])), None)

    def describe(self, provider_ids: Collection[str]) -> dict[str, ProviderInstance]:
        return {instance.provider_id: instance for instance in self._list("provider_id", provider_ids)}

    def terminate(self, provider_id: str) -> None:
        with self.world.transaction() as cursor:
            rows = find_instances(cursor, "provider_id", provider_id)
            if not rows:
                raise ProviderError(ErrorKind.GONE, f"There is no simulated instance {provider_id!r}.")
            row = rows[0]
            write_down(cursor, Call(clock.now(), "terminate", row.instance_type, row.zone, row.token, "accepted"))
            if not take(cursor, "zombie_terminates", row.instance_type):
                stop_instance(cursor, row)

    def list_owned(self, owner: str) -> list[ProviderInstance]:
        return self._list("owner", [owner])

    def ping(self, instance: ProviderInstance, timeout_seconds: float) -> Health:
        with self.world.transaction() as cursor:
            rows = find_instances(cursor, "provider_id", instance.provider_id)
            is_sick = read_knob(cursor, "is_sick", instance.instance_type) > 0
        if not rows or self._status(rows[0], clock.now()) is not InstanceStatus.RUNNING:
            return Health(False, "/ping failed: nothing listens")
        if is_sick:
            return Health(False, "/ping answered 500")
        return ping(instance.address, timeout_seconds) if instance.address else Health(True)

    def free_slots(self) -> FreeSlots:
        """How many more instances could be launched now, by zone and type; see `CountsSlots`."""
        with self.world.transaction() as cursor:
            free = {
                (zone, name): max(self.world.free_slots(cursor, name, zone), 0)
                for zone in self.zones
                for name in self.world.named_types(cursor)
            }
            return FreeSlots(free, self.world.free_slots(cursor, "", self.zones[0]))

    def _launch(self, cursor: sqlite3.Cursor, request: LaunchRequest) -> tuple[Row | None, ProviderError | None]:
        """What happens (the row), and what the caller is told (the error), which need not be the same."""
        known = find_instances(cursor, "token", request.token)
        if known:
            return known[0], None
        error = self._refusal(cursor, request)
        if error is not None:
            return None, error
        row = _new_row(cursor, request)
        storage.insert(cursor, row)
        if take(cursor, "lose_replies", request.instance_type):
            return row, ProviderError(ErrorKind.AMBIGUOUS, "The connection was lost before the answer came.")
        return row, None

    def _refusal(self, cursor: sqlite3.Cursor, request: LaunchRequest) -> ProviderError | None:
        """Why nothing is launched, if so."""
        if take(cursor, "throttle", request.instance_type):
            return ProviderError(ErrorKind.THROTTLED, "Request limit exceeded.")
        if take(cursor, "lose_requests", request.instance_type):
            return ProviderError(ErrorKind.AMBIGUOUS, "The connection was lost before an answer came.")
        if request.zone not in self.zones:
            return ProviderError(ErrorKind.MISCONFIGURED, f"There is no zone {request.zone!r}.")
        standing = find_refusal(cursor, request.instance_type, request.image)
        if standing is not None:
            return standing
        if self.world.free_slots(cursor, request.instance_type, request.zone) < 1:
            message = f"There is no {request.instance_type} capacity in {request.zone} now."
            return ProviderError(ErrorKind.CAPACITY, message)
        return None

    def _list(self, column: str, values: Collection[str]) -> list[ProviderInstance]:
        """What a listing shows: instances younger than the consistency window are missing."""
        with self.world.transaction() as cursor:
            is_throttled = take(cursor, "throttle_listings")
            rows = [row for value in values for row in find_instances(cursor, column, value)]
            horizon = clock.now() - timedelta(seconds=read_knob(cursor, "consistency_seconds"))
        if is_throttled:
            raise ProviderError(ErrorKind.THROTTLED, "Request limit exceeded.")
        return [self._show(row) for row in rows if row.launched_at <= horizon]

    def _show(self, row: Row) -> ProviderInstance:
        status = self._status(row, clock.now())
        has_exited = status is InstanceStatus.EXITED
        is_announced = row.exits_at is not None and not row.failure and not has_exited
        return ProviderInstance(
            provider_id=row.provider_id,
            token=row.token,
            owner=row.owner,
            instance_type=row.instance_type,
            zone=row.zone,
            status=status,
            launched_at=row.launched_at,
            address=self._serve_address if status is InstanceStatus.RUNNING else "",
            detail=row.detail if has_exited else "",
            failure=StartFailure(row.failure) if has_exited and row.failure else None,
            notice=row.detail if is_announced else "",
            ends_at=row.exits_at if is_announced else None,
        )

    @staticmethod
    def _status(row: Row, now: datetime) -> InstanceStatus:
        if row.gone_at is not None:
            return InstanceStatus.STOPPING
        if row.has_exited(now):
            return InstanceStatus.EXITED
        return InstanceStatus.RUNNING if row.running_at <= now else InstanceStatus.PENDING


def _new_row(cursor: sqlite3.Cursor, request: LaunchRequest) -> Row:
    now, instance_type = clock.now(), request.instance_type
    running_at = now + timedelta(seconds=read_knob(cursor, "boot_seconds", instance_type))
    failure, detail = _fate(cursor, instance_type)
    return Row(
        provider_id=f"sim-{new_token()[:17]}",
        token=request.token,
        owner=request.owner,
        instance_type=instance_type,
        zone=request.zone,
        launched_at=now,
        running_at=running_at,
        exits_at=running_at if failure else None,
        failure=failure,
        detail=detail,
    )


def _fate(cursor: sqlite3.Cursor, instance_type: str) -> tuple[str, str]:
    """How the instance fails once it would run, as failure and detail; empty when it does not."""
    if take(cursor, "exit_at_start", instance_type):
        return StartFailure.CONTAINER_EXITED.value, "exited with code 1: the world wanted it so"
    if take(cursor, "lack_model_data", instance_type):
        return StartFailure.MODEL_DATA.value, "the model's data cannot be found"
    return "", ""
