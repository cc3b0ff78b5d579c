"""The statements of the queue. Every write of a leased row is guarded by the lease's token.

A step of the timeline is appended by the statement that makes it true. `appended(n)` takes the parameter `steps`, JSON of
n steps; a timeline that has reached its limit first loses as many from its middle.
"""

from controlplane.invocations.steps import KEPT_FIRST, LIMIT, Step


def appended(count: int, steps: str = "%(steps)s::jsonb") -> str:
    """The assignment that appends `count` steps to the timeline."""
    shortened = "timeline" + f" - {KEPT_FIRST}" * count
    return f"timeline = (CASE WHEN jsonb_array_length(timeline) >= {LIMIT} THEN {shortened} ELSE timeline END) || {steps}"


COLUMNS = """q.id, q.account_id, q.endpoint_id, q.endpoint_name, q.variant_name, q.content_type, q.accept,
    q.custom_attributes, q.inference_id, q.input_location, q.attempts, q.accepted_at, q.expires_at, q.timeout_seconds,
    q.output_location, q.failure_location, q.delivery, q.is_storing, q.outcome_text, q.failure_kind, q.instance_id,
    q.lease_token"""

# One step of the index for each endpoint that has something queued, however long its queue is.
WAITING = """
WITH RECURSIVE waiting AS (
  (SELECT endpoint_id FROM invocations_asyncinvocation WHERE state = 'queued' ORDER BY endpoint_id LIMIT 1)
  UNION ALL
  SELECT (SELECT endpoint_id FROM invocations_asyncinvocation
          WHERE state = 'queued' AND endpoint_id > waiting.endpoint_id ORDER BY endpoint_id LIMIT 1)
  FROM waiting WHERE waiting.endpoint_id IS NOT NULL
)
SELECT waiting.endpoint_id, endpoint.phase, snapshot.document
FROM waiting
LEFT JOIN endpoints_endpoint endpoint ON endpoint.id = waiting.endpoint_id
LEFT JOIN routing_routingsnapshot snapshot ON snapshot.endpoint_id = waiting.endpoint_id
WHERE waiting.endpoint_id IS NOT NULL
"""

RUNNING = """
SELECT instance_id, count(*) FROM invocations_asyncinvocation
WHERE state = 'running' AND endpoint_id = %(endpoint_id)s AND instance_id IS NOT NULL GROUP BY instance_id
"""

_CLAIMED = (
    f"jsonb_build_array(jsonb_build_array(%(at)s::text, '{Step.CLAIMED}', attempts + 1, coalesce({{where}}::text, '')))"
)

# Claims of one endpoint take turns. The lock comes before the count, in a statement of its own: a statement sees what was
# committed when it began. What is sent together costs one round trip. Nobody waits for the disk: a claim that a crash of
# the database forgets is a request that is queued, and called once more, which at least once allows. Every commit after it
# is waited for, and what comes before a commit is on the disk with it.
BEGIN_CLAIM = f"""
BEGIN; SET LOCAL synchronous_commit TO off; SELECT pg_advisory_xact_lock(hashtextextended(%(name)s, 0)); {RUNNING}
"""

CLAIM = f"""
WITH due AS (
  SELECT id, row_number() OVER (ORDER BY due_at, accepted_at) AS place FROM (
    SELECT id, due_at, accepted_at FROM invocations_asyncinvocation
    WHERE endpoint_id = %(endpoint_id)s AND state = 'queued' AND due_at <= %(now)s AND expires_at > %(now)s
      AND failure_kind = ''
    ORDER BY due_at, accepted_at LIMIT %(count)s FOR UPDATE SKIP LOCKED
  ) AS locked
), slot AS (
  SELECT instance_id, variant, place
  FROM unnest(%(instances)s::uuid[], %(variants)s::varchar[]) WITH ORDINALITY AS slot (instance_id, variant, place)
)
UPDATE invocations_asyncinvocation q
SET state = 'running', attempts = attempts + 1, instance_id = slot.instance_id, variant_name = slot.variant,
    lease_token = %(token)s, lease_expires_at = %(lease_expires_at)s,
    {appended(1, _CLAIMED.format(where="slot.instance_id"))}
FROM due JOIN slot USING (place) LEFT JOIN invocations_asyncpayload payload ON payload.invocation_id = due.id
WHERE q.id = due.id
RETURNING {COLUMNS}, payload.body
"""  # noqa: S608 - composed of this module's constants

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
    {appended(1, _CLAIMED.format(where="''"))}
WHERE id IN (
  SELECT id FROM invocations_asyncinvocation
  WHERE state = 'queued' AND {{which}} ORDER BY {{order}} LIMIT %(count)s FOR UPDATE SKIP LOCKED
)
RETURNING {COLUMNS}
"""  # noqa: S608 - composed of this module's constants
CLAIM_EXPIRED = _CLAIM_ENDED.format(which="expires_at <= %(now)s AND failure_kind = ''", order="expires_at")
CLAIM_OF_ENDPOINT = _CLAIM_ENDED.format(which="endpoint_id = %(endpoint_id)s AND due_at <= %(now)s", order="due_at")
CLAIM_DECIDED = _CLAIM_ENDED.format(which="failure_kind <> '' AND due_at <= %(now)s", order="due_at")

RECLAIM = f"""
UPDATE invocations_asyncinvocation
SET state = 'queued', due_at = %(now)s, lease_token = NULL, lease_expires_at = NULL, instance_id = NULL,
    outcome_text = CASE WHEN failure_kind = '' AND attempts >= %(limit)s THEN %(text)s ELSE outcome_text END,
    failure_kind = CASE WHEN failure_kind = '' AND attempts >= %(limit)s THEN %(kind)s ELSE failure_kind END,
    {appended(1, f"jsonb_build_array(jsonb_build_array(%(at)s::text, '{Step.RETRIED}', attempts, %(text)s::text))")}
