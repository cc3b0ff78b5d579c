"""Reading buckets: what was counted for some metrics in some stretches of time, sources and units added up."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from controlplane.metrics.statistics import Aggregate, merged

_READ = """
SELECT wanted.place, extract(epoch FROM bucket.starts_at)::bigint, part.unit,
  (part.value -> 0)::float8, (part.value -> 1)::float8, (part.value -> 2)::float8, (part.value -> 3)::float8,
  CASE WHEN wanted.has_bins THEN part.value -> 4 END
FROM unnest(%s::uuid[], %s::varchar[], %s::varchar[], %s::timestamptz[], %s::timestamptz[], %s::boolean[])
  WITH ORDINALITY AS wanted (set_id, name, unit, since, until, has_bins, place)
JOIN metrics_metricbucket AS bucket ON bucket.metric_set_id = wanted.set_id
  AND bucket.starts_at >= wanted.since AND bucket.starts_at < wanted.until
CROSS JOIN LATERAL jsonb_each(bucket.document -> wanted.name) AS part (unit, value)
WHERE wanted.unit IS NULL OR part.unit = wanted.unit
"""


@dataclass(frozen=True)
class Wanted:
    """One metric from `since` (inclusive) to `until` (exclusive); of one unit, or of all where it is None.

    Only percentiles need the bins, which are the bulk of what is stored.
    """

    set_id: UUID
    name: str
    unit: str | None
    since: datetime
    until: datetime
    has_bins: bool = True


@dataclass(frozen=True)
class Found:
    """What was counted: bucket start (seconds since 1970) -> aggregate, and the units it came in."""

    buckets: Mapping[int, Aggregate]
    units: frozenset[str]


def read(wanted: Sequence[Wanted]) -> list[Found]:
    """What is found for each, in one query."""
    parts: list[dict[int, list[Aggregate]]] = [{} for _ in wanted]
    units: list[set[str]] = [set() for _ in wanted]
    for place, starts_at, unit, count, total, low, high, bins in _rows(wanted):
        parts[place - 1].setdefault(starts_at, []).append(Aggregate(count, total, low, high, _bins(bins)))
        units[place - 1].add(unit)
    return [Found(_merged(found), frozenset(of)) for found, of in zip(parts, units, strict=True)]


def _rows(wanted: Sequence[Wanted]) -> list[tuple[Any, ...]]:
    names = ("set_id", "name", "unit", "since", "until", "has_bins")
    with connection.cursor() as cursor:
        cursor.execute(_READ, [[getattr(each, name) for each in wanted] for name in names])
        found: list[tuple[Any, ...]] = cursor.fetchall()
    return found


def _bins(document: Any) -> dict[int, float] | None:
    """The bins in a document; Django's connections hand JSON on as text."""
    found = json.loads(document) if isinstance(document, str) else document
    return None if found is None else {int(key): count for key, count in found.items()}


def _merged(parts: Mapping[int, Iterable[Aggregate]]) -> dict[int, Aggregate]:
    added = ((start, merged(found)) for start, found in parts.items())
    return {start: aggregate for start, aggregate in added if aggregate is not None}


def windows(buckets: Mapping[int, Aggregate], newest_end: int, seconds: int, count: int) -> list[Aggregate | None]:
    """What was counted in each of `count` stretches of `seconds` that end with `newest_end`, oldest first."""
    parts: list[list[Aggregate]] = [[] for _ in range(count)]
    for start, aggregate in buckets.items():
        place = (newest_end - 1 - start) // seconds
        if 0 <= place < count:
            parts[count - 1 - place].append(aggregate)
    return [merged(found) for found in parts]
