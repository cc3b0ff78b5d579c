"""The statements that claim and lease. Every write of a leased row is guarded by the lease's token."""

from controlplane.invocations import columns
from controlplane.invocations.line import Statement
from controlplane.invocations.steps import Step
from controlplane.invocations.steps_sql import appended, one_step
from workers.invocations.plan import DEFAULT_CONCURRENCY

COLUMNS = """q.id, q.account_id, q.endpoint_id, q.endpoint_name, q.variant_name, q.content_type, q.accept,
    q.custom_attributes, q.inference_id, q.input_location, q.attempts, q.accepted_at,
    coalesce(q.redriven_at, q.accepted_at), q.expires_at, q.timeout_seconds, q.output_location, q.failure_location,
    q.delivery, q.is_storing, q.outcome_text, q.failure_kind, q.instance_id, q.lease_token"""
"""In the order of `Leased`."""

# One step of the index for each endpoint that has something queued, however long its queue is.
WAITING = """
WITH RECURSIVE waiting AS (
  (SELECT endpoint_id FROM invocations_asyncinvocation WHERE state = 'queued' ORDER BY endpoint_id LIMIT 1)
  UNION ALL
  SELECT (SELECT endpoint_id FROM invocations_asyncinvocation
          WHERE state = 'queued' AND endpoint_id > waiting.endpoint_id ORDER BY endpoint_id LIMIT 1)
  FROM waiting WHERE waiting.endpoint_id IS NOT NULL
)
SELECT waiting.endpoint_id, endpoint.phase
FROM waiting
LEFT JOIN endpoints_endpoint endpoint ON endpoint.id = waiting.endpoint_id
WHERE waiting.endpoint_id IS NOT NULL
"""

# Claims of one endpoint take turns. The lock comes before the claim, in a statement of its own: a statement sees what was
# committed when it began. Sent together, they are one transaction and one round trip. Nobody waits for the disk: a claim
# that a crash of the database forgets is a request that is queued, and called once more, which at least once allows. Every
# commit after it is waited for, and what comes before a commit is on the disk with it. Nor does one wait for long for its
# turn: who has it may be a worker that was stopped in the middle of its answer, and there are other endpoints.
TURN_SECONDS = 2

TAKE_TURN = Statement(
    "take_turn",
    f"SELECT set_config('synchronous_commit', 'off', true), set_config('lock_timeout', '{TURN_SECONDS}s', true),"
    " pg_advisory_xact_lock(hashtextextended(%(endpoint_id)s::uuid::text, 0))",
    endpoint_id=columns.uuid,
)

CLAIM_LIMIT = 64
"""Of one claim; a constant of the statement, so that its plan is one for few rows."""

_LEASED = f"""
SET state = 'running', attempts = attempts + 1, instance_id = {{instance}}, variant_name = {{variant}},
    lease_token = %(token)s::uuid, lease_expires_at = %(lease_expires_at)s::timestamptz,
    {appended(1, one_step(Step.CLAIMED, "attempts + 1", "{instance}::text"))}
"""