WHERE id IN (
  SELECT id FROM invocations_asyncinvocation
  WHERE state = 'running' AND lease_expires_at <= %(now)s LIMIT %(count)s FOR UPDATE SKIP LOCKED
)
"""  # noqa: S608 - composed of this module's constants

# Statements over many leased rows lock them in the order of their ids, so that no two of them wait for each other.
RENEW = """
WITH held AS (
  SELECT q.id FROM invocations_asyncinvocation q
  JOIN unnest(%s::uuid[], %s::uuid[]) AS held (id, token) ON q.id = held.id AND q.lease_token = held.token
  WHERE q.state = 'running' ORDER BY q.id FOR NO KEY UPDATE OF q
)
UPDATE invocations_asyncinvocation q SET lease_expires_at = %s FROM held WHERE q.id = held.id
RETURNING q.id, q.lease_token
"""

_UPDATE = (
    "UPDATE invocations_asyncinvocation SET {changes} WHERE id = %(id)s AND lease_token = %(token)s AND state = 'running'"
)

_HELD = """
WITH held AS (
  SELECT q.id, call.steps FROM invocations_asyncinvocation q
  JOIN unnest(%(ids)s::uuid[], %(tokens)s::uuid[], %(steps)s::jsonb[]) AS call (id, token, steps)
    ON q.id = call.id AND q.lease_token = call.token
  WHERE q.state = 'running' ORDER BY q.id FOR NO KEY UPDATE OF q
)"""

START_STORING = f"""{_HELD}
UPDATE invocations_asyncinvocation q
SET is_storing = true, instance_id = NULL, {appended(2, "held.steps")}
FROM held WHERE q.id = held.id RETURNING q.id, q.lease_token
"""  # noqa: S608 - composed of this module's constants
"""The models have answered: their slots are free from here on."""

# The same as END does, for many that are completed.
COMPLETE = f"""{_HELD}, ended AS (
  UPDATE invocations_asyncinvocation q
  SET state = 'completed', ended_at = %(now)s, lease_token = NULL, lease_expires_at = NULL, instance_id = NULL,
      is_storing = false, outcome_text = '', failure_kind = '', {appended(1, "held.steps")}
  FROM held WHERE q.id = held.id
  RETURNING q.id, q.account_id, q.endpoint_id, q.endpoint_name, q.variant_name
), dropped AS (
  DELETE FROM invocations_asyncpayload payload USING ended WHERE payload.invocation_id = ended.id
), told AS (
  INSERT INTO invocations_asyncnotification (
    invocation_id, account_id, endpoint_id, endpoint_name, variant_name, kind, topic, message, created_at,
    due_at, attempts, last_error)
  SELECT ended.id, account_id, endpoint_id, endpoint_name, variant_name, 'result', topic, message, %(now)s, %(now)s,
         0, ''
  FROM ended JOIN unnest(%(told)s::uuid[], %(topics)s::varchar[], %(messages)s::text[]) AS note (id, topic, message)
    USING (id)
)
SELECT call.id, call.token FROM ended JOIN unnest(%(ids)s::uuid[], %(tokens)s::uuid[]) AS call (id, token) USING (id)
"""  # noqa: S608 - composed of this module's constants

DECIDE_FAILURE = _UPDATE.format(changes="outcome_text = %(text)s, failure_kind = %(kind)s, instance_id = NULL")

RETRY = _UPDATE.format(
    changes=(
        "state = 'queued', due_at = %(due_at)s, instance_id = NULL, lease_token = NULL, lease_expires_at = NULL, "
        "attempts = attempts - %(uncounted)s, {appended}"
    )
)

# The one outcome, the messages that tell of it, and the end of a payload that nobody will ask for again.
END = """
WITH ended AS (
  UPDATE invocations_asyncinvocation
  SET state = %(state)s, ended_at = %(now)s, lease_token = NULL, lease_expires_at = NULL, instance_id = NULL,
      is_storing = false, outcome_text = %(text)s, failure_kind = %(kind)s, {appended}
  WHERE id = %(id)s AND lease_token = %(token)s AND state = 'running'
  RETURNING id, account_id, endpoint_id, endpoint_name, variant_name
), dropped AS (
  DELETE FROM invocations_asyncpayload payload USING ended
  WHERE payload.invocation_id = ended.id AND %(state)s = 'completed'
), told AS (
  INSERT INTO invocations_asyncnotification (
    invocation_id, account_id, endpoint_id, endpoint_name, variant_name, kind, topic, message, created_at,
    due_at, attempts, last_error)
  SELECT ended.id, account_id, endpoint_id, endpoint_name, variant_name, 'result', topic, message, %(now)s, %(now)s,
         0, ''
  FROM ended, unnest(%(topics)s::varchar[], %(messages)s::text[]) AS note (topic, message)
)
SELECT id FROM ended
"""

PAYLOADS = "SELECT invocation_id, body FROM invocations_asyncpayload WHERE invocation_id = ANY(%s)"

BEAT = """
INSERT INTO observability_heartbeat (role, process_id, seen_at) VALUES ('worker', %s, clock_timestamp())
ON CONFLICT (role, process_id) DO UPDATE SET seen_at = excluded.seen_at
"""
