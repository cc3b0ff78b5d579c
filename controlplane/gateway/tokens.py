"""API tokens at the runtime paths: `Authorization: Bearer hr_...`, for clients that cannot sign, generated ones above all.

Only digests are stored and known here: a token is looked up by the digest of what was sent. It may do what its role says,
and one that belongs to a user no more than the user, as `auth.tokens` has it for the resource paths. Calling a model is a
change (it costs, and it may queue work), so it takes an operator's role. What was used is told to the database with the
next comparison, at most once a minute for each token.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from psycopg import AsyncConnection

from controlplane.auth.roles import Role
from controlplane.core import clock
from controlplane.core.errors import AccessDeniedException, ExpiredToken, UnrecognizedClient

PREFIX = "hr_"
NOTED_EVERY = timedelta(minutes=1)
TOLD_AS_EXPIRED = timedelta(days=30)
"""How long a token that has expired is told so; after that it is not known any more."""

_GROUPS = [role.group for role in sorted(Role)]
"""Django's groups by the number of their role, which starts at 1 as SQL's arrays do."""

_TOKENS = """
SELECT t.digest, t.account_id, t.name || ' (' || t.prefix || '...)', t.expires_at, CASE
    WHEN t.user_id IS NULL THEN t.role
    WHEN NOT (u.is_active AND u.is_staff) THEN 0
    WHEN u.is_superuser THEN t.role
    ELSE LEAST(t.role, COALESCE((
        SELECT max(array_position(%(groups)s::text[], g.name::text)) FROM auth_user_groups ug
        JOIN auth_group g ON g.id = ug.group_id WHERE ug.user_id = u.id
    ), 0))
END
FROM identity_apitoken t LEFT JOIN auth_user u ON u.id = t.user_id
WHERE t.revoked_at IS NULL AND t.expires_at > %(since)s
"""
_NOTE = """
UPDATE identity_apitoken SET last_used_at = %(now)s
WHERE digest = ANY(%(digests)s) AND (last_used_at IS NULL OR last_used_at <= %(before)s)
"""


@dataclass(frozen=True)
class Token:
    """A token as the gateway needs it; `name` is for people, `role` 0 where its user has none any more."""

    account_id: str
    name: str
    expires_at: datetime
    role: int


def digest_in(authorization: str | None) -> str | None:
    """The digest of the API token in an Authorization header; None where the header has something else."""
    scheme, _, secret = (authorization or "").partition(" ")
    secret = secret.strip()
    if scheme.lower() != "bearer" or not secret.startswith(PREFIX):
        return None
    return hashlib.sha256(secret.encode("latin-1")).hexdigest()


class TokenRing:
    """The tokens as last read, and which of them were used since."""

    def __init__(self) -> None:
        self._tokens: dict[str, Token] = {}
        self._used: set[str] = set()

    def knows(self, digest: str) -> bool:
        """Whether there is such a token, good or not."""
        return digest in self._tokens

    def admit(self, digest: str, now: datetime) -> Token:
        """The token, if it may call a model now; raises UnrecognizedClient, ExpiredToken, AccessDeniedException."""
        token = self._tokens.get(digest)
        if token is None:
            raise UnrecognizedClient("The API token is not known, or was revoked.")
        if now >= token.expires_at:
            raise ExpiredToken(f"Token {token.name} has expired at {token.expires_at:%Y-%m-%d %H:%M} UTC. Make another.")
        if token.role < Role.OPERATOR:
            raise _denied(token)
        self._used.add(digest)
        return token

    async def read(self, connection: AsyncConnection[Any]) -> None:
        """Read the tokens again, and note which were used."""
        now = clock.now()
        await self._note(connection, now)
        wanted: dict[str, Sequence[str] | datetime] = {"groups": _GROUPS, "since": now - TOLD_AS_EXPIRED}
        rows = await (await connection.execute(_TOKENS, wanted)).fetchall()
        self._tokens = {digest: Token(*about) for digest, *about in rows}

    async def _note(self, connection: AsyncConnection[Any], now: datetime) -> None:
        if self._used:
            used, self._used = self._used, set()
            await connection.execute(_NOTE, {"now": now, "before": now - NOTED_EVERY, "digests": [*used]})


def _denied(token: Token) -> AccessDeniedException:
    held = Role(token.role).group if token.role else "no role"
    error = AccessDeniedException(f"Token {token.name} is {held}; calling a model takes an operator.")
    error.status = 403
    return error
