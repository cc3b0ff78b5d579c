"""Secrets of access keys at rest: encrypted with a Fernet key, in clear only in memory.

Several keys, separated by commas, may be configured: the first encrypts, all of them decrypt, so keys can be rotated.
"""

from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken, MultiFernet


class SecretUnreadable(Exception):
    """A stored secret cannot be decrypted with the configured keys; the message names no secret."""


def encrypt(secret: str, keys: str) -> str:
    """`secret` encrypted with the first of `keys`."""
    return _fernet(keys).encrypt(secret.encode()).decode()


@lru_cache(maxsize=1024)
def decrypt(encrypted: str, keys: str) -> str:
    """The secret in clear; raises SecretUnreadable. Kept in memory, since every request needs its key's."""
    try:
        return _fernet(keys).decrypt(encrypted.encode()).decode()
    except InvalidToken as error:
        raise SecretUnreadable("A stored secret was encrypted with another HEADRACE_SECRET_KEY.") from error


def _fernet(keys: str) -> MultiFernet:
    try:
        return MultiFernet([Fernet(key.strip()) for key in keys.split(",")])
    except ValueError as error:
        raise SecretUnreadable("HEADRACE_SECRET_KEY must be one or more Fernet keys (32 bytes in base64).") from error
