"""The simulated world with the face of a provider."""

import sqlite3
from collections.abc import Collection, Mapping
from datetime import timedelta
from pathlib import Path

from controlplane.core import clock
from controlplane.core.ids import new_token
from workers.providers.base import Health, InstanceStatus, LaunchRequest, ProviderInstance, StartFailure
from workers.providers.errors import ErrorKind, ProviderError
from workers.providers.ping import ping
from workers.providers.simulated.world import Row, World, read_default_capacity

ZONE = "simulated-a"


class SimulatedProvider:
    """See `workers.providers.base.Provider` for the contract and `World` for the knobs."""

    name = "simulated"

    def __init__(self, world: World, zones: tuple[str, ...] = (ZONE,), serve_address: str = "") -> None:
        self.world = world
        self.zones = zones
        self._serve_address = serve_address

    @classmethod
    def stored(cls, data_dir: Path, env: Mapping[str, str]) -> "SimulatedProvider":
        """The world that this host's processes share."""
        folder = data_dir / "simulated"
        folder.mkdir(parents=True, exist_ok=True)
        capacity = read_default_capacity(env.get("HEADRACE_SIMULATED_CAPACITY", ""))
        return cls(World(folder / "world.sqlite3", capacity), serve_address=env.get("HEADRACE_SIMULATED_ADDRESS", ""))

    @property
    def consistency_window_seconds(self) -> float:
        """As long as the world's listings lag."""
        return self.world.knob("consistency_seconds")

    def launch(self, request: LaunchRequest) -> ProviderInstance:
        with self.world.transaction() as cursor:
            instance, error = self._launch(cursor, request)
            result = error.kind.value if error else "launched"
            self.world.write_down(cursor, "launch", request.instance_type, request.zone, request.token, result)
        if error is not None:
            raise error
        assert instance is not None
        return instance

    def find(self, token: str) -> ProviderInstance | None:
        with self.world.transaction() as cursor:
            return next(iter(self._visible(cursor, "token", token)), None)

    def describe(self, provider_ids: Collection[str]) -> dict[str, ProviderInstance]:
        with self.world.transaction() as cursor:
            found = [row for each in provider_ids for row in self._visible(cursor, "provider_id", each)]
        return {instance.provider_id: instance for instance in found}

    def terminate(self, provider_id: str) -> None:
        with self.world.transaction() as cursor:
            rows = self.world.find(cursor, "provider_id", provider_id)
            if not rows:
                raise ProviderError(ErrorKind.GONE, f"There is no simulated instance {provider_id!r}.")
            self.world.write_down(cursor, "terminate", rows[0].instance_type, rows[0].zone, rows[0].token, "accepted")
            if not self.world.take(cursor, "zombie_terminates"):
                self.world.remove(cursor, provider_id)

    def list_owned(self, owner: str) -> list[ProviderInstance]:
        with self.world.transaction() as cursor:
            return self._visible(cursor, "owner", owner)

    def ping(self, instance: ProviderInstance, timeout_seconds: float) -> Health:
        if self.world.knob("is_sick"):
            return Health(False, "/ping answered 500")
        return ping(instance.address, timeout_seconds) if instance.address else Health(True)

    def _launch(
        self, cursor: sqlite3.Cursor, request: LaunchRequest
    ) -> tuple[ProviderInstance | None, ProviderError | None]:
        """What happens (the row), and what the caller is told (the error), which need not be the same."""
        known = self.world.find(cursor, "token", request.token)
        if known:
            return self._show(known[0]), None
        if self.world.take(cursor, "throttle"):
            return None, ProviderError(ErrorKind.THROTTLED, "Request limit exceeded.")
        if self.world.take(cursor, "lose_requests"):
            return None, ProviderError(ErrorKind.AMBIGUOUS, "The connection was lost before an answer came.")
        refusal = self.world.refusal(cursor, request.instance_type)
        if refusal is not None:
            return None, ProviderError(ErrorKind(refusal[0]), refusal[1])
        if self.world.free_slots(cursor, request.instance_type, request.zone) < 1:
            message = f"There is no {request.instance_type} capacity in {request.zone} now."
            return None, ProviderError(ErrorKind.CAPACITY, message)
        row = self._new_row(cursor, request)
        self.world.add(cursor, row)
        if self.world.take(cursor, "lose_replies"):
            return None, ProviderError(ErrorKind.AMBIGUOUS, "The connection was lost before the answer came.")
        return self._show(row), None

    def _new_row(self, cursor: sqlite3.Cursor, request: LaunchRequest) -> Row:
        now = clock.now()
        return Row(
            provider_id=f"sim-{new_token()[:17]}",
            token=request.token,
            owner=request.owner,
            instance_type=request.instance_type,
            zone=request.zone,
            launched_at=now,
            running_at=now + self.world.boot_time(cursor),
            status="launched",
            detail="",
        )

    def _visible(self, cursor: sqlite3.Cursor, column: str, value: str) -> list[ProviderInstance]:
        """The rows that a listing shows by now."""
        cursor.execute("SELECT value FROM knob WHERE name = 'consistency_seconds'")
        found = cursor.fetchone()
        horizon = clock.now() - timedelta(seconds=found[0] if found else 0.0)
        return [self._show(row) for row in self.world.find(cursor, column, value) if row.launched_at <= horizon]

    def _show(self, row: Row) -> ProviderInstance:
        has_exited = row.status == "exited"
        is_running = not has_exited and row.running_at <= clock.now()
        status = InstanceStatus.RUNNING if is_running else InstanceStatus.PENDING
        return ProviderInstance(
            provider_id=row.provider_id,
            token=row.token,
            owner=row.owner,
            instance_type=row.instance_type,
            zone=row.zone,
            status=InstanceStatus.EXITED if has_exited else status,
            launched_at=row.launched_at,
            address=self._serve_address if is_running else "",
            detail=row.detail,
            failure=StartFailure.CONTAINER_EXITED if has_exited else None,
        )
