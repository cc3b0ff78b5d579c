"""Writing buckets: one statement for all of them, plain SQL. No Django here: the gateways write with it too.

A row holds absolute values under (metric set, start, source), so writing it again changes nothing. A metric set is made
known with its first row, and its `seen_at` refreshed now and then; the rows of those known take no lock that two writers
could fight over.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controlplane.metrics.series import MetricSetKey
from controlplane.metrics.statistics import Aggregate

Metrics = Mapping[str, Mapping[str, Aggregate]]
"""Metric name -> unit -> what was counted."""

WRITE = """
WITH row AS (
  SELECT * FROM jsonb_to_recordset(%s::jsonb) AS row (
    id uuid, account_id varchar, namespace varchar, dimensions jsonb, starts_at double precision, source varchar,
    document jsonb)
), metric_set AS (
  SELECT id, account_id, namespace, dimensions, array_agg(DISTINCT name::varchar ORDER BY name::varchar) AS names
  FROM row, jsonb_object_keys(document) AS name GROUP BY id, account_id, namespace, dimensions
), known AS (
  INSERT INTO metrics_metricset (id, account_id, namespace, dimensions, names, seen_at)
  SELECT id, account_id, namespace, dimensions, names, clock_timestamp() FROM metric_set
  WHERE NOT EXISTS (
    SELECT FROM metrics_metricset AS kept
    WHERE kept.id = metric_set.id AND kept.names @> metric_set.names
      AND kept.seen_at > clock_timestamp() - interval '10 minutes')
  ORDER BY id
  ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at,
    names = ARRAY(SELECT DISTINCT unnest(metrics_metricset.names || excluded.names) ORDER BY 1)
)
INSERT INTO metrics_metricbucket (metric_set_id, starts_at, source, document)
SELECT id, to_timestamp(starts_at), source, document FROM row
ON CONFLICT (metric_set_id, starts_at, source) DO UPDATE SET document = excluded.document
"""
"""Takes one parameter: `rows` of the buckets."""


@dataclass(frozen=True)
class Bucket:
    """What `source` counted for a metric set in the ten seconds from `starts_at` (seconds since 1970)."""

    key: MetricSetKey
    starts_at: int
    source: str
    metrics: Metrics


def rows(buckets: Iterable[Bucket]) -> str:
    """The parameter of WRITE, JSON; no two buckets may have key, start and source in common."""
    return json.dumps([_row(bucket) for bucket in buckets], separators=(",", ":"), allow_nan=False)


def _row(bucket: Bucket) -> dict[str, object]:
    document = {
        name: {unit: aggregate.encode() for unit, aggregate in units.items()} for name, units in bucket.metrics.items()
    }
    return {
        "id": str(bucket.key.set_id),
        "account_id": bucket.key.account_id,
        "namespace": bucket.key.namespace,
        "dimensions": dict(bucket.key.dimensions),
        "starts_at": bucket.starts_at,
        "source": bucket.source,
        "document": document,
    }
