"""How often a password may be guessed: so many times for one name within a few minutes, over all processes.

Counted before the password is looked at, so that guesses sent at once are counted too, and those beyond the limit do not
cost the slow hash. The count is kept by name, not by address: behind a proxy all callers have one. Whoever is locked out by
somebody else's guessing waits for the next window; sessions, tokens and signatures are not touched.

Without the store nothing is counted: operators must get in most of all while something is down.
"""

import hashlib
import logging
from datetime import datetime

from django.core.cache import cache
from redis.exceptions import RedisError

LIMIT = 10
WINDOW_SECONDS = 300

log = logging.getLogger(__name__)


def may_guess(name: str, now: datetime) -> bool:
    """Count one more guess for this name; whether it is still within the limit."""
    key = _key(name, now)
    try:
        cache.add(key, 0, timeout=WINDOW_SECONDS * 2)
        return cache.incr(key) <= LIMIT
    except (RedisError, ValueError) as error:  # ValueError: it expired between the two
        log.warning("guesses of passwords are not counted: %s", error)
        return True


def forget(name: str, now: datetime) -> None:
    """Start again: the password was right."""
    try:
        cache.delete(_key(name, now))
    except RedisError as error:
        log.warning("guesses of passwords are not counted: %s", error)


def _key(name: str, now: datetime) -> str:
    """Names are anybody's to send: their digest is short and printable."""
    window = int(now.timestamp()) // WINDOW_SECONDS
    return f"guesses:{window}:{hashlib.sha256(name.encode()).hexdigest()}"
