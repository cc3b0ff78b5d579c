"""The contract between the fleet controller and a capacity provider.

One provider instance serves many threads at once. All calls block, take bounded time (`CALL_TIMEOUT_SECONDS`) and
either return or raise `ProviderError`. An instance's life, as the provider tells it:

    PENDING --> RUNNING --> STOPPING --> (gone: absent from describe and list)
       |           |            ^
       +-----------+-> EXITED --+

`RUNNING` means the machine (or process) runs and has an address; whether the model serves is asked by `/ping`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

CALL_TIMEOUT_SECONDS = 10.0


class InstanceStatus(StrEnum):
    """What the provider says of an instance; see the graph in the module docstring."""

    PENDING = "pending"
    RUNNING = "running"
    EXITED = "exited"
    STOPPING = "stopping"


@dataclass(frozen=True)
class LaunchRequest:
    """Everything needed to start one instance.

    `token` is the caller's idempotency token (at most 64 ASCII characters): two launches with one token are one
    launch. `owner` names the control plane that owns the instance, so that two of them can share a provider. `market` is
    one of the provider's `markets`.
    """

    token: str
    owner: str
    instance_type: str
    zone: str
    image: str
    environment: Mapping[str, str] = field(default_factory=dict)
    model_data_url: str = ""
    model_data_download_timeout_seconds: int = 1200
    labels: Mapping[str, str] = field(default_factory=dict)
    market: str = "on-demand"


@dataclass(frozen=True)
class ProviderInstance:
    """An instance as its provider knows it.

    `address` is `host:port` of the container's HTTP server once RUNNING, else empty. `detail` is one line for humans:
    an exit code, a last line of log. `failure` is set with EXITED and tells what went wrong in a word; None there means
    that the machine was taken away, which says nothing about the model. `notice` is one line for humans when the provider
    has announced the end of an instance that still runs, and `ends_at` the time it named, if it named one.
    """

    provider_id: str
    token: str
    owner: str
    instance_type: str
    zone: str
    status: InstanceStatus
    launched_at: datetime
    address: str = ""
    detail: str = ""
    failure: "StartFailure | None" = None
    notice: str = ""
    ends_at: datetime | None = None


class StartFailure(StrEnum):
    """Why an instance never got as far as answering, told apart because the user must mend different things."""

    MODEL_DATA = "model_data"
    CONTAINER_EXITED = "container_exited"


@dataclass(frozen=True)
class Health:
    """The answer to one `/ping`; `detail` is one line for humans."""

    is_healthy: bool
    detail: str = ""


class Provider(Protocol):
    """A source of instances."""

    name: str
    zones: tuple[str, ...]
    """Zones in which a launch can be asked for, most wanted first; at least one."""
    markets: tuple[str, ...]
    """What capacity can be bought as: `on-demand`, `spot`."""

    @property
    def consistency_window_seconds(self) -> float:
        """For how long after a launch call a listing may still miss the instance; 0 where listings are exact."""
        ...

    def launch(self, request: LaunchRequest) -> ProviderInstance:
        """Start one instance, or return the one that this token already started.

        Raises ProviderError of kind CAPACITY, QUOTA, THROTTLED, MISCONFIGURED or AMBIGUOUS.
        """
        ...

    def find(self, token: str) -> ProviderInstance | None:
        """The instance this token started, if the provider (still) knows it. Starts nothing."""
        ...

    def describe(self, provider_ids: Collection[str]) -> dict[str, ProviderInstance]:
        """The named instances by id; one that is missing from the answer is gone."""
        ...

    def terminate(self, provider_id: str) -> None:
        """Ask for the instance's end (SIGTERM, 30 s, SIGKILL). Returns once accepted; raises GONE if it is gone."""
        ...

    def list_owned(self, owner: str) -> list[ProviderInstance]:
        """Every instance of this owner, whatever its status."""
        ...

    def ping(self, instance: ProviderInstance, timeout_seconds: float) -> Health:
        """Ask the container's `GET /ping`; never raises for a sick container."""
        ...
