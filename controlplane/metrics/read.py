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
SELECT wanted.place, extract(epoch FROM bucket.starts_at)::bigint, bucket.document -> wanted.name
FROM unnest(%s::uuid[], %s::varchar[], %s::timestamptz[], %s::timestamptz[])
  WITH ORDINALITY AS wanted (set_id, name, since, until, place)
JOIN metrics_metricbucket AS bucket ON bucket.metric_set_id = wanted.set_id
  AND bucket.starts_at >= wanted.since AND bucket.starts_at < wanted.until AND bucket.document ? wanted.name
"""


@dataclass(frozen=True)
class Wanted:
    """One metric from `since` (inclusive) to `until` (exclusive); of one unit, or of all where it is None."""

    set_id: UUID
    name: str
    unit: str | None
    since: datetime
    until: datetime


@dataclass(frozen=True)
class Found:
    """What was counted: bucket start (seconds since 1970) -> aggregate, and the units it came in."""

    buckets: Mapping[int, Aggregate]
    units: frozenset[str]


def read(wanted: Sequence[Wanted]) -> list[Found]:
    """What is found for each, in one query."""
    parts: list[dict[int, list[Aggregate]]] = [{} for _ in wanted]
    units: list[set[str]] = [set() for _ in wanted]
    for place, starts_at, document in _rows(wanted):
        asked = wanted[place - 1].unit
        for unit, encoded in document.items():
            if asked in (None, unit):
                parts[place - 1].setdefault(starts_at, []).append(Aggregate.decode(encoded))
                units[place - 1].add(unit)
    return [Found(_merged(found), frozenset(of)) for found, of in zip(parts, units, strict=True)]


def _rows(wanted: Sequence[Wanted]) -> list[tuple[int, int, dict[str, list[Any]]]]:
    columns = [[getattr(each, name) for each in wanted] for name in ("set_id", "name", "since", "until")]
    with connection.cursor() as cursor:
        cursor.execute(_READ, columns)
        return [(place, start, _document(document)) for place, start, document in cursor.fetchall()]


def _document(document: Any) -> Any:
    """Django's connections hand JSON on as text."""
    return json.loads(document) if isinstance(document, str) else document


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
