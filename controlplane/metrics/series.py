"""Which metric: an account's namespace and dimensions, and the id that everybody derives from them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID, uuid5

BUCKET_SECONDS = 10
"""The finest resolution kept; periods are multiples of it."""

OWN_NAMESPACE = "AWS/SageMaker"
OWN_PREFIX = "AWS/"
"""Namespaces that only Headrace itself writes."""

_SPACE = UUID("6f0e8a52-2f7c-4a52-9a4f-7d7f6c1f3f6b")
"""Any fixed value does; another one would orphan whatever is stored."""


@dataclass(frozen=True)
class MetricSetKey:
    """An account's namespace and dimensions (name -> value): what the metrics that are counted together share."""

    account_id: str
    namespace: str
    dimensions: Mapping[str, str]

    @property
    def set_id(self) -> UUID:
        """A hash of the three; the order of the dimensions plays no part."""
        named = [self.account_id, self.namespace, sorted(self.dimensions.items())]
        return uuid5(_SPACE, json.dumps(named, separators=(",", ":")))


def bucket_start(moment_seconds: float) -> int:
    """The start of the bucket that holds a moment; both in seconds since 1970."""
    return int(moment_seconds // BUCKET_SECONDS) * BUCKET_SECONDS
