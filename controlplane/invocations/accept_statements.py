"""The statements that store accepted requests: one alone, which is the usual case where little is to do, or many together.

Each stores a request's id once, however often it runs; requests of endpoints that are gone it does not store. Its rows are
the endpoints, written out, of which it has stored requests, or had before; whoever claims is told by a notification.
"""

from collections.abc import Callable

from controlplane.invocations.accepted import FIELDS
from controlplane.invocations.line import Statement
from controlplane.invocations.notices import CHANNEL

_AS_QUEUED = {
    "variant_name": "''",
    "state": "'queued'",
    "attempts": "0",
    "is_storing": "false",
    "outcome_text": "''",
    "failure_kind": "''",
    "timeline": "'[]'",
    "redrives": "0",
}
"""What every request begins with."""

_IS_OPEN = "endpoint.phase NOT IN ('Deleting', 'Failed')"


def _insert(value: Callable[[str], str]) -> str:
    """The start of an INSERT of the rows in which a field of `Accepted` is `value` of its name."""
    columns = {name: value(name) for name in FIELDS if name != "body"}
    columns |= {"due_at": value("accepted_at"), **_AS_QUEUED}
    return f"INSERT INTO invocations_asyncinvocation ({', '.join(columns)}) SELECT {', '.join(columns.values())}"


def _one() -> Statement:
    def value(name: str) -> str:
        return f"%({name})s::{FIELDS[name].type}"

    endpoint = f"FROM endpoints_endpoint endpoint WHERE endpoint.id = {value('endpoint_id')} AND {_IS_OPEN}"
    sql = f"""
WITH invocation AS (
  {_insert(value)} {endpoint} ON CONFLICT (id) DO NOTHING RETURNING id, input_location
), payload AS (
  INSERT INTO invocations_asyncpayload (invocation_id, body)
  SELECT id, {value("body")} FROM invocation WHERE input_location = ''
)
SELECT endpoint.id::text, pg_notify('{CHANNEL}', endpoint.id || ' ' || {value("id")}) {endpoint}
"""  # noqa: S608 - composed of this module's constants
    return Statement("accept_one", sql, **{name: field.one for name, field in FIELDS.items()})


def _many() -> Statement:
    arrays = ", ".join(f"%({name})s::{field.type}[]" for name, field in FIELDS.items())
    sql = f"""
WITH row AS (
  SELECT row.* FROM unnest({arrays}) AS row ({", ".join(FIELDS)})
  JOIN endpoints_endpoint endpoint ON endpoint.id = row.endpoint_id AND {_IS_OPEN}
), invocation AS (
  {_insert(str)} FROM row ON CONFLICT (id) DO NOTHING RETURNING id
), payload AS (
  INSERT INTO invocations_asyncpayload (invocation_id, body)
  SELECT row.id, row.body FROM row JOIN invocation USING (id) WHERE row.input_location = ''
)
SELECT endpoint FROM (
  SELECT endpoint_id::text AS endpoint, CASE count(*) WHEN 1 THEN ' ' || (array_agg(id))[1] ELSE '' END AS alone
  FROM row GROUP BY endpoint_id
) AS told, pg_notify('{CHANNEL}', endpoint || alone)
"""  # noqa: S608 - composed of this module's constants
    return Statement("accept", sql, **{name: field.many for name, field in FIELDS.items()})


INSERT_ONE, INSERT = _one(), _many()
