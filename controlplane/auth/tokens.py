"""API tokens: made, listed, revoked, and recognised when one is presented.

    hr_ + 43 characters of base64url (256 random bits)

The secret is shown once, to whoever made it. So many random bits need no slow hash: a digest that is found is the token.
"""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet

from controlplane.auth import accounts
from controlplane.auth.models import ApiToken
from controlplane.auth.roles import Role, role_of
from controlplane.core import actor
from controlplane.core.errors import (
    AccessDeniedException,
    ExpiredToken,
    ResourceLimitExceeded,
    ResourceNotFound,
    UnrecognizedClient,
    ValidationException,
)
from controlplane.core.ids import new_uuid
from controlplane.observability import events

PREFIX = "hr_"
SECRET_BYTES = 32
SHOWN_CHARACTERS = 10
DEFAULT_DAYS, MOST_DAYS = 90, 365
USE_NOTED_EVERY = timedelta(minutes=1)
ACCOUNT_LIMIT = 200
"""Tokens of an account that are good at once."""

_NO_SUCH_TOKEN = "The API token is not known, or was revoked."


@dataclass(frozen=True)
class Rights:
    """What a token that was presented is good for."""

    token: ApiToken
    role: Role


def create(
    account_id: str, name: str, role: Role, *, now: datetime, days: int = DEFAULT_DAYS, user: Any = None
) -> tuple[ApiToken, str]:
    """A new token and its secret, which is not to be had again. Raises ValidationException, ResourceLimitExceeded."""
    if not 1 <= days <= MOST_DAYS:
        raise ValidationException(f"A token is good for 1 to {MOST_DAYS} days, not {days}.")
    if not name.strip() or not name.isprintable() or len(name) > 63:
        raise ValidationException("A token's name has 1 to 63 printable characters.")
    secret = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
    with transaction.atomic():
        accounts.lock(account_id)
        if good(account_id, now).count() >= ACCOUNT_LIMIT:
            raise ResourceLimitExceeded(f"Account {account_id} has {ACCOUNT_LIMIT} tokens. Revoke some that are not used.")
        token = ApiToken.objects.create(
            id=new_uuid(),
            account_id=account_id,
            user=user,
            name=name,
            role=role,
            digest=_digest(secret),
            prefix=secret[:SHOWN_CHARACTERS],
            created_at=now,
            created_by=actor.current(),
            expires_at=now + timedelta(days=days),
        )
        sentence = f"Token {token} is made: {role.group}, until {token.expires_at:%Y-%m-%d %H:%M} UTC."
        events.record(_subject(token), "ApiTokenCreated", sentence, now=now)
    return token, secret


def listed(account_id: str) -> "QuerySet[ApiToken]":
    """The account's tokens, ended ones too, the latest first."""
    return ApiToken.objects.filter(account_id=account_id).select_related("user")


def good(account_id: str, now: datetime) -> "QuerySet[ApiToken]":
    """Those that are neither revoked nor expired."""
    return listed(account_id).filter(revoked_at=None, expires_at__gt=now)


def state(token: ApiToken, now: datetime) -> str:
    """`active`, `expired` or `revoked`."""
    if token.revoked_at is not None:
        return "revoked"
    return "active" if now < token.expires_at else "expired"


def get(account_id: str, token_id: UUID) -> ApiToken:
    """One of the account's tokens; raises ResourceNotFound."""
    token = listed(account_id).filter(pk=token_id).first()
    if token is None:
        raise ResourceNotFound(f"There is no token {token_id}.")
    return token


def revoke(account_id: str, token_id: UUID, now: datetime) -> ApiToken:
    """End a token for good; once more changes nothing. Raises ResourceNotFound.

    The resource paths refuse it at once, a gateway when it next compares what it knows (`gateway.directory`): within
    seconds, unless it has lost the database, when it goes by what it has read last.
    """
    token = get(account_id, token_id)
    with transaction.atomic():
        if ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=now):
            events.record(_subject(token), "ApiTokenRevoked", f"Token {token} is revoked.", now=now)
    token.refresh_from_db()
    return token


def recognise(secret: str, now: datetime) -> Rights:
    """The token that was presented and what it is good for.

    Raises UnrecognizedClient, ExpiredToken, or AccessDeniedException when the user it belongs to has no role any more.
    """
    token = ApiToken.objects.select_related("user").filter(digest=_digest(secret)).first()
    if token is None or token.revoked_at is not None:
        raise UnrecognizedClient(_NO_SUCH_TOKEN)
    if now >= token.expires_at:
        raise ExpiredToken(f"Token {token} has expired at {token.expires_at:%Y-%m-%d %H:%M} UTC. Make another.")
    role = _role(token)
    if role is None:
        raise AccessDeniedException(f"The operator whom token {token} belongs to has no role any more.")
    _note_use(token, now)
    return Rights(token, role)


def forget_ended(before: datetime, limit: int) -> None:
    """Delete tokens that expired or were revoked before then, so many at most."""
    ended = ApiToken.objects.filter(Q(revoked_at__lt=before) | Q(expires_at__lt=before))
    ApiToken.objects.filter(pk__in=ended.values("pk")[:limit]).delete()


def _role(token: ApiToken) -> Role | None:
    """The token's role, or its user's where that is lower."""
    if token.user is None:
        return Role(token.role)
    held = role_of(token.user)
    return None if held is None else min(Role(token.role), held)


def _note_use(token: ApiToken, now: datetime) -> None:
    # Most calls of a busy token write nothing.
    if token.last_used_at is None or now - token.last_used_at >= USE_NOTED_EVERY:
        ApiToken.objects.filter(pk=token.pk, last_used_at=token.last_used_at).update(last_used_at=now)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _subject(token: ApiToken) -> events.Subject:
    return events.Subject(token.account_id, "api-token", token.pk, token.name)
