"""Old buckets are joined: after three hours those of one minute, of all sources, become one.

A busy metric set then takes a sixth of the room, or less where several gateways count. Periods below a minute have
nothing finer to read by then, as with the service this mirrors. Only one process joins at a time.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from controlplane.metrics.statistics import Aggregate, merged

FINE_SECONDS = 3 * 3600
MINUTE_SECONDS = 60
SOURCE = "joined"
BATCH = 2_000
"""Buckets that one round takes, and their minutes' others with them."""

_LOCK = 7_301_744_902
"""Any number does that nothing else locks."""

_TAKE = """
WITH minute AS (
  SELECT DISTINCT metric_set_id, date_trunc('minute', starts_at) AS starts_at FROM (
    SELECT metric_set_id, starts_at FROM metrics_metricbucket
    WHERE starts_at < %s AND source <> 'joined' ORDER BY starts_at LIMIT %s) AS oldest
)
DELETE FROM metrics_metricbucket AS bucket USING minute
WHERE bucket.metric_set_id = minute.metric_set_id
  AND bucket.starts_at >= minute.starts_at AND bucket.starts_at < minute.starts_at + interval '1 minute'
RETURNING bucket.metric_set_id, extract(epoch FROM minute.starts_at)::bigint, bucket.document
"""
_PUT = """
INSERT INTO metrics_metricbucket (metric_set_id, starts_at, source, document)
SELECT id, to_timestamp(starts_at), 'joined', document
FROM jsonb_to_recordset(%s::jsonb) AS row (id uuid, starts_at double precision, document jsonb)
"""


def join(now: datetime) -> int:
    """Join a batch of what is old enough; returns how many buckets went into others."""
    seconds = (now - timedelta(seconds=FINE_SECONDS)).timestamp() // MINUTE_SECONDS * MINUTE_SECONDS
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_LOCK])
        if not cursor.fetchone()[0]:
            return 0
        cursor.execute(_TAKE, [datetime.fromtimestamp(seconds, UTC), BATCH])
        taken = cursor.fetchall()
        cursor.execute(_PUT, [json.dumps(_joined(taken))])
    return len(taken)


def _joined(taken: Iterable[tuple[UUID, int, Any]]) -> list[dict[str, object]]:
    minutes: dict[tuple[UUID, int], list[Mapping[str, Any]]] = defaultdict(list)
    for set_id, starts_at, document in taken:
        minutes[set_id, starts_at].append(json.loads(document) if isinstance(document, str) else document)
    return [
        {"id": str(set_id), "starts_at": starts_at, "document": joined(documents)}
        for (set_id, starts_at), documents in minutes.items()
    ]


def joined(documents: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, list[Any]]]:
    """Documents of buckets as one: metric name -> unit -> encoded aggregate."""
    parts: dict[tuple[str, str], list[Aggregate]] = defaultdict(list)
    for document in documents:
        for name, units in document.items():
            for unit, encoded in units.items():
                parts[name, unit].append(Aggregate.decode(encoded))
    found: dict[str, dict[str, list[Any]]] = defaultdict(dict)
    for (name, unit), aggregates in parts.items():
        together = merged(aggregates)
        if together is not None:
            found[name][unit] = together.encode()
    return dict(found)
