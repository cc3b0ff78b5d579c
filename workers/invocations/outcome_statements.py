"""The statements that record what became of leased requests. Every write is guarded by the lease's token."""

from controlplane.invocations import columns
from controlplane.invocations.line import Statement
from controlplane.invocations.steps_sql import appended

# Of one worker, the statements over many rows come one after the other, and those over one row wait for nothing while
# they hold it: so no two of them wait for each other. The token alone tells that a lease is held, since whatever ends a
# lease clears it; asking for the state as well would have PostgreSQL look through all that runs, by its index.
RENEW = Statement(
    "renew",
    """
UPDATE invocations_asyncinvocation q SET lease_expires_at = %(lease_expires_at)s::timestamptz
FROM unnest(%(ids)s::uuid[], %(tokens)s::uuid[]) AS held (id, token)
WHERE q.id = held.id AND q.lease_token = held.token
RETURNING q.id, q.lease_token
""",
    ids=columns.uuids,
    tokens=columns.uuids,
    lease_expires_at=columns.moment,
)

_UPDATE = (
    "UPDATE invocations_asyncinvocation SET {changes} WHERE id = %(id)s AND lease_token = %(token)s AND state = 'running'"
)

# Notes are messages of the outbox; `note` has the id of the request and where and what they are.
_TOLD = """
  INSERT INTO invocations_asyncnotification (
    invocation_id, account_id, endpoint_id, endpoint_name, variant_name, kind, topic, message, created_at,
    due_at, attempts, last_error)
  SELECT ended.id, account_id, endpoint_id, endpoint_name, variant_name, 'result', topic, message, %(now)s::timestamptz,
         %(now)s::timestamptz, 0, ''
  FROM ended JOIN {notes} USING (id)
"""

# Two kinds of news of requests whose model has answered: the answer is about to be stored (their slots are free from here
# on), and it is stored. A request is in one batch once, since each waits for its first news to be written.
_MADE = f"""
WITH call AS MATERIALIZED (
  SELECT * FROM unnest(%(ids)s::uuid[], %(tokens)s::uuid[], %(steps)s::jsonb[], %(ended)s::int[])
    AS call (id, token, steps, ended)
), storing AS (
  UPDATE invocations_asyncinvocation q
  SET is_storing = true, instance_id = NULL, {appended(2, "call.steps")}
  FROM call WHERE q.id = call.id AND q.lease_token = call.token AND call.ended = 0
  RETURNING q.id, call.token
), ended AS (
  UPDATE invocations_asyncinvocation q
  SET state = 'completed', ended_at = %(now)s::timestamptz, lease_token = NULL, lease_expires_at = NULL, instance_id = NULL,
      is_storing = false, outcome_text = '', failure_kind = '', {appended(1, "call.steps")}
  FROM call WHERE q.id = call.id AND q.lease_token = call.token AND call.ended = 1
  RETURNING q.id, call.token, q.account_id, q.endpoint_id, q.endpoint_name, q.variant_name
), dropped AS (
  DELETE FROM invocations_asyncpayload payload USING ended WHERE payload.invocation_id = ended.id
), told AS ({
    _TOLD.format(
        notes="unnest(%(told)s::uuid[], %(topics)s::varchar[], %(messages)s::varchar[]) AS note (id, topic, message)"
    )
})
SELECT id, token FROM storing UNION ALL SELECT id, token FROM ended
"""  # noqa: S608 - composed of this module's constants
MADE = Statement(
    "made",
    _MADE,
    ids=columns.uuids,
    tokens=columns.uuids,
    steps=columns.documents,
    ended=columns.integers,
    now=columns.moment,
    told=columns.uuids,
    topics=columns.texts,
    messages=columns.texts,
)

DECIDE_FAILURE = _UPDATE.format(changes="outcome_text = %(text)s, failure_kind = %(kind)s, instance_id = NULL")

RETRY = _UPDATE.format(
    changes=(
        "state = 'queued', due_at = %(due_at)s, instance_id = NULL, lease_token = NULL, lease_expires_at = NULL, "
        "attempts = attempts - %(uncounted)s, {appended}"
    )
)

# The one outcome, the messages that tell of it, and the end of a payload that nobody will ask for again.
END = f"""
WITH ended AS (
  UPDATE invocations_asyncinvocation
  SET state = %(state)s, ended_at = %(now)s, lease_token = NULL, lease_expires_at = NULL, instance_id = NULL,
      is_storing = false, outcome_text = %(text)s, failure_kind = %(kind)s, {{appended}}
  WHERE id = %(id)s AND lease_token = %(token)s AND state = 'running'
  RETURNING id, account_id, endpoint_id, endpoint_name, variant_name
), dropped AS (
  DELETE FROM invocations_asyncpayload payload USING ended
  WHERE payload.invocation_id = ended.id AND %(state)s = 'completed'
), told AS ({
    _TOLD.format(
        notes="(SELECT %(id)s::uuid AS id, * FROM unnest(%(topics)s::varchar[], %(messages)s::text[])) "
        "AS note (id, topic, message)"
    )
})
SELECT id FROM ended
"""  # noqa: S608 - composed of this module's constants
