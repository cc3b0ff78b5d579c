"""The provider itself: slots, launches by token, and what became of them."""

import hashlib
import subprocess
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from workers.providers.base import Health, InstanceStatus, LaunchRequest, ProviderInstance, StartFailure
from workers.providers.errors import ErrorKind, ProviderError
from workers.providers.local import capacity, processes, start
from workers.providers.local.processes import Directory
from workers.providers.local.runtimes import command_for, read_runtimes
from workers.providers.outside import outside_transactions
from workers.providers.ping import ping
from workers.providers.slots import FreeSlots

ZONE = "local"
TERM_GRACE_SECONDS = 30.0
"""The container contract: SIGTERM, then 30 s, then SIGKILL."""


@outside_transactions
class LocalProvider:
    """Instances as processes of this host; see `workers.providers.base.Provider` for the contract."""

    name = "local"
    zones: tuple[str, ...] = (ZONE,)
    markets: tuple[str, ...] = ("on-demand",)
    consistency_window_seconds = 0.0

    def __init__(self, data_dir: Path, env: Mapping[str, str], grace_seconds: float = TERM_GRACE_SECONDS) -> None:
        """Raises ValueError for a HEADRACE_RUNTIMES or HEADRACE_LOCAL_CAPACITY that makes no sense."""
        self._data_dir = data_dir.absolute()
        self._env = env
        self._runtimes = read_runtimes(env)
        self._default_capacity = capacity.read_default(env)
        self._grace_seconds = grace_seconds

    def launch(self, request: LaunchRequest) -> ProviderInstance:
        command = command_for(self._runtimes, request.image)
        directory = self._directory(request.token)
        with self._host_lock():
            directory.settle()
            known = _instance(directory)
            if known is not None:
                return known
            processes.tidy(self._data_dir)
            self._take_slot(request.instance_type)
            self._start(directory, request, command)
            started = _instance(directory)
        if started is None:
            raise ProviderError(ErrorKind.THROTTLED, "The process that looks after the instance ended at once.")
        return started

    def find(self, token: str) -> ProviderInstance | None:
        directory = self._directory(token)
        # Under the lock, so that a launch by this token that is under way elsewhere is waited for, not missed.
        with self._host_lock():
            directory.settle()
            return _instance(directory)

    def describe(self, provider_ids: Collection[str]) -> dict[str, ProviderInstance]:
        found = [processes.directory(self._data_dir, provider_id) for provider_id in provider_ids]
        return {instance.provider_id: instance for instance in self._instances(each for each in found if each)}

    def terminate(self, provider_id: str) -> None:
        directory = processes.directory(self._data_dir, provider_id)
        if directory is None or directory.is_gone:
            raise _gone(provider_id)
        try:
            directory.ask_for_end()
        except FileNotFoundError as error:
            raise _gone(provider_id) from error

    def list_owned(self, owner: str) -> list[ProviderInstance]:
        instances = self._instances(iter(processes.directories(self._data_dir)))
        return [instance for instance in instances if instance.owner == owner]

    def ping(self, instance: ProviderInstance, timeout_seconds: float) -> Health:
        return ping(instance.address, timeout_seconds)

    def capacity(self, instance_type: str) -> int:
        """How many instances of this type may live at once."""
        return capacity.get_capacity(self._data_dir, instance_type, self._default_capacity)

    def set_capacity(self, instance_type: str, slots: int) -> None:
        """Rehearse a shortage or its end; instances that live already are left alone."""
        capacity.set_capacity(self._data_dir, instance_type, slots)

    def free_slots(self) -> FreeSlots:
        """How many more instances could be launched now, by type; see `CountsSlots`."""
        taken = self._taken()
        names = capacity.named_types(self._data_dir, self._default_capacity) | taken.keys()
        free = {(ZONE, name): max(self.capacity(name) - taken[name], 0) for name in names}
        return FreeSlots(free, self.capacity(""))

    def _directory(self, token: str) -> Directory:
        """The directory of this token; its name is a digest, so nothing in the token can steer it."""
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
        return Directory(processes.root(self._data_dir) / f"local-{digest[:24]}")

    @contextmanager
    def _host_lock(self) -> Iterator[None]:
        try:
            with processes.host_lock(self._data_dir):
                yield
        except TimeoutError as error:
            raise ProviderError(ErrorKind.THROTTLED, "Another launch on this host takes too long.") from error

    def _instances(self, directories: Iterator[Directory]) -> Iterator[ProviderInstance]:
        for directory in directories:
            if directory.is_abandoned:
                with self._host_lock():
                    directory.settle()
            instance = _instance(directory)
            if instance is not None:
                yield instance

    def _take_slot(self, instance_type: str) -> None:
        try:
            slots = self.capacity(instance_type)
        except ValueError as error:
            raise ProviderError(ErrorKind.MISCONFIGURED, str(error)) from error
        taken = self._taken()[instance_type]
        if taken >= slots:
            raise ProviderError(
                ErrorKind.CAPACITY,
                f"Insufficient capacity: {taken} of {slots} slots for {instance_type} are taken on this host.",
            )

    def _taken(self) -> Counter[str]:
        """How many slots are taken, by type."""
        return Counter(
            str(spec["instance_type"])
            for directory in processes.directories(self._data_dir)
            if directory.holds_slot and (spec := directory.spec) is not None
        )

    def _start(self, directory: Directory, request: LaunchRequest, command: list[str]) -> None:
        """Start the instance; a host that cannot (no disk, no processes) is asked again later."""
        environment = start.shim_environment(self._env, is_fetching=bool(request.model_data_url))
        try:
            start.write_spec(directory, request, command, self._env, self._grace_seconds)
            start.start_shim(directory, environment)
        except (OSError, subprocess.SubprocessError) as error:
            # A shim that lives in spite of it is told by its lock.
            if not directory.is_alive:
                message = f"This host could not start the instance: {type(error).__name__}."
                raise ProviderError(ErrorKind.THROTTLED, message) from error


def _instance(directory: Directory) -> ProviderInstance | None:
    """The instance in this directory, None when it never started or has ended as it was asked to."""
    spec = directory.spec
    if spec is None or directory.is_gone:
        return None
    is_alive = directory.is_alive  # looked at in this order, an instance that is starting now never looks dead
    state = directory.state or {"status": "pending"}
    status = _status(directory, state, is_alive=is_alive)
    return ProviderInstance(
        provider_id=directory.id,
        token=spec["token"],
        owner=spec["owner"],
        instance_type=spec["instance_type"],
        zone=spec["zone"],
        status=status,
        launched_at=datetime.fromisoformat(spec["launched_at"]),
        address=f"127.0.0.1:{state['port']}" if status is InstanceStatus.RUNNING else "",
        detail=state.get("detail", ""),
        failure=_failure(status, state),
    )


def _status(directory: Directory, state: Mapping[str, Any], *, is_alive: bool) -> InstanceStatus:
    if directory.is_stopping:
        return InstanceStatus.STOPPING
    if state["status"] == "exited" or not is_alive:
        return InstanceStatus.EXITED
    return InstanceStatus.RUNNING if state["status"] == "running" else InstanceStatus.PENDING


def _failure(status: InstanceStatus, state: Mapping[str, Any]) -> StartFailure | None:
    if status is not InstanceStatus.EXITED:
        return None
    return StartFailure(state.get("failure") or StartFailure.CONTAINER_EXITED)


def _gone(provider_id: str) -> ProviderError:
    return ProviderError(ErrorKind.GONE, f"There is no local instance {provider_id!r}.")
