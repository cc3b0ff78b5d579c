"""The routing table: what the data plane knows of each endpoint, frozen.

A `Route` is written as a JSON document in the transaction that changes its facts (`publish`) and read by the gateways
and the dispatcher. The table is swapped whole by one assignment, so whoever reads it needs no lock. No Django here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Target:
    """An instance that serves (or, `is_draining`, finishes what it has); `address` is host:port."""

    instance_id: str
    address: str
    instance_type: str
    is_draining: bool


@dataclass(frozen=True)
class VariantRoute:
    """A variant's weight among the variants, and the instances that take its calls.

    While a deployment runs, two revisions may have a variant of this name; `share` of its calls is this one's.
    `config_name` is the endpoint configuration it comes from.
    """

    name: str
    weight: float
    strategy: str
    targets: tuple[Target, ...]
    share: float = 1.0
    config_name: str = ""

    @property
    def open_targets(self) -> tuple[Target, ...]:
        """The instances that take new calls."""
        return tuple(target for target in self.targets if not target.is_draining)


@dataclass(frozen=True)
class AsyncInference:
    """Where an asynchronous endpoint's answers go; `max_concurrent` calls at once on each instance, None = default."""

    output_path: str
    failure_path: str
    max_concurrent: int | None


@dataclass(frozen=True)
class Route:
    """One endpoint."""

    endpoint_id: str
    account_id: str
    endpoint_name: str
    status: str
    is_serving: bool
    async_inference: AsyncInference | None
    variants: tuple[VariantRoute, ...]


@dataclass(frozen=True)
class Table:
    """All endpoints, by (account, name)."""

    routes: Mapping[tuple[str, str], Route] = field(default_factory=dict)

    @classmethod
    def of(cls, routes: Iterable[Route]) -> "Table":
        """The table of these routes."""
        return cls({(route.account_id, route.endpoint_name): route for route in routes})

    def find(self, account_id: str, endpoint_name: str) -> Route | None:
        """The named endpoint of this account."""
        return self.routes.get((account_id, endpoint_name))


def encode(route: Route) -> dict[str, Any]:
    """The route as a JSON document."""
    document = asdict(route)
    document["variants"] = [{**variant, "targets": list(variant["targets"])} for variant in document["variants"]]
    return document


def decode(document: Mapping[str, Any]) -> Route:
    """The route in a JSON document."""
    asynchronous = document["async_inference"]
    return Route(
        endpoint_id=document["endpoint_id"],
        account_id=document["account_id"],
        endpoint_name=document["endpoint_name"],
        status=document["status"],
        is_serving=document["is_serving"],
        async_inference=AsyncInference(**asynchronous) if asynchronous else None,
        variants=tuple(
            VariantRoute(
                variant["name"],
                variant["weight"],
                variant["strategy"],
                tuple(Target(**target) for target in variant["targets"]),
                variant.get("share", 1.0),
                variant.get("config_name", ""),
            )
            for variant in document["variants"]
        ),
    )
