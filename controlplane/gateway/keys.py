"""The access keys, their secrets in clear only here, in memory."""

import logging
from typing import Any

from psycopg import AsyncConnection

from controlplane.auth.secrets import SecretUnreadable, decrypt
from controlplane.auth.sigv4 import Key

log = logging.getLogger(__name__)

_KEYS = "SELECT access_key_id, secret_encrypted, account_id FROM identity_accesskey WHERE is_active"


class KeyRing:
    """The active keys as last read."""

    def __init__(self, secret_key: str) -> None:
        self._secret_key = secret_key
        self._rows: list[tuple[str, str, str]] = []
        self._keys: dict[str, Key] = {}

    def find(self, access_key_id: str) -> Key | None:
        """The active key of this id."""
        return self._keys.get(access_key_id)

    async def read(self, connection: AsyncConnection[Any]) -> None:
        """Read the keys again. Decrypting costs more than the query, so it is done when something has changed."""
        rows = sorted(await (await connection.execute(_KEYS)).fetchall())
        if rows != self._rows:
            keys = [self._decrypted(*row) for row in rows]
            self._rows, self._keys = rows, {key.access_key_id: key for key in keys if key is not None}

    def _decrypted(self, access_key_id: str, encrypted: str, account_id: str) -> Key | None:
        try:
            return Key(access_key_id, decrypt(encrypted, self._secret_key), account_id)
        except SecretUnreadable as error:
            log.error("access key %s cannot be used: %s", access_key_id, error)
            return None
