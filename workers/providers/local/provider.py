"""The provider itself: slots, launches by token, and what became of them."""

import fcntl
import hashlib
import json
import os
import select
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from controlplane.core import clock
from workers.providers.base import (
    CALL_TIMEOUT_SECONDS,
    Health,
    InstanceStatus,
    LaunchRequest,
    ProviderInstance,
    StartFailure,
)
from workers.providers.errors import ErrorKind, ProviderError
from workers.providers.local import processes
from workers.providers.local.processes import Directory
from workers.providers.local.runtimes import command_for, read_runtimes
from workers.providers.ping import ping

ZONE = "local"
DEFAULT_SLOTS = 4
"""Slots of every type where HEADRACE_LOCAL_CAPACITY says nothing at all; once it names types, others have none."""

TERM_GRACE_SECONDS = 30.0
"""The container contract: SIGTERM, then 30 s, then SIGKILL."""

_SHIM = str(Path(__file__).with_name("shim.py"))
_FETCH = str(Path(__file__).with_name("model_data.py"))
_STORE_VARIABLES = ("HEADRACE_S3_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "PATH")
_STATUS = {"pending": InstanceStatus.PENDING, "running": InstanceStatus.RUNNING, "exited": InstanceStatus.EXITED}


class LocalProvider:
    """Instances as processes of this host; see `workers.providers.base.Provider` for the contract."""

    name = "local"
    zones: tuple[str, ...] = (ZONE,)
    consistency_window_seconds = 0.0

    def __init__(self, data_dir: Path, env: Mapping[str, str], grace_seconds: float = TERM_GRACE_SECONDS) -> None:
        self._data_dir = data_dir
        self._env = env
        self._runtimes = read_runtimes(env)
        self._default_capacity = json.loads(env.get("HEADRACE_LOCAL_CAPACITY") or "null")
        self._grace_seconds = grace_seconds

    def launch(self, request: LaunchRequest) -> ProviderInstance:
        command = command_for(self._runtimes, request.image)
        with self._host_lock():
            directory = Directory(processes.root(self._data_dir) / _id(request.token))
            known = self._instance(directory)
            if known is not None:
                return known
            self._take_slot(request.instance_type)
            self._write_spec(directory, request, command)
            self._start_shim(directory)
            started = self._instance(directory)
        if started is None:
            raise ProviderError(ErrorKind.AMBIGUOUS, "The instance's shim did not start; see the log of the worker.")
        return started

    def find(self, token: str) -> ProviderInstance | None:
        return self.describe([_id(token)]).get(_id(token))

    def describe(self, provider_ids: Collection[str]) -> dict[str, ProviderInstance]:
        found = (processes.directory(self._data_dir, provider_id) for provider_id in provider_ids)
        instances = (self._instance(directory) for directory in found if directory is not None)
        return {instance.provider_id: instance for instance in instances if instance is not None}

    def terminate(self, provider_id: str) -> None:
        directory = processes.directory(self._data_dir, provider_id)
        if directory is None or directory.spec is None:
            raise ProviderError(ErrorKind.GONE, f"There is no local instance {provider_id!r}.")
        directory.ask_for_end()

    def list_owned(self, owner: str) -> list[ProviderInstance]:
        instances = (self._instance(directory) for directory in processes.directories(self._data_dir))
        return [instance for instance in instances if instance is not None and instance.owner == owner]

    def ping(self, instance: ProviderInstance, timeout_seconds: float) -> Health:
        return ping(instance.address, timeout_seconds)

    def capacity(self, instance_type: str) -> int:
        """How many instances of this type may live at once."""
        chosen = self._chosen_capacity()
        if instance_type in chosen:
            return int(chosen[instance_type])
        if self._default_capacity is None:
            return DEFAULT_SLOTS
        return int(self._default_capacity.get(instance_type, 0))

    def set_capacity(self, instance_type: str, slots: int) -> None:
        """Rehearse a shortage or its end; instances that live already are left alone."""
        with self._host_lock():
            chosen = {**self._chosen_capacity(), instance_type: slots}
            temporary = self._capacity_file.with_suffix(".tmp")
            temporary.write_text(json.dumps(chosen))
            temporary.replace(self._capacity_file)

    @property
    def _capacity_file(self) -> Path:
        return self._data_dir / "local" / "capacity.json"

    def _chosen_capacity(self) -> dict[str, int]:
        try:
            chosen: dict[str, int] = json.loads(self._capacity_file.read_text())
        except FileNotFoundError:
            return {}
        return chosen

    @contextmanager
    def _host_lock(self) -> Iterator[None]:
        """One launch at a time on this host, across all processes."""
        processes.root(self._data_dir).mkdir(parents=True, exist_ok=True)
        with open(self._data_dir / "local" / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _take_slot(self, instance_type: str) -> None:
        slots = self.capacity(instance_type)
        taken = sum(
            spec["instance_type"] == instance_type
            for directory in processes.directories(self._data_dir)
            if directory.is_alive and (spec := directory.spec) is not None
        )
        if taken >= slots:
            raise ProviderError(
                ErrorKind.CAPACITY,
                f"Insufficient capacity: {taken} of {slots} slots for {instance_type} are taken on this host.",
            )

    def _write_spec(self, directory: Directory, request: LaunchRequest, command: list[str]) -> None:
        """Write down what is to run before anything runs."""
        directory.remove()
        model_dir = directory.path / "model"
        model_dir.mkdir(parents=True)
        url = request.model_data_url
        spec: dict[str, Any] = {
            "token": request.token,
            "owner": request.owner,
            "instance_type": request.instance_type,
            "zone": request.zone,
            "launched_at": clock.now().isoformat(),
            "command": [part.replace("{model_dir}", str(model_dir)) for part in command],
            "environment": {
                "PATH": self._env.get("PATH", os.defpath),
                "HOME": str(directory.path),
                **request.environment,
            },
            "grace_seconds": self._grace_seconds,
            "fetch_command": [sys.executable, _FETCH, url, str(model_dir)] if url else [],
            "fetch_environment": {name: self._env[name] for name in _STORE_VARIABLES if name in self._env},
            "fetch_timeout_seconds": request.model_data_download_timeout_seconds,
        }
        spec_file = directory.path / "spec.json"
        spec_file.touch(mode=0o600)
        spec_file.write_text(json.dumps(spec))

    def _start_shim(self, directory: Directory) -> None:
        """Start the shim and wait until it holds its lock; it detaches, so that no zombie stays with this process."""
        ready, write_end = os.pipe()
        try:
            subprocess.run(
                [sys.executable, "-S", "-E", _SHIM, str(directory.path), str(write_end)],
                pass_fds=[write_end],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
                timeout=CALL_TIMEOUT_SECONDS,
            )
            os.close(write_end)
            write_end = -1
            select.select([ready], [], [], CALL_TIMEOUT_SECONDS)
        finally:
            os.close(ready)
            if write_end >= 0:
                os.close(write_end)

    def _instance(self, directory: Directory) -> ProviderInstance | None:
        """The instance in this directory, None when it never started or has ended as it was asked to."""
        is_alive, spec, state = directory.is_alive, directory.spec, directory.state
        if spec is None or state is None:
            return None
        if directory.is_stopping and not is_alive:
            directory.remove()
            return None
        status = _STATUS[state["status"]] if is_alive else InstanceStatus.EXITED
        if directory.is_stopping:
            status = InstanceStatus.STOPPING
        was_killed = status is InstanceStatus.EXITED and state["status"] != "exited"
        failure = StartFailure.CONTAINER_EXITED if was_killed else state.get("failure")
        return ProviderInstance(
            provider_id=directory.id,
            token=spec["token"],
            owner=spec["owner"],
            instance_type=spec["instance_type"],
            zone=spec["zone"],
            status=status,
            launched_at=datetime.fromisoformat(spec["launched_at"]),
            address=f"127.0.0.1:{state['port']}" if status is InstanceStatus.RUNNING else "",
            detail="the process that looks after it was killed" if was_killed else state.get("detail", ""),
            failure=StartFailure(failure) if failure else None,
        )


def _id(token: str) -> str:
    """A directory name that nothing in the token can steer."""
    return f"local-{hashlib.sha256(token.encode()).hexdigest()[:24]}"