# The routing document says which instances there are, in the moment of the claim; their free slots are those that nothing
# runs in. The emptiest instance comes first, so that work spreads; where variants, or two revisions of one, share the calls
# the order is a random one in which each comes first as often as its weight and its share say: a weighted shuffle, the
# smallest of exponential draws with these rates (Efraimidis and Spirakis 2006), by their logarithms, since weights may be
# as large and as small as numbers are. No free slot is left empty for the sake of the weights, but those of a variant of
# weight 0 are, as long as another has some. Instances that are shunned, since they could not be reached (see `reach`), have
# slots only where no other instance is open, and those that failed last come last.
_CLAIM = f"""
WITH route AS (
  SELECT revision, document, coalesce((document -> 'async_inference' ->> 'max_concurrent')::int, {DEFAULT_CONCURRENCY})
    AS most, (SELECT max(coalesce((it ->> 'weight')::float, 1)) FROM jsonb_array_elements(document -> 'variants') AS it
              WHERE coalesce((it ->> 'share')::float, 1) > 0) AS heaviest
  FROM routing_routingsnapshot WHERE endpoint_id = %(endpoint_id)s::uuid AND (document ->> 'is_serving')::boolean
), target AS (
  SELECT (target.it ->> 'instance_id')::uuid AS instance_id, variant.it ->> 'name' AS variant, revision, most,
         coalesce((variant.it ->> 'share')::float, 1) AS share, weight, heaviest,
         row_number() OVER (ORDER BY variant.place, target.place) AS place,
         count(*) OVER (PARTITION BY variant.place) AS of_variant,
         bool_or(coalesce((variant.it ->> 'share')::float, 1) < 1) OVER ()
           OR max(variant.place) FILTER (WHERE weight > 0) OVER () > min(variant.place) FILTER (WHERE weight > 0) OVER ()
           AS is_shared,
         array_position(%(shunned)s::uuid[], (target.it ->> 'instance_id')::uuid) AS shunned,
         bool_and(weight <= 0 AND heaviest > 0 OR (target.it ->> 'instance_id')::uuid = ANY (%(shunned)s::uuid[])) OVER ()
           AS all_shunned
  FROM route, jsonb_array_elements(document -> 'variants') WITH ORDINALITY AS variant (it, place),
    coalesce((variant.it ->> 'weight')::float, 1) AS weight,
    jsonb_array_elements(variant.it -> 'targets') WITH ORDINALITY AS target (it, place)
  WHERE coalesce((variant.it ->> 'share')::float, 1) > 0 AND NOT (target.it ->> 'is_draining')::boolean
), busy AS (
  SELECT instance_id, count(*) AS running FROM invocations_asyncinvocation
  WHERE state = 'running' AND endpoint_id = %(endpoint_id)s::uuid AND instance_id IS NOT NULL GROUP BY instance_id
), slot AS (
  SELECT instance_id, variant, revision, count(*) OVER () AS slots, row_number() OVER (
    ORDER BY shunned NULLS FIRST,
      CASE WHEN is_shared THEN ln(greatest(-ln(1 - random()), 1e-300)) + ln(of_variant) - ln(share)
        - CASE WHEN weight > 0 THEN ln(weight) ELSE 0 END ELSE level END, place) AS place
  FROM target LEFT JOIN busy USING (instance_id)
    CROSS JOIN LATERAL generate_series(coalesce(running, 0), least(most, coalesce(running, 0) + {CLAIM_LIMIT} + 1) - 1)
      AS level
  WHERE (shunned IS NULL OR all_shunned) AND (weight > 0 OR heaviest <= 0)
  ORDER BY place LIMIT {CLAIM_LIMIT}
), due AS (
  SELECT id, row_number() OVER (ORDER BY due_at, accepted_at) AS place FROM (
    SELECT id, due_at, accepted_at FROM invocations_asyncinvocation
    WHERE endpoint_id = %(endpoint_id)s::uuid AND state = 'queued' AND due_at <= %(now)s::timestamptz
      AND expires_at > %(now)s::timestamptz AND failure_kind = ''
    ORDER BY due_at, accepted_at LIMIT {CLAIM_LIMIT}
  ) AS first
)
UPDATE invocations_asyncinvocation q
{_LEASED.format(instance="slot.instance_id", variant="slot.variant")}
FROM due JOIN slot USING (place) LEFT JOIN invocations_asyncpayload payload ON payload.invocation_id = due.id
WHERE place <= %(count)s::bigint AND q.id = due.id AND q.state = 'queued' AND q.failure_kind = ''
RETURNING {COLUMNS}, payload.body, slot.slots, slot.revision,
  CASE WHEN slot.revision <> %(known)s::bigint THEN (SELECT document FROM route) END
"""  # noqa: S608 - composed of this module's constants
CLAIM = Statement(
    "claim",
    _CLAIM,
    endpoint_id=columns.uuid,
    now=columns.moment,
    at=columns.text,
    token=columns.uuid,
    lease_expires_at=columns.moment,
    count=columns.long,
    known=columns.long,
    shunned=columns.uuids,
)

