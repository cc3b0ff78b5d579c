"""Finding the key behind a signature."""

from django.conf import settings

from controlplane.auth.models import AccessKey
from controlplane.auth.secrets import decrypt
from controlplane.auth.sigv4 import Key


def find_key(access_key_id: str) -> Key | None:
    """The active key of this id with its secret in clear, None where there is none."""
    row = AccessKey.objects.filter(access_key_id=access_key_id, is_active=True).first()
    if row is None:
        return None
    return Key(row.access_key_id, decrypt(row.secret_encrypted, settings.HEADRACE.secret_key), row.account_id)
