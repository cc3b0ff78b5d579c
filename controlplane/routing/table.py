"""The routing table: what the data plane knows of each endpoint, frozen.

A `Route` is written as a JSON document in the transaction that changes its facts (`publish`) and read by the gateways
and the dispatcher. The table is swapped whole by one assignment, so whoever reads it needs no lock. No Django here.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

CHANNEL = "headrace_routing"
"""On which the database tells the id of an endpoint whose document changed."""


@dataclass(frozen=True)
class Target:
    """An instance that serves (or, `is_draining`, finishes what it has); `address` is host:port."""

    instance_id: str
    address: str
    instance_type: str
    is_draining: bool


@dataclass(frozen=True)
class PrefixAware:
    """How much of a prompt decides where its call goes (bytes of a body, characters of a chat's text), and at how many
    calls under way an instance passes further ones on."""

    prefix_length: int
    concurrency_threshold: int


@dataclass(frozen=True)
class Capture:
    """What is kept of a variant's calls: `percentage` of them, at the s3:// `destination`. A side whose media type is
    among the CSV or JSON types is kept as text."""

    destination: str
    percentage: int
    takes_input: bool
    takes_output: bool
    csv_types: tuple[str, ...] = ()
    json_types: tuple[str, ...] = ()
    kms_key_id: str = ""


@dataclass(frozen=True)
class VariantRoute:
    """A variant's weight among the variants, and the instances that take its calls.

    While a deployment runs, two revisions may have a variant of this name; `share` of its calls is this one's.
    `config_name` is the endpoint configuration it comes from. `prefix_aware` belongs to the strategy PREFIX_AWARE.
    """

    name: str
    weight: float
    strategy: str
    targets: tuple[Target, ...]
    share: float = 1.0
    config_name: str = ""
    prefix_aware: PrefixAware | None = None
    capture: Capture | None = None

    @property
    def open_targets(self) -> tuple[Target, ...]:
        """The instances that take new calls."""
        return tuple(target for target in self.targets if not target.is_draining)


@dataclass(frozen=True)
class AsyncInference:
    """Where an asynchronous endpoint's answers go; `max_concurrent` calls at once on each instance, None = default.

    `delivery` is what else is said of outcomes, JSON: each request keeps it as it is when the request is accepted (see
    `invocations.delivery`).
    """

    output_path: str
    failure_path: str
    max_concurrent: int | None
    delivery: str = "{}"


@dataclass(frozen=True)
class Route:
    """One endpoint. Its `shadows` get copies of calls, and never a caller's own."""

    endpoint_id: str
    account_id: str
    endpoint_name: str
    status: str
    is_serving: bool
    async_inference: AsyncInference | None
    variants: tuple[VariantRoute, ...]
    shadows: tuple[VariantRoute, ...] = ()


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
    document: dict[str, Any] = json.loads(json.dumps(asdict(route)))
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
        variants=tuple(_variant(variant) for variant in document["variants"]),
        shadows=tuple(_variant(variant) for variant in document.get("shadows", ())),
    )


def _variant(document: Mapping[str, Any]) -> VariantRoute:
    return VariantRoute(
        document["name"],
        document["weight"],
        document["strategy"],
        tuple(Target(**target) for target in document["targets"]),
        document.get("share", 1.0),
        document.get("config_name", ""),
        PrefixAware(**settings) if (settings := document.get("prefix_aware")) else None,
        _capture(document.get("capture")),
    )


def _capture(document: Mapping[str, Any] | None) -> Capture | None:
    if document is None:
        return None
    types = {name: tuple(document[name]) for name in ("csv_types", "json_types")}
    return Capture(**{**document, **types})