# The most usual claim where little is to do: a request that waits alone, and an instance that runs nothing, by the routing
# document that the claimer knows. It decides as CLAIM does, or claims nothing. How many other slots are free it does not
# look up: more than one, as far as the claimer has to know.
CLAIM_ALONE = Statement(
    "claim_alone",
    f"""
UPDATE invocations_asyncinvocation q
{_LEASED.format(instance="%(instance_id)s::uuid", variant="%(variant)s::varchar")}
FROM routing_routingsnapshot route
WHERE q.id = %(id)s::uuid AND q.state = 'queued' AND q.failure_kind = '' AND q.due_at <= %(now)s::timestamptz
  AND q.expires_at > %(now)s::timestamptz
  AND route.endpoint_id = %(endpoint_id)s::uuid AND route.revision = %(known)s::bigint
  AND NOT EXISTS (
    SELECT 1 FROM invocations_asyncinvocation
    WHERE state = 'running' AND endpoint_id = %(endpoint_id)s::uuid AND instance_id = %(instance_id)s::uuid)
  AND NOT EXISTS (
    SELECT 1 FROM invocations_asyncinvocation
    WHERE state = 'queued' AND endpoint_id = %(endpoint_id)s::uuid AND due_at <= %(now)s::timestamptz
      AND id <> %(id)s::uuid)
RETURNING {COLUMNS}, (SELECT body FROM invocations_asyncpayload WHERE invocation_id = q.id), 2, route.revision, NULL::jsonb
""",  # noqa: S608 - composed of this module's constants
    endpoint_id=columns.uuid,
    id=columns.uuid,
    instance_id=columns.uuid,
    variant=columns.text,
    known=columns.long,
    now=columns.moment,
    at=columns.text,
    token=columns.uuid,
    lease_expires_at=columns.moment,
)

# What never had an instance is counted at the endpoint's first variant.
_CLAIM_ENDED = f"""
UPDATE invocations_asyncinvocation q
SET state = 'running', attempts = attempts + 1, instance_id = NULL, lease_token = %(token)s,
    lease_expires_at = %(lease_expires_at)s,
    outcome_text = CASE WHEN failure_kind = '' THEN %(text)s ELSE outcome_text END,
    failure_kind = CASE WHEN failure_kind = '' THEN %(kind)s ELSE failure_kind END,
    variant_name = CASE WHEN variant_name <> '' THEN variant_name ELSE coalesce(
      (SELECT document -> 'variants' -> 0 ->> 'name' FROM routing_routingsnapshot snapshot
       WHERE snapshot.endpoint_id = q.endpoint_id), '') END,
    {appended(1, one_step(Step.CLAIMED, "attempts + 1", "''"))}
WHERE id IN (
  SELECT id FROM invocations_asyncinvocation
  WHERE state = 'queued' AND {{which}} ORDER BY {{order}} LIMIT %(count)s FOR UPDATE SKIP LOCKED
)
RETURNING {COLUMNS}
"""  # noqa: S608 - composed of this module's constants
CLAIM_EXPIRED = _CLAIM_ENDED.format(which="expires_at <= %(now)s AND failure_kind = ''", order="expires_at")
CLAIM_OF_ENDPOINT = _CLAIM_ENDED.format(which="endpoint_id = %(endpoint_id)s AND due_at <= %(now)s", order="due_at")
CLAIM_DECIDED = _CLAIM_ENDED.format(which="failure_kind <> '' AND due_at <= %(now)s", order="due_at")

BACK = f"""
UPDATE invocations_asyncinvocation
SET state = 'queued', due_at = %(now)s, lease_token = NULL, lease_expires_at = NULL, instance_id = NULL,
    outcome_text = CASE WHEN failure_kind = '' AND attempts >= %(limit)s THEN %(text)s ELSE outcome_text END,
    failure_kind = CASE WHEN failure_kind = '' AND attempts >= %(limit)s THEN %(kind)s ELSE failure_kind END,
    {appended(1, one_step(Step.RETRIED, "attempts", "%(text)s::text"))}
WHERE id IN (
  SELECT id FROM invocations_asyncinvocation
  WHERE state = 'running' AND {{which}} LIMIT %(count)s FOR UPDATE SKIP LOCKED
)
"""  # noqa: S608 - composed of this module's constants
RECLAIM = BACK.format(which="lease_expires_at <= %(now)s")


BEAT = """
INSERT INTO observability_heartbeat (role, process_id, seen_at) VALUES ('worker', %s, clock_timestamp())
ON CONFLICT (role, process_id) DO UPDATE SET seen_at = excluded.seen_at
RETURNING seen_at
"""
